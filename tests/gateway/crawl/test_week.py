"""A week of the test site: each day is a crawl."""

from __future__ import annotations

from tests.gateway.crawl.conftest import Crawler
from tests.support.changing_site import PAGES, WEEK


async def test_a_week_of_a_site(crawler: Crawler) -> None:
    days = {}
    for name, change in WEEK:
        change(crawler.site)
        crawled = await crawler.crawl()
        days[name] = (
            {path.removeprefix("/tea/"): outcome for path, outcome in crawled.outcomes.items()},
            crawled.end.reason,
        )
    same = {name: "unchanged" for name in PAGES}
    start = {"/": "changed"}
    assert days == {
        "Monday": (start | {name: "changed" for name in PAGES}, ""),
        "Tuesday": (start | same | {"green": "changed", "mate": "changed"}, ""),
        "Wednesday": ({"/": "failed robots_unavailable"}, "robots_unavailable"),
        "Thursday": ({"/": "failed robots_unavailable"}, "robots_unavailable"),
        "Friday": (
            start | {name: "unchanged" for name in ("green", "black", "oolong", "mate")}
            | {"rooibos": "skipped robots_disallowed"},
            "",
        ),
        "Saturday": (
            start | {name: "unchanged" for name in ("green", "black", "mate")} | {"rooibos": "skipped robots_disallowed"},
            "",
        ),
        "Sunday": (start | same | {"mate": "skipped redirect", "yerba-mate": "changed"}, ""),
    }  # fmt: skip
