"""Sitemaps that would stop the gateway: the work for them is bounded, in pieces, and not on the event loop."""

from __future__ import annotations

import codecs
import gzip
import re
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from ragstore_gateway.fetching.robots import Robots
from ragstore_gateway.sources import sitemap_reader, sitemaps
from ragstore_gateway.sources.scope import Scope
from ragstore_gateway.sources.sitemaps import MAX_CHILDREN, MAX_TAG, MAX_VALUE, PIECE, SitemapInvalid, read_sitemap
from tests.gateway.crawl.conftest import Crawler
from tests.support.changing_site import TEA, XML
from tests.support.hangs import ends

ENTRY = "<url><loc>http://a.test/{}</loc></url>"
MANY = 40_000


class ResolvedLinks(list[int]):
    """The numbers of links of all calls that resolve them, none of which was made by the event loop."""


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> ResolvedLinks:
    """Counts the links that crawls resolve."""
    found = ResolvedLinks()
    resolve_all, pages = Scope.resolve_all, Scope.pages
    loop = threading.get_ident()

    def counted(links: Iterable[str]) -> list[str]:
        assert threading.get_ident() != loop
        each = list(links)
        found.append(len(each))
        return each

    def spy(scope: Scope, links: Iterable[str], page: str) -> tuple[str, ...]:
        return resolve_all(scope, counted(links), page)

    def spy_pages(scope: Scope, urls: Iterable[str]) -> tuple[str, ...]:
        return pages(scope, counted(urls))

    monkeypatch.setattr(Scope, "resolve_all", spy)
    monkeypatch.setattr(Scope, "pages", spy_pages)
    return found


