"""Failures: of a page, of the start page, of the whole site, and pages that only look well."""

from __future__ import annotations

import pytest
import structlog

from ragstore_gateway.errors import ExtractionUnavailable
from ragstore_gateway.extraction.extracted import Extracted, PageLinks
from ragstore_gateway.fetching.fetched import Fetched
from ragstore_gateway.sources.pace import DEFAULT_RETRY_SECONDS, retry_after_seconds
from ragstore_gateway.web.pages import PageReader
from tests.gateway.crawl.conftest import Crawler
from tests.support.changing_site import TEA, ChangingSite
from tests.support.fake_upstream import Behaviour, Exchange


def three_pages(site: ChangingSite) -> None:
    """A start page, a page, and one that is linked from it only."""
    site.article("/", "Start", f"Start {TEA * 2}", ["/a", "/c"])
    site.article("/a", "A", f"Text a {TEA * 2}", ["/b"])
    site.article("/b", "B", f"Text b {TEA * 2}")
    site.article("/c", "C", f"Text c {TEA * 2}")


@pytest.mark.parametrize("status", ["404 Not Found", "410 Gone"])
async def test_a_page_that_is_not_found_is_gone(crawler: Crawler, status: str) -> None:
    three_pages(crawler.site)
    await crawler.crawl()
    crawler.site.put("/c", "Not here", status=status)
    crawled = await crawler.crawl()
    assert crawled.outcomes["/c"] == f"gone status_{status[:3]}"
    assert crawled.end.complete


@pytest.mark.parametrize(
    "status", ["500 Internal Server Error", "502 Bad Gateway", "401 Unauthorized", "403 Forbidden", "202 Accepted"]
)
async def test_a_known_page_that_fails_is_not_gone_and_its_links_are_followed(crawler: Crawler, status: str) -> None:
    three_pages(crawler.site)
    await crawler.crawl()
    crawler.site.put("/a", "An error", status=status)
    crawled = await crawler.crawl()
    assert crawled.outcomes == {
        "/": "unchanged", "/a": f"failed status_{status[:3]}", "/c": "unchanged", "/b": "unchanged"
    }  # fmt: skip
    assert crawled.end.complete


async def _drop(exchange: Exchange) -> None:
    exchange.drop()


async def _hang(exchange: Exchange) -> None:
    await exchange.until_closed()


async def _break_off(exchange: Exchange) -> None:
    await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000\r\n\r\n<p>half")
    exchange.writer.close()


@pytest.mark.parametrize(
    ("behaviour", "reason"), [(_drop, "response_invalid"), (_hang, "fetch_timeout"), (_break_off, "response_invalid")]
)
async def test_a_page_whose_connection_fails_is_not_gone(crawler: Crawler, behaviour: Behaviour, reason: str) -> None:
    three_pages(crawler.site)
    await crawler.crawl()
    crawler.site.behave("a", behaviour)
    crawler.rules = {"timeout_seconds": 0.3}
    crawled = await crawler.crawl()
    assert crawled.outcomes["/a"] == f"failed {reason}"
    assert crawled.outcomes["/b"] == "unchanged"
    assert crawled.end.complete


@pytest.mark.parametrize(
    ("status", "complete"), [("500 Internal Server Error", False), ("403 Forbidden", True), ("404 Not Found", True)]
)
async def test_an_unknown_page_that_fails_may_be_the_only_way_to_others(
    crawler: Crawler, status: str, complete: bool
) -> None:
    three_pages(crawler.site)
    crawler.site.put("/a", "An error", status=status)
    crawled = await crawler.crawl()
    assert (crawled.end.complete, crawled.end.reason) == (complete, "" if complete else "pages_failed")
    # Without links that would be followed, nothing can be missed.
    assert (await crawler.crawl(max_depth=1)).end.complete


@pytest.mark.parametrize(("known", "complete"), [(False, False), (True, True)])
async def test_a_page_whose_text_cannot_be_extracted_at_present_is_not_gone(
    crawler: Crawler, monkeypatch: pytest.MonkeyPatch, known: bool, complete: bool
) -> None:
    three_pages(crawler.site)
    if known:
        await crawler.crawl()
    document = PageReader.document

    async def unavailable(self: PageReader, response: Fetched) -> tuple[Extracted, PageLinks]:
        if response.url.endswith("/a"):
            raise ExtractionUnavailable("The gateway is shutting down")
        return await document(self, response)

    monkeypatch.setattr(PageReader, "document", unavailable)
    crawler.site.article("/a", "A", f"Another text a {TEA * 2}", ["/b"])
    crawled = await crawler.crawl()
    assert crawled.outcomes["/a"] == "failed extraction_unavailable"
    assert ("/b" in crawled.outcomes, crawled.end.complete) == (known, complete)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("500 Internal Server Error", "start_page_failed"),
        ("404 Not Found", "start_page_gone"),
        ("", "start_page_failed"),
    ],
)
async def test_a_start_page_that_fails_ends_the_crawl(crawler: Crawler, status: str, reason: str) -> None:
    three_pages(crawler.site)
    await crawler.crawl()
    crawler.site.robots("")
    if status:
        crawler.site.put("/", "An error", status=status)
    else:
        crawler.site.put("/", b"\x89PNG\r\n\x1a\n", "image/png")
    crawled = await crawler.crawl()
    assert (crawled.end.complete, crawled.end.reason) == (False, reason)
    assert crawler.site.taken() == ["/"]


async def test_a_site_that_is_down_is_not_gone(crawler: Crawler) -> None:
    three_pages(crawler.site)
    await crawler.crawl()
    crawler.site.is_down = True
    crawled = await crawler.crawl()
    assert (crawled.end.complete, crawled.end.reason) == (False, "robots_unavailable")
    assert crawled.outcomes == {"/": "failed robots_unavailable"}


