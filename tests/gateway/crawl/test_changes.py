"""Changed and unchanged pages: validators, hashes, links of pages that are not sent again, and limits of a page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.gateway.crawl.conftest import Crawler
from tests.gateway.extraction.documents import pdf, shown, word
from tests.support.changing_site import TEA, ChangingSite

pytestmark = pytest.mark.process

NOVEMBER = "Sun, 01 Nov 2026 00:00:00 GMT"


def chain(site: ChangingSite, **validators: Any) -> None:
    """Three pages, each linked from the previous page only."""
    site.article("/", "Start", f"Start {TEA}", ["/a"])
    site.article("/a", "A", f"Text a {TEA}", ["/b"])
    site.article("/b", "B", f"Text b {TEA}")
    for path in ("/", "/a", "/b"):
        site.put(path, site.pages[path].body, **validators)


@pytest.mark.parametrize(
    "validators", [{"etag": True}, {"etag": False, "modified": NOVEMBER}, {"etag": True, "modified": NOVEMBER}]
)
async def test_an_unchanged_page_costs_a_304(crawler: Crawler, validators: dict[str, Any]) -> None:
    chain(crawler.site, **validators)
    first = await crawler.crawl()
    again = await crawler.crawl()
    assert set(first.outcomes.values()) == {"changed"}
    assert [visit.is_new for visit in first.visits] == [True] * 3
    # The links of pages that are not sent are followed nevertheless.
    assert again.outcomes == dict.fromkeys(("/", "/a", "/b"), "unchanged")
    assert [(visit.status, visit.content, visit.is_new) for visit in again.visits] == [(304, b"", False)] * 3
    assert [visit.known for visit in again.visits] == [visit.known for visit in first.visits]
    assert again.end.complete


async def test_an_unchanged_page_is_not_extracted(crawler: Crawler, monkeypatch: pytest.MonkeyPatch) -> None:
    chain(crawler.site)
    crawler.site.put("/b", crawler.site.pages["/b"].body, etag=False)
    await crawler.crawl()
    documents = sum(worker.documents for worker in crawler.extractor.workers)
    again = await crawler.crawl()
    # The last one is sent again, and has the same bytes.
    assert [visit.status for visit in again.visits] == [304, 304, 200]
    assert set(again.outcomes.values()) == {"unchanged"}
    assert sum(worker.documents for worker in crawler.extractor.workers) == documents


async def test_a_page_whose_text_is_the_same_is_unchanged(crawler: Crawler) -> None:
    crawler.site.article("/", "Start", TEA, head="<meta name=token content=1>")
    await crawler.crawl()
    crawler.site.article("/", "Start", TEA, ["/a"], head="<meta name=token content=2>")
    crawler.site.article("/a", "A", "Text a")
    again = await crawler.crawl()
    assert again.outcomes == {"/": "unchanged", "/a": "changed"}
    # The kept validators and links are those of the new response.
    assert again.visit("/").etag == crawler.site.pages["/"].tag
    assert again.visit("/").links == (f"{crawler.site.origin}/a",)


async def test_a_changed_page_has_its_content(crawler: Crawler) -> None:
    chain(crawler.site)
    await crawler.crawl()
    crawler.site.article("/a", "A new title", f"Another text {TEA}", ["/b"])
    again = await crawler.crawl()
    assert again.outcomes == {"/": "unchanged", "/a": "changed", "/b": "unchanged"}
    visit = again.visit("/a")
    assert (visit.content, visit.media_type) == (crawler.site.pages["/a"].body, "text/html; charset=utf-8")
    assert (visit.title, visit.is_new, visit.status) == ("A new title", False, 200)


async def test_a_page_that_is_not_new_and_not_known_to_have_validators_is_sent_again(crawler: Crawler) -> None:
    chain(crawler.site, etag=False)
    await crawler.crawl()
    again = await crawler.crawl()
    assert [visit.status for visit in again.visits] == [200] * 3
    assert not any(request.header("if-none-match") for request in crawler.site.requests)


async def test_kept_links_that_may_not_be_fetched_any_more_are_ignored(crawler: Crawler) -> None:
    chain(crawler.site)
    await crawler.crawl()
    start = crawler.known[f"{crawler.site.origin}/"]
    crawler.known[start.url] = replace(start, links=("http://10.0.0.1/", "http://tea.test:22/", *start.links))
    again = await crawler.crawl(same_site_only=False)
    assert again.outcomes == dict.fromkeys(("/", "/a", "/b"), "unchanged")
    assert again.end.complete


async def test_a_304_without_a_condition_is_a_failure(crawler: Crawler) -> None:
    crawler.site.article("/", "Start", TEA, ["/a"])
    crawler.site.put("/a", b"", status="304 Not Modified", etag=False)
    assert (await crawler.crawl()).outcomes["/a"] == "failed status_304"


async def test_a_page_larger_than_allowed_fails(crawler: Crawler) -> None:
    crawler.site.article("/", "Start", TEA, ["/large"])
    crawler.site.article("/large", "Large", TEA * 200)
    crawled = await crawler.crawl(max_bytes_per_page=20_000)
    assert crawled.outcomes == {"/": "changed", "/large": "failed response_too_large"}
    assert crawled.end.complete


async def test_a_text_longer_than_allowed_is_cut(crawler: Crawler) -> None:
    crawler.site.article("/", "Start", TEA * 100)
    crawled = await crawler.crawl(max_content_length=1000)
    (visit,) = crawled.visits
    assert (visit.characters, visit.media_type) == (1000, "text/plain; charset=utf-8")
    assert visit.content.decode() in f"Start\n{TEA * 100}"
    # A change behind the limit is none.
    crawler.site.article("/", "Start", TEA * 100 + "The end.")
    assert (await crawler.crawl(max_content_length=1000)).outcomes == {"/": "unchanged"}


@pytest.mark.parametrize("fields", [{"max_content_length": 100}, {"respect_robots": False}])
async def test_pages_are_read_again_with_other_settings(crawler: Crawler, fields: dict[str, Any]) -> None:
    chain(crawler.site)
    await crawler.crawl()
    again = await crawler.crawl(**fields)
    assert [visit.status for visit in again.visits] == [200] * 3
    assert set(again.outcomes.values()) == {"changed" if "max_content_length" in fields else "unchanged"}
    assert {visit.status for visit in (await crawler.crawl(**fields)).visits} == {304}


@pytest.mark.parametrize("media_type", ["", "application/octet-stream"])
async def test_pdf_and_office_files_are_documents(crawler: Crawler, media_type: str) -> None:
    crawler.site.article("/", "Start", TEA, ["/a.pdf", "/b.docx"])
    crawler.site.put("/a.pdf", pdf([shown("Text of a file")]), media_type or "application/pdf")
    crawler.site.put("/b.docx", word(), media_type or "application/vnd.openxmlformats-officedocument")
    crawled = await crawler.crawl()
    assert crawled.outcomes == {"/": "changed", "/a.pdf": "changed", "/b.docx": "changed"}
    assert crawled.visit("/a.pdf").content == crawler.site.pages["/a.pdf"].body
    assert set((await crawler.crawl()).outcomes.values()) == {"unchanged"}


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        ("image/png", b"\x89PNG\r\n\x1a\n"),
        ("text/css", b"a {}"),
        ("application/json", b"{}"),
        ("application/octet-stream", b"\0\1\2"),
        ("text/html", b"\x89PNG\r\n\x1a\n"),
    ],
)
async def test_files_without_a_text_are_skipped(crawler: Crawler, media_type: str, body: bytes) -> None:
    crawler.site.article("/", "Start", TEA, ["/file"])
    crawler.site.put("/file", body, media_type)
    crawled = await crawler.crawl()
    assert crawled.outcomes["/file"] == "skipped unsupported_media_type"
    assert crawled.end.complete


async def test_a_page_without_a_text_leads_to_others(crawler: Crawler) -> None:
    crawler.site.put("/", "<html><body><a href=/a></a></body></html>")
    crawler.site.article("/a", "A", "Text a")
    crawled = await crawler.crawl()
    assert crawled.outcomes == {"/": "skipped no_text", "/a": "changed"}


async def test_a_damaged_file_does_not_end_the_crawl(crawler: Crawler) -> None:
    crawler.site.article("/", "Start", TEA, ["/a.pdf", "/b"])
    crawler.site.put("/a.pdf", b"%PDF-1.7 nothing else", "application/pdf")
    crawler.site.article("/b", "B", "Text b")
    crawled = await crawler.crawl()
    assert crawled.outcomes == {"/": "changed", "/a.pdf": "failed extraction_failed", "/b": "changed"}
    assert crawled.end.complete


async def test_text_and_markdown_are_documents(crawler: Crawler) -> None:
    crawler.site.article("/", "Start", TEA, ["/a.txt", "/b.md"])
    crawler.site.put("/a.txt", "Text a", "text/plain")
    crawler.site.put("/b.md", "# Title\n\nText b", "text/markdown")
    crawled = await crawler.crawl()
    assert crawled.visit("/b.md").media_type == "text/markdown"
    assert set(crawled.outcomes.values()) == {"changed"}