class Slices:
    """Records the lengths of the texts that a pattern searches."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.longest = 0
        self._pattern = pattern

    def finditer(self, text: str, start: int, end: int) -> Iterator[re.Match[str]]:
        """Search a part of a text."""
        self.longest = max(self.longest, min(end, len(text)) - start)
        return self._pattern.finditer(text, start, end)


def index_of(urls: Iterable[str]) -> str:
    """An index of sitemaps."""
    return f"<sitemapindex>{''.join(f'<sitemap><loc>{url}</loc></sitemap>' for url in urls)}</sitemapindex>"


async def test_of_an_index_with_many_sitemaps_only_the_first_ones_are_resolved(
    crawler: Crawler, resolved: ResolvedLinks
) -> None:
    site = crawler.site
    site.article("/", "Start", TEA)
    for index in range(60):
        urls = (f"{site.origin}/{(index + 1 + number) % 60}.xml?{index}-{number}" for number in range(1000))
        site.put(f"/{index}.xml", index_of(urls), XML)
    site.robots(f"Sitemap: {site.put('/index.xml', index_of(f'{site.origin}/{n % 60}.xml' for n in range(MANY)), XML)}")
    crawled = await crawler.crawl()
    assert crawled.end.reason == "max_sitemaps"
    assert max(resolved) <= MAX_CHILDREN
    assert sum(resolved) <= 60 * MAX_CHILDREN


async def test_a_sitemap_behind_the_first_ones_of_an_index_leaves_the_crawl_incomplete(crawler: Crawler) -> None:
    site = crawler.site
    site.article("/", "Start", TEA)
    # None of the first ones may be fetched, so that no more than the index is.
    urls = [*(f"http://10.0.0.1/{number}.xml" for number in range(MAX_CHILDREN)), site.sitemap("/late.xml", [])]
    site.put("/sitemap.xml", index_of(urls), XML)
    crawled = await crawler.crawl()
    assert (crawled.end.complete, crawled.end.reason) == (False, "max_sitemaps")
    assert "/late.xml" not in site.paths()


async def test_pages_of_a_sitemap_are_resolved_in_pieces_by_a_thread(crawler: Crawler, resolved: ResolvedLinks) -> None:
    site = crawler.site
    site.article("/", "Start", TEA)
    site.sitemap("/sitemap.xml", (f"http://elsewhere.test/{number}" for number in range(2_100)))
    assert (await crawler.crawl()).end.complete
    assert sum(resolved) >= 2_100
    assert max(resolved) <= sitemap_reader.PIECE


async def test_all_sitemaps_of_a_crawl_have_a_maximum_of_pages(
    crawler: Crawler, resolved: ResolvedLinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = crawler.site
    monkeypatch.setattr(sitemap_reader, "MAX_LISTED", 1_000)
    site.article("/", "Start", TEA)
    lists = [
        site.sitemap(f"/{each}.xml", (f"http://elsewhere.test/{each}/{number}" for number in range(700)))
        for each in range(3)
    ]
    crawled = await crawler.crawl(sitemaps=lists)
    assert (crawled.end.complete, crawled.end.reason) == (False, "max_links")
    # Each page is resolved, and then checked. The start page and the sitemaps themselves are resolved, too.
    assert sum(resolved) <= 2 * 1_000 + 10
    assert [path for path in site.paths() if path.endswith(".xml")] == ["/0.xml", "/1.xml", "/2.xml"]


async def test_the_rules_of_a_site_are_compared_with_a_page_by_a_thread(
    crawler: Crawler, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = crawler.site
    site.article("/", "Start", TEA)
    site.robots("User-agent: *\n" + "".join(f"Disallow: /*a{number}*b\n" for number in range(1_000)))
    allows = Robots.allows
    threads: set[int] = set()

    def spy(robots: Robots, url: str) -> bool:
        threads.add(threading.get_ident())
        return allows(robots, url)

    monkeypatch.setattr(Robots, "allows", spy)
    assert (await crawler.crawl()).end.complete
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize(
    "text",
    ["<urlset>" + "<loc " * 2_000_000, "<urlset><loc>" + "<" * 5_000_000, "<urlset><loc " + " " * 5_000_000],
    ids=["tags", "brackets", "spaces"],
)
def test_a_text_is_searched_in_pieces(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slices = Slices(sitemaps._TAG)
    monkeypatch.setattr(sitemaps, "_TAG", slices)
    with ends():
        assert read_sitemap(gzip.compress(text.encode(), 1)).pages == ()
    assert 0 < slices.longest <= PIECE + MAX_TAG


def test_a_text_is_decoded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = 0

    def spy(charset: str) -> Any:
        create = codecs.lookup(charset).incrementaldecoder

        class Decoder:
            def __init__(self, errors: str) -> None:
                assert create is not None
                self._decoder = create(errors)

            def decode(self, content: bytes, final: bool = False) -> str:
                nonlocal longest
                longest = max(longest, len(content))
                return self._decoder.decode(content, final)

        return Decoder

    monkeypatch.setattr(codecs, "getincrementaldecoder", spy)
    # Each half of a surrogate pair is an error, whose handler takes 0.3 µs without giving up the interpreter's lock.
    with pytest.raises(SitemapInvalid):
        read_sitemap(b"\xff\xfe" + b"\0\xdc" * 1_000_000)
    assert 0 < longest <= PIECE


@pytest.mark.parametrize("charset", ["utf-8", "utf-16"])
def test_tags_and_lines_and_characters_across_the_ends_of_pieces_are_read(charset: str) -> None:
    for length in (*range(PIECE - 60, PIECE + 10), *range(PIECE // 2 - 60, PIECE // 2 + 10), 2 * PIECE - 30):
        padding = " " * length
        text = f"<urlset>{padding}{ENTRY.format('é𝄞')}{ENTRY.format(2)}"
        assert read_sitemap(text.encode(charset)).pages == ("http://a.test/é𝄞", "http://a.test/2"), length
        lines = f"{padding}\r\nhttp://a.test/é𝄞\r\nhttp://a.test/2"
        assert read_sitemap(lines.encode(charset)).pages == ("http://a.test/é𝄞", "http://a.test/2"), length


def test_a_tag_with_attributes_is_read_up_to_its_maximum_length() -> None:
    assert read_sitemap(f'<urlset x="{"y" * 3_900}">{ENTRY.format(1)}'.encode()).pages == ("http://a.test/1",)
    with pytest.raises(SitemapInvalid):
        read_sitemap(f'<urlset x="{"y" * MAX_TAG}">{ENTRY.format(1)}'.encode())


@pytest.mark.parametrize("digits", [5_000, 2 * MAX_VALUE])
@pytest.mark.parametrize("form", ["&#{};", "&#x{};"])
def test_an_entry_with_a_reference_to_no_character_is_skipped(digits: int, form: str) -> None:
    reference = form.format("9" * digits)
    text = (
        f"<urlset>{ENTRY.format(reference)}{ENTRY.format('good')}<url><loc>b</loc><lastmod>{reference}</lastmod></url>"
    )
    found = read_sitemap(text.encode()).pages
    # A hexadecimal number of any length is one that is too large, whose character is replaced.
    assert {page for page in found if "\ufffd" not in page} == {"http://a.test/good", "b"}


async def test_a_crawl_survives_a_reference_to_no_character(crawler: Crawler) -> None:
    site = crawler.site
    site.article("/", "Start", TEA)
    site.article("/a", "A", TEA)
    entries = [f"{site.origin}/a&#{'9' * 5_000};", f"{site.origin}/a"]
    body = "".join(f"<url><loc>{url}</loc></url>" for url in entries)
    site.put("/sitemap.xml", f"<urlset>{body}</urlset>", XML)
    crawled = await crawler.crawl()
    assert crawled.outcomes == {"/": "changed", "/a": "changed"}
    assert crawled.end.complete


def test_a_text_with_a_very_long_line_is_no_sitemap() -> None:
    with pytest.raises(SitemapInvalid):
        read_sitemap(b"http://a.test/" + b"a" * 1_000_000)


def test_a_text_with_more_lines_than_are_read_is_truncated() -> None:
    sitemap = read_sitemap(b"".join(b"http://a.test/%d\n" % number for number in range(60_000)))
    assert (len(sitemap.pages), sitemap.truncated) == (50_000, True)
