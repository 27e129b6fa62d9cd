"""Limits of a crawl: pages, requests, links and time; what is cut short is not complete."""

from __future__ import annotations

import asyncio

import pytest

from ragstore_gateway.configurations.source import SourceSettings, WebSource
from ragstore_gateway.extraction.parsers.links import page_links
from ragstore_gateway.sources.crawl import Crawl
from ragstore_gateway.sources.frontier import Frontier
from ragstore_gateway.web.pages import PageReader
from tests.gateway.crawl.conftest import Crawler, FakeClock
from tests.gateway.web.fetchers import a_fetcher
from tests.support.changing_site import TEA, ChangingSite, article
from tests.support.fake_upstream import Exchange


def calendar(site: ChangingSite) -> None:
    """A page for every day, each of which links to the next day in some forms."""

    async def day(exchange: Exchange) -> None:
        number = int(exchange.request.target.rpartition("=")[2] or 0)
        links = [f"calendar?view={view}&day={number + 1}" for view in ("list", "grid")]
        body = article(f"Day {number}", f"Nothing on day {number}", links).encode()
        await exchange.respond(body, headers=["Content-Type: text/html"])

    site.behave("calendar", day)
    site.article("/", "Start", TEA, ["/calendar?view=list&day=0"])


async def test_an_endless_calendar_ends_at_the_maximum_of_pages(crawler: Crawler) -> None:
    calendar(crawler.site)
    crawled = await crawler.crawl(max_pages=12, max_depth=20)
    assert [visit.outcome for visit in crawled.visits] == ["changed"] * 12
    assert (crawled.end.complete, crawled.end.reason, crawled.end.pages) == (False, "max_pages", 12)


async def test_a_site_of_exactly_the_maximum_is_complete(crawler: Crawler) -> None:
    crawler.site.article("/", "Start", TEA, ["/a"])
    crawler.site.article("/a", "A", "Text a")
    assert (await crawler.crawl(max_pages=2)).end.complete
    crawled = await crawler.crawl(max_pages=1)
    assert (crawled.end.complete, crawled.end.reason) == (False, "max_pages")
    assert crawled.outcomes == {"/": "unchanged"}


async def test_pages_without_a_document_are_bounded_by_the_requests(crawler: Crawler) -> None:
    crawler.site.article("/", "Start", TEA, [f"/{number}" for number in range(500)])
    crawled = await crawler.crawl(max_pages=5)
    # Three for each page, and a hundred more.
    assert (crawled.end.reason, crawled.end.requests) == ("max_requests", 115)
    assert len(crawler.site.requests) == 115


async def test_a_crawl_ends_when_its_time_is_used_up(crawler: Crawler) -> None:
    calendar(crawler.site)
    crawled = await crawler.crawl(max_depth=20, request_delay_ms=10_000, time_budget_minutes=1)
    # robots.txt, the start page, the sitemap and three days; the next wait would exceed the minute.
    assert (crawled.end.complete, crawled.end.reason, crawled.end.requests) == (False, "time_budget", 6)
    assert sum(crawler.clock.waits) < 60


async def test_a_crawl_that_is_cancelled_is_not_complete(crawler: Crawler) -> None:
    site = crawler.site
    site.article("/", "Start", TEA, ["/hang"])
    reached = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def hang(exchange: Exchange) -> None:
        loop.call_soon_threadsafe(reached.set)
        await exchange.until_closed()

    site.behave("hang", hang)
    async with a_fetcher(site) as fetcher:
        web = WebSource(start_url=f"{site.origin}/", request_delay_ms=0)
        pages = PageReader(fetcher, crawler.extractor, 60)
        crawl = Crawl(fetcher, pages, web, SourceSettings(), crawler.lookup, FakeClock())

        async def consume() -> list[str]:
            return [visit.outcome async for visit in crawl.visits()]

        task = asyncio.create_task(consume())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (crawl.end.complete, crawl.end.reason) == (False, "cancelled")


async def test_a_crawl_that_is_left_is_not_complete(crawler: Crawler) -> None:
    site = crawler.site
    site.article("/", "Start", TEA)
    async with a_fetcher(site) as fetcher:
        web = WebSource(start_url=f"{site.origin}/", request_delay_ms=0)
        pages = PageReader(fetcher, crawler.extractor, 60)
        crawl = Crawl(fetcher, pages, web, SourceSettings(), crawler.lookup, FakeClock())
        visits = crawl.visits()
        assert (await anext(visits)).outcome == "changed"
        await visits.aclose()
        assert (crawl.end.complete, crawl.end.reason) == (False, "cancelled")


async def test_links_beyond_the_maximum_of_a_page_are_reported(
    crawler: Crawler, monkeypatch: pytest.MonkeyPatch
) -> None:
    for count, path, kept in ((10_100, "", 10_000), (1000, "x" * 4000, 499)):
        body = "".join(f"<a href=/{path}{number}>{number}</a>" for number in range(count)).encode()
        found = page_links(body, "text/html")
        assert (len(found.links), found.truncated) == (kept, True)
    monkeypatch.setattr("ragstore_gateway.sources.frontier.MAX_WAITING", 3)
    crawler.site.article("/", "Start", TEA, [f"/{number}" for number in range(5)])
    crawled = await crawler.crawl()
    assert (len(crawled.visits), crawled.end.reason) == (4, "max_links")


def test_pages_wait_in_the_order_of_their_depth() -> None:
    frontier = Frontier()
    for url, depth in (("a", 2), ("b", 1), ("c", 1), ("a", 0), ("b", 3)):
        frontier.add(url, depth)
    taken = frontier.take("c", 9)
    frontier.add("c", 0)
    found = [candidate.url for candidate in (frontier.next(), frontier.next(), frontier.next()) if candidate]
    assert (taken and taken.depth, found, frontier.take("a", 0)) == (1, ["a", "b"], None)
