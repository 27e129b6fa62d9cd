"""Redirects, duplicates and canonical pages: a page is one page, by whatever way it is reached."""

from __future__ import annotations

import pytest

from tests.gateway.crawl.conftest import Crawler
from tests.support.changing_site import TEA

pytestmark = pytest.mark.process


async def test_a_page_that_moved_is_one_page(crawler: Crawler) -> None:
    site = crawler.site
    site.article("/", "Start", TEA, ["/old", "/new", "/older"])
    site.move("/older", "/old")
    site.move("/old", "/new")
    site.article("/new", "New", "A new page")
    crawled = await crawler.crawl()
    assert crawled.outcomes == {
        "/": "changed", "/old": "skipped redirect", "/new": "changed", "/older": "skipped redirect"
    }  # fmt: skip
    assert site.taken() == ["/", "/old", "/new", "/older"]
    assert crawled.visit("/new").depth == 1
    assert crawled.end.complete


async def test_a_redirect_costs_a_304_if_its_target_is_unchanged(crawler: Crawler) -> None:
    crawler.site.article("/", "Start", TEA, ["/old"])
    crawler.site.move("/old", "/new", "302 Found")
    crawler.site.article("/new", "New", "A new page")
    await crawler.crawl()
    assert (await crawler.crawl()).visit("/new").status == 304


async def test_validators_of_a_page_are_not_those_of_the_page_it_moved_to(crawler: Crawler) -> None:
    crawler.site.article("/", "Start", TEA, ["/old"])
    crawler.site.article("/old", "Old", "An old page")
    await crawler.crawl()
    crawler.site.move("/old", "/new")
    crawler.site.article("/new", "New", "A new page")
    crawled = await crawler.crawl()
    assert crawled.outcomes == {"/": "unchanged", "/old": "skipped redirect", "/new": "changed"}
    assert [request.header("if-none-match") for request in crawler.site.requests if request.target == "/new"] == [[]]


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("http://coffee.test:{port}/a", "redirect_off_site"),
        ("/excluded", "redirect_excluded"),
        ("http://10.0.0.1/", ""),
    ],
)
async def test_a_redirect_out_of_the_source_is_not_followed(crawler: Crawler, location: str, reason: str) -> None:
    site = crawler.site
    crawler.names = {"coffee.test": [[site.address]]}
    site.article("/", "Start", TEA, ["/a", "/b"])
    site.move("/a", location.format(port=site.port))
    site.article("/b", "B", "Text b")
    crawled = await crawler.crawl(exclude_patterns=["/excluded"])
    assert site.taken() == ["/", "/a", "/b"]
    assert crawled.outcomes["/a"] == (f"skipped {reason}" if reason else "failed url_refused")
    assert crawled.outcomes["/b"] == "changed"


@pytest.mark.parametrize(
    ("status", "outcome"), [("302 Found", "failed"), ("307 Temporary", "failed"), ("301 Moved", "skipped")]
)
async def test_a_known_page_that_leads_away_for_the_moment_has_not_moved(
    crawler: Crawler, status: str, outcome: str
) -> None:
    site = crawler.site
    site.article("/", "Start", TEA, ["/a"])
    site.article("/a", "A", "Text a")
    await crawler.crawl()
    site.move("/a", f"http://login.test:{site.port}/", status)
    assert (await crawler.crawl()).outcomes["/a"] == f"{outcome} redirect_off_site"


async def test_endless_redirects_fail(crawler: Crawler) -> None:
    site = crawler.site
    site.article("/", "Start", TEA, ["/a", "/1", "/good"])
    site.move("/a", "/b")
    site.move("/b", "/a")
    for number in range(1, 20):
        site.move(f"/{number}", f"/{number + 1}")
    site.article("/good", "Good", "A good page")
    crawled = await crawler.crawl()
    assert (crawled.outcomes["/a"], crawled.outcomes["/b"]) == ("failed redirect", "failed too_many_redirects")
    assert crawled.outcomes["/6"] == "failed too_many_redirects"
    assert "/7" not in crawled.outcomes
    assert crawled.outcomes["/good"] == "changed"


async def test_a_redirect_to_a_page_that_fails_has_failed(crawler: Crawler) -> None:
    site = crawler.site
    site.article("/", "Start", TEA, ["/a", "/b", "/c"])
    site.move("/a", "/error", "302 Found")
    site.move("/b", "/error", "302 Found")
    site.move("/c", "/missing")
    site.put("/error", "", status="500 Internal Server Error")
    crawled = await crawler.crawl()
    assert crawled.outcomes["/a"] == crawled.outcomes["/b"] == "failed redirect"
    assert crawled.outcomes["/c"] == "gone redirect"


