"""A week of the test site: each day is a crawl."""

from __future__ import annotations

import pytest

from tests.gateway.crawl.conftest import Crawler
from tests.support.changing_site import PAGES, WEEK

pytestmark = pytest.mark.process


async def test_a_week_of_a_site(crawler: Crawler) -> None:
    days = {}
    for name, change in WEEK:
        change(crawler.site)
        crawled = await crawler.crawl()
        days[name] = (
            {path.removeprefix("/tea/"): outcome for path, outcome in crawled.outcomes.items()},
            crawled.end.reason,
        )
    same = dict.fromkeys(PAGES, "unchanged")
    start = {"/": "changed"}
    forbidden = {"rooibos": "skipped robots_disallowed"}
    assert days == {
        "Monday": (start | dict.fromkeys(PAGES, "changed"), ""),
        "Tuesday": (start | same | {"green": "changed", "mate": "changed"}, ""),
        "Wednesday": ({"/": "failed robots_unavailable"}, "robots_unavailable"),
        "Thursday": ({"/": "failed robots_unavailable"}, "robots_unavailable"),
        "Friday": (
            start | dict.fromkeys(("green", "black", "oolong", "mate"), "unchanged")
            | forbidden, "",
        ),
        "Saturday": (
            start | dict.fromkeys(("green", "black", "mate"), "unchanged") | forbidden, "",
        ),
        "Sunday": (start | same | {"mate": "skipped redirect", "yerba-mate": "changed"}, ""),
    }  # fmt: skip