async def test_a_crawl_without_any_document_has_learned_nothing(crawler: Crawler) -> None:
    crawler.site.article("/", "Start", TEA, ["/a"], '<meta name="robots" content="noindex">')
    crawled = await crawler.crawl()
    assert crawled.outcomes == {"/": "skipped noindex", "/a": "gone status_404"}
    assert (crawled.end.complete, crawled.end.reason) == (False, "nothing_learned")


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Maintenance", "We will be back soon."),
        ("Just a moment...", "Enable JavaScript and cookies to continue."),
        ("Shop", "Page not found"),
        ("", ""),
    ],
)
@pytest.mark.parametrize("redirected", [False, True])
async def test_a_long_text_that_became_an_error_is_a_failure(
    crawler: Crawler, title: str, text: str, redirected: bool
) -> None:
    site = crawler.site
    three_pages(site)
    await crawler.crawl()
    if redirected:
        site.move("/a", "/status", "302 Found")
        site.move("/c", "/status", "302 Found")
    site.put("/status" if redirected else "/a", f"<title>{title}</title><p>{text}</p>")
    crawled = await crawler.crawl()
    assert crawled.outcomes["/status" if redirected else "/a"] == "failed soft_failure"
    assert crawled.outcomes["/a"].startswith("failed")
    # The children of the page that failed are found nevertheless.
    assert crawled.outcomes["/b"] == "unchanged"
    assert not redirected or crawled.outcomes["/c"] == "failed redirect"


async def test_a_short_text_without_an_error_is_a_change(crawler: Crawler) -> None:
    three_pages(crawler.site)
    await crawler.crawl()
    crawler.site.article("/c", "C", "This page is short now.")
    assert (await crawler.crawl()).outcomes["/c"] == "changed"


async def test_a_long_text_about_errors_is_a_change(crawler: Crawler) -> None:
    three_pages(crawler.site)
    await crawler.crawl()
    crawler.site.article("/c", "Errors", f"Error 404 means: not found. {TEA}")
    assert (await crawler.crawl()).outcomes["/c"] == "changed"


async def test_a_known_page_that_has_no_text_now_is_not_gone(crawler: Crawler) -> None:
    crawler.site.article("/", "Start", TEA, ["/a"])
    crawler.site.article("/a", "A", "Text a")
    await crawler.crawl()
    crawler.site.put("/a", "<html><body></body></html>")
    assert (await crawler.crawl()).outcomes["/a"] == "failed no_text"


@pytest.mark.parametrize(("status", "header"), [("503 Busy", "7"), ("429 Too Many Requests", "7"), ("429 Slow", "")])
async def test_a_rejected_page_is_requested_again_after_the_time_of_the_server(
    crawler: Crawler, status: str, header: str
) -> None:
    three_pages(crawler.site)
    calls = []

    async def busy(exchange: Exchange) -> None:
        calls.append(exchange)
        if len(calls) == 1:
            headers = [f"Retry-After: {header}"] if header else []
            await exchange.respond(b"", status=status, headers=headers)
        else:
            await exchange.respond(b"<p>Text of c</p>", headers=["Content-Type: text/html"])

    crawler.site.behave("c", busy)
    crawled = await crawler.crawl()
    assert crawled.outcomes["/c"] == "changed"
    assert crawler.clock.waits == pytest.approx([float(header) if header else DEFAULT_RETRY_SECONDS])
    assert crawled.end.complete


@pytest.mark.parametrize(("header", "waits"), [("3600", 0), ("90", 0), ("2", 3)])
async def test_a_host_that_limits_the_rate_is_left_alone(crawler: Crawler, header: str, waits: int) -> None:
    site = crawler.site
    names = [f"/{number}" for number in range(8)]
    site.article("/", "Start", TEA, names)
    for name in names:
        site.put(name, "", "text/html", f"Retry-After: {header}", status="429 Too Many Requests")
    crawled = await crawler.crawl(time_budget_minutes=1)
    # Without the time to wait, one request is the last one; with it, three pages have two requests each.
    assert len(site.taken()) == 1 + (2 * waits or 1)
    assert len(crawler.clock.waits) == waits
    assert crawled.outcomes["/7"] == "failed rate_limited"
    assert not crawled.end.complete


async def test_a_long_wait_for_one_page_is_not_made(crawler: Crawler) -> None:
    three_pages(crawler.site)
    crawler.site.put("/c", "", "text/html", "Retry-After: 3600", status="503 Service Unavailable")
    crawled = await crawler.crawl()
    assert crawled.outcomes["/c"] == "failed status_503"
    assert crawled.outcomes["/b"] == "changed"
    assert crawler.clock.waits == []


def test_retry_after_is_seconds_or_a_date() -> None:
    assert retry_after_seconds(" 120 ") == 120
    assert retry_after_seconds("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert (retry_after_seconds("Fri, 31 Dec 2100 23:59:59 GMT") or 0) > 10**9
    assert [retry_after_seconds(text) for text in ("", "soon", "-1", "1.5")] == [None] * 4


async def test_an_unforeseen_error_of_one_page_does_not_end_the_crawl(
    crawler: Crawler, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_pages(crawler.site)
    document = PageReader.document

    async def broken(self: PageReader, response: Fetched) -> tuple[Extracted, PageLinks]:
        if response.url.endswith("/a"):
            raise ValueError("canary")
        return await document(self, response)

    monkeypatch.setattr(PageReader, "document", broken)
    with structlog.testing.capture_logs() as logs:
        crawled = await crawler.crawl()
    assert crawled.outcomes == {"/": "changed", "/a": "failed internal_error", "/c": "changed"}
    assert "canary" not in str(logs)
