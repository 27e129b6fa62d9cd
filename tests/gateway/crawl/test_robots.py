"""robots.txt, its delay, and the directives of pages."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from ragstore_gateway.sources.directives import directives_of
from ragstore_gateway.sources.pace import MAX_CRAWL_DELAY_SECONDS
from tests.gateway.crawl.conftest import Crawler
from tests.gateway.web.fetchers import a_fetcher
from tests.support.changing_site import ChangingSite


def three_pages(site: ChangingSite) -> None:
    """A start page that links to two others."""
    site.article("/", "Start", "Start", ["/a", "/private/b"])
    site.article("/a", "A", "Text a")
    site.article("/private/b", "B", "Text b")


async def test_pages_that_robots_forbids_are_not_requested(crawler: Crawler) -> None:
    three_pages(crawler.site)
    crawler.site.robots("User-agent: *\nDisallow: /private/")
    crawled = await crawler.crawl()
    assert crawler.site.taken() == ["/", "/a"]
    assert crawled.outcomes == {"/": "changed", "/a": "changed", "/private/b": "skipped robots_disallowed"}
    assert crawled.end.complete


async def test_robots_are_ignored_if_the_source_does_not_respect_them(crawler: Crawler) -> None:
    three_pages(crawler.site)
    crawler.site.robots("User-agent: *\nDisallow: /private/\nCrawl-delay: 9")
    crawled = await crawler.crawl(respect_robots=False)
    assert "/robots.txt" not in crawler.site.paths()
    assert crawled.outcomes["/private/b"] == "changed"
    assert crawler.clock.waits == []


async def test_robots_are_ignored_if_the_rules_of_fetching_say_so(crawler: Crawler) -> None:
    three_pages(crawler.site)
    crawler.site.robots("User-agent: *\nDisallow: /")
    crawler.rules = {"robots": False}
    assert set((await crawler.crawl()).outcomes.values()) == {"changed"}
    assert "/robots.txt" not in crawler.site.paths()


async def test_robots_are_read_again_by_each_crawl(crawler: Crawler) -> None:
    three_pages(crawler.site)
    async with a_fetcher(crawler.site, robots=True) as crawler.fetcher:
        for text, outcome in (("", "changed"), ("User-agent: *\nDisallow: /private/", "skipped robots_disallowed")):
            crawler.site.robots(text)
            crawled = await crawler.crawl()
            assert crawler.site.paths().count("/robots.txt") == 1
            assert crawled.outcomes["/private/b"] == outcome


@pytest.mark.parametrize("status", ["500 Internal Server Error", "503 Service Unavailable", "429 Too Many Requests"])
async def test_nothing_is_fetched_if_robots_cannot_be_read(crawler: Crawler, status: str) -> None:
    three_pages(crawler.site)
    crawler.site.put("/robots.txt", "", status=status)
    crawled = await crawler.crawl()
    assert crawler.site.paths() == ["/robots.txt"]
    assert crawled.outcomes == {"/": "failed robots_unavailable"}
    assert (crawled.end.complete, crawled.end.reason) == (False, "robots_unavailable")


@pytest.mark.parametrize("status", ["404 Not Found", "403 Forbidden"])
async def test_everything_is_allowed_without_robots(crawler: Crawler, status: str) -> None:
    three_pages(crawler.site)
    crawler.site.put("/robots.txt", "User-agent: *\nDisallow: /", status=status)
    crawled = await crawler.crawl()
    assert len(crawled.visits) == 3
    assert crawled.end.complete


async def test_a_site_that_forbids_its_start_page_has_not_lost_its_pages(crawler: Crawler) -> None:
    three_pages(crawler.site)
    crawler.site.robots("User-agent: *\nDisallow: /")
    crawled = await crawler.crawl()
    assert crawled.outcomes == {"/": "skipped robots_disallowed"}
    assert (crawled.end.complete, crawled.end.reason) == (False, "robots_disallowed")


async def test_robots_of_another_host_that_cannot_be_read_keep_its_pages(crawler: Crawler) -> None:
    site = crawler.site
    # Nothing has this name.
    site.article("/", "Start", "Start", [f"http://coffee.test:{site.port}/bean"])
    crawled = await crawler.crawl(same_site_only=False)
    assert crawled.visits[1].reason == "robots_unavailable"
    assert (crawled.end.complete, crawled.end.reason) == (False, "robots_unavailable")


async def test_a_redirect_to_a_forbidden_page_is_not_followed(crawler: Crawler) -> None:
    site = crawler.site
    three_pages(site)
    site.robots("User-agent: *\nDisallow: /private/")
    site.move("/a", "/private/b")
    crawled = await crawler.crawl()
    assert "/private/b" not in site.paths()
    assert crawled.outcomes["/private/b"] == "skipped robots_disallowed"


@pytest.mark.parametrize(
    ("robots", "delay_ms", "seconds"),
    [
        ("", 500, 0.5),
        ("User-agent: *\nCrawl-delay: 2", 500, 2.0),
        ("User-agent: *\nCrawl-delay: 0.1", 500, 0.5),
        ("User-agent: *\nCrawl-delay: 86400", 500, MAX_CRAWL_DELAY_SECONDS),
    ],
)
async def test_the_longer_delay_counts_up_to_a_limit(
    crawler: Crawler, robots: str, delay_ms: int, seconds: float
) -> None:
    three_pages(crawler.site)
    crawler.site.robots(robots)
    crawled = await crawler.crawl(request_delay_ms=delay_ms, time_budget_minutes=60)
    # Between robots.txt, the sitemap that is not there, and three pages.
    assert crawler.clock.waits == pytest.approx([seconds] * 4)
    assert crawled.end.requests == 5


async def test_hosts_have_a_delay_each(crawler: Crawler) -> None:
    site = crawler.site
    crawler.names = {"coffee.test": [[site.address]]}
    site.article("/", "Start", "Start", [f"http://coffee.test:{site.port}/a"])
    site.article("/a", "A", "Text a")
    await crawler.crawl(same_site_only=False, respect_robots=False, request_delay_ms=1000)
    # The start page and the sitemap are on one host, the page on another one.
    assert crawler.clock.waits == pytest.approx([1.0])


@pytest.mark.parametrize("in_header", [False, True])
@pytest.mark.parametrize(
    ("directive", "outcomes"),
    [
        ("noindex", {"/": "skipped noindex", "/a": "changed"}),
        ("nofollow", {"/": "changed"}),
        ("none", {"/": "skipped noindex"}),
        ("noarchive", {"/": "changed", "/a": "changed"}),
    ],
)
async def test_directives_of_a_page_are_respected(
    crawler: Crawler, directive: str, outcomes: dict[str, str], in_header: bool
) -> None:
    site = crawler.site
    head = "" if in_header else f'<meta name="ROBOTS" content="max-snippet:9, {directive.upper()}">'
    site.article("/", "Start", "Start", ["/a"], head)
    if in_header:
        site.put("/", site.pages["/"].body, "text/html", f"X-Robots-Tag: {directive}")
    site.article("/a", "A", "Text a")
    assert (await crawler.crawl()).outcomes == outcomes
    assert (await crawler.crawl(respect_robots=False)).outcomes.keys() == {"/", "/a"}


async def test_a_known_page_that_becomes_noindex_is_no_document_any_more(crawler: Crawler) -> None:
    site = crawler.site
    site.article("/", "Start", "Start", ["/a"])
    site.article("/a", "A", "Text a")
    await crawler.crawl()
    # The content is the same, so that the response is 304 for one, and 200 without an extraction for the other.
    for etag in (True, False):
        site.put("/a", site.pages["/a"].body, "text/html", "X-Robots-Tag: noindex", etag=etag)
        crawled = await crawler.crawl()
        assert crawled.outcomes["/a"] == "skipped noindex"
        assert crawled.end.complete


async def test_links_that_are_not_to_be_followed_are_not(crawler: Crawler) -> None:
    site = crawler.site
    site.put("/", '<p>Start<a href=/a rel="external NoFollow">a</a><a href=/b>b</a><a href=/b rel=nofollow>b</a>')
    for name in "ab":
        site.article(f"/{name}", name, f"Text {name}")
    assert set((await crawler.crawl()).outcomes) == {"/", "/b"}
    assert set((await crawler.crawl(respect_robots=False)).outcomes) == {"/", "/a", "/b"}


@pytest.mark.parametrize(
    ("header", "directives"),
    [
        ("noindex, NOFOLLOW", {"noindex", "nofollow"}),
        ("otherbot: noindex", set()),
        ("ragstore-gateway: noindex", {"noindex"}),
        ("unavailable_after: 2026-01-01, noindex", {"unavailable_after: 2026-01-01", "noindex"}),
        ("none", {"none", "noindex", "nofollow"}),
        ("", {""}),
    ],
)
def test_directives_for_other_robots_are_ignored(header: str, directives: set[str]) -> None:
    assert directives_of(CIMultiDictProxy(CIMultiDict({"X-Robots-Tag": header})), ()) == directives