async def test_the_start_page_may_redirect_within_its_site(crawler: Crawler) -> None:
    site = crawler.site
    crawler.names = {name: [[site.address]] for name in ("tea.test", "www.tea.test")}
    site.move("/old", f"http://www.tea.test:{site.port}/docs/en")
    site.article("/docs/en", "Start", TEA, ["/docs/a"])
    site.article("/docs/a", "A", "Text a")
    crawled = await crawler.crawl(f"http://tea.test:{site.port}/old", path_prefix="/docs")
    assert [visit.outcome for visit in crawled.visits] == ["skipped", "changed", "changed"]
    assert crawled.end.complete


@pytest.mark.parametrize("status", ["301 Moved Permanently", "302 Found"])
async def test_a_start_page_that_leads_to_another_site_is_reported(crawler: Crawler, status: str) -> None:
    crawler.site.move("/", f"http://parked.test:{crawler.site.port}/", status)
    crawled = await crawler.crawl()
    assert (crawled.end.complete, crawled.end.reason) == (False, "start_page_moved")
    assert crawler.site.taken() == ["/"]


def canonical(url: str) -> str:
    """The element that names a canonical page."""
    return f'<link rel="canonical" href="{url}">'


async def test_a_copy_defers_to_the_page_that_it_names(crawler: Crawler) -> None:
    site = crawler.site
    site.article("/", "Start", TEA, ["/copy", "/other-copy"])
    site.article("/copy", "A", "Text a", ["/child"], canonical("/a"))
    site.article("/a", "A", "Text a", head=canonical("/a"))
    site.article("/other-copy", "A", "Text a", head=canonical("/a"))
    site.article("/child", "Child", "A child")
    crawled = await crawler.crawl()
    assert crawled.outcomes == {
        "/": "changed", "/a": "changed", "/copy": "skipped canonical", "/other-copy": "skipped canonical",
        "/child": "changed",
    }  # fmt: skip
    assert crawled.end.complete


@pytest.mark.parametrize("named", ["/missing", "/noindex", "/private", "/excluded", "http://coffee.test/", "http://["])
async def test_a_copy_of_a_page_that_is_no_document_is_one_itself(crawler: Crawler, named: str) -> None:
    site = crawler.site
    site.robots("User-agent: *\nDisallow: /private")
    site.article("/", "Start", TEA, ["/copy"])
    site.article("/copy", "A", "Text a", head=canonical(named))
    site.article("/noindex", "A", "Text a", head='<meta name="robots" content="noindex">')
    crawled = await crawler.crawl(exclude_patterns=["/excluded"])
    assert crawled.outcomes["/copy"] == "changed"
    assert crawled.end.complete


async def test_copies_that_name_each_other_are_one_page(crawler: Crawler) -> None:
    site = crawler.site
    site.article("/", "Start", TEA, ["/a", "/b"], canonical("/b"))
    site.article("/a", "A", "Text", head=canonical("/b"))
    site.article("/b", "B", "Text", head=canonical("/a"))
    crawled = await crawler.crawl()
    # The start page is always one of its own: the source names it.
    assert crawled.outcomes == {"/": "changed", "/a": "skipped canonical", "/b": "changed"}


async def test_a_canonical_page_that_redirects_to_its_copy_is_the_copy(crawler: Crawler) -> None:
    site = crawler.site
    site.article("/", "Start", TEA, ["/copy"])
    site.article("/copy", "A", "Text a", head=canonical("/a"))
    site.move("/a", "/copy")
    crawled = await crawler.crawl()
    assert crawled.outcomes == {"/": "changed", "/a": "skipped redirect", "/copy": "changed"}


async def test_a_chain_of_copies_is_one_page(crawler: Crawler) -> None:
    site = crawler.site
    site.article("/", "Start", TEA, ["/a"])
    site.article("/a", "A", "Text", head=canonical("/b"))
    site.article("/b", "B", "Text", head=canonical("/c"))
    site.move("/c", "/d")
    site.article("/d", "D", "Text")
    crawled = await crawler.crawl()
    assert {path for path, outcome in crawled.outcomes.items() if outcome == "changed"} == {"/", "/d"}
    assert crawled.outcomes.keys() == {"/", "/a", "/b", "/c", "/d"}
