"""Sitemaps of the source and of robots.txt, the usual sitemap, indexes, compression, and faulty sitemaps."""

from __future__ import annotations

import gzip
from itertools import chain

import pytest

from ragstore_gateway.sources.sitemaps import MAX_BYTES, SitemapInvalid, read_sitemap
from tests.gateway.crawl.conftest import Crawler
from tests.support.changing_site import TEA, XML, ChangingSite
from tests.support.hangs import ends


def pages(site: ChangingSite) -> None:
    """A start page without links, and two pages that only a sitemap may list."""
    site.article("/", "Start", TEA)
    site.article("/a", "A", "Text a", ["/b"])
    site.article("/b", "B", "Text b")


@pytest.mark.parametrize("where", ["usual", "robots", "source"])
async def test_pages_of_a_sitemap_are_crawled(crawler: Crawler, where: str) -> None:
    site = crawler.site
    pages(site)
    url = site.sitemap("/sitemap.xml" if where == "usual" else "/other.xml", [f"{site.origin}/a"])
    if where == "robots":
        site.robots(f"Sitemap: {url}")
    crawled = await crawler.crawl(sitemaps=[url] if where == "source" else [])
    assert crawled.outcomes == {"/": "changed", "/a": "changed", "/b": "changed"}
    assert [crawled.visit(path).depth for path in ("/a", "/b")] == [0, 1]
    assert crawled.end.complete
    # The usual one is a guess, which is not made if one is named.
    assert ("/sitemap.xml" in site.paths()) is (where == "usual")


async def test_sitemaps_of_robots_are_not_read_if_robots_are_not_respected(crawler: Crawler) -> None:
    pages(crawler.site)
    url = crawler.site.sitemap("/other.xml", [f"{crawler.site.origin}/a"])
    crawler.site.robots(f"Sitemap: {url}")
    assert set((await crawler.crawl(respect_robots=False)).outcomes) == {"/"}


async def test_a_sitemap_lists_only_pages_of_the_source(crawler: Crawler) -> None:
    site = crawler.site
    pages(site)
    site.sitemap(
        "/sitemap.xml", [f"{site.origin}/a", "http://coffee.test/", "/b", "file:///etc/passwd", "http://10.0.0.1/"]
    )
    crawled = await crawler.crawl(exclude_patterns=["/b"])
    assert crawled.outcomes == {"/": "changed", "/a": "changed"}
    assert crawled.end.complete


@pytest.mark.parametrize("nested", [False, True])
async def test_an_index_leads_to_sitemaps_also_compressed(crawler: Crawler, nested: bool) -> None:
    site = crawler.site
    pages(site)
    site.sitemap("/plain.xml", [f"{site.origin}/b"])
    site.put("/inner.xml.gz", gzip.compress(site.pages["/plain.xml"].body), "application/gzip")
    # An index may list itself.
    index = "".join(
        f"<sitemap><loc>{site.origin}{path}</loc></sitemap>" for path in ("/inner.xml.gz", "/sitemap.xml", "/index.xml")
    )
    site.put("/index.xml", f"<sitemapindex>{index}</sitemapindex>", XML)
    nested_index = f"<sitemapindex><sitemap><loc>{site.origin}/index.xml</loc></sitemap></sitemapindex>"
    site.put("/sitemap.xml", nested_index if nested else site.pages["/index.xml"].body, XML)
    crawled = await crawler.crawl()
    assert crawled.outcomes == {"/": "changed", "/b": "changed"}
    assert crawled.end.complete
    assert site.paths().count("/inner.xml.gz") == 1


async def test_pages_with_the_latest_changes_come_first(crawler: Crawler) -> None:
    site = crawler.site
    site.article("/", "Start", TEA)
    dates = {"/old": "2025-01-01", "/new": "2026-11-20T10:00:00Z", "/none": "", "/recent": "2026-11-19"}
    entries = "".join(
        f"<url><loc>{site.origin}{path}</loc><lastmod>{date}</lastmod></url>" for path, date in dates.items()
    )
    site.put("/sitemap.xml", f"<urlset>{entries}</urlset>", XML)
    for path in dates:
        site.article(path, path, f"Text {path}")
    assert list((await crawler.crawl()).outcomes) == ["/", "/new", "/recent", "/old", "/none"]


@pytest.mark.parametrize(
    ("status", "body", "complete"),
    [
        ("404 Not Found", "", True),
        ("410 Gone", "", True),
        ("500 Internal Server Error", "", False),
        ("403 Forbidden", "", False),
        ("200 OK", "<html>We will be back soon</html>", False),
        ("200 OK", "", False),
    ],
)
@pytest.mark.parametrize("is_named", [True, False])
async def test_a_sitemap_that_cannot_be_read_leaves_the_crawl_incomplete(
    crawler: Crawler, status: str, body: str, complete: bool, is_named: bool
) -> None:
    pages(crawler.site)
    url = crawler.site.put("/sitemap.xml", body, "text/html", status=status)
    crawled = await crawler.crawl(sitemaps=[url] if is_named else [])
    # Where no sitemap is named, only an error of the server may hide one.
    complete = complete or (not is_named and not status.startswith("500"))
    assert (crawled.end.complete, crawled.end.reason) == (complete, "" if complete else "sitemap_failed")
    assert crawled.outcomes == {"/": "changed"}


async def test_a_sitemap_that_robots_forbids_is_not_requested(crawler: Crawler) -> None:
    pages(crawler.site)
    crawler.site.sitemap("/sitemap.xml", [f"{crawler.site.origin}/a"])
    crawler.site.robots("User-agent: *\nDisallow: /sitemap.xml")
    crawled = await crawler.crawl()
    assert "/sitemap.xml" not in crawler.site.paths()
    assert crawled.end.complete


@pytest.mark.parametrize("is_named", [True, False])
async def test_robots_are_checked_for_each_redirect_of_a_sitemap(crawler: Crawler, is_named: bool) -> None:
    site = crawler.site
    pages(site)
    url = site.move("/sitemap.xml", "/moved.xml")
    site.move("/moved.xml", "/private/list.xml", "302 Found")
    site.sitemap("/private/list.xml", [f"{site.origin}/a"])
    crawled = await crawler.crawl(sitemaps=[url] if is_named else [])
    assert crawled.outcomes == {"/": "changed", "/a": "changed", "/b": "changed"}
    site.robots("User-agent: *\nDisallow: /private/")
    crawled = await crawler.crawl(sitemaps=[url] if is_named else [])
    assert "/moved.xml" in site.paths()
    assert "/private/list.xml" not in site.paths()
    assert crawled.outcomes == {"/": "unchanged"}
    # One that was named could have listed pages.
    assert crawled.end.complete is not is_named


async def test_robots_of_the_site_that_a_sitemap_redirects_to_are_checked(crawler: Crawler) -> None:
    site = crawler.site
    pages(site)
    crawler.names = {"coffee.test": [[site.address]]}
    site.move("/sitemap.xml", f"http://coffee.test:{site.port}/list.xml")
    site.sitemap("/list.xml", [f"{site.origin}/a"])
    assert (await crawler.crawl()).end.complete
    rules = [*chain(*(request.header("host") for request in site.requests if request.target == "/robots.txt"))]
    assert rules == [f"{site.address}:{site.port}", f"coffee.test:{site.port}"]


async def test_a_sitemap_that_redirects_forever_leaves_the_crawl_incomplete(crawler: Crawler) -> None:
    pages(crawler.site)
    crawler.site.move("/sitemap.xml", "/again.xml")
    crawler.site.move("/again.xml", "/sitemap.xml")
    crawled = await crawler.crawl()
    assert (crawled.end.complete, crawled.end.reason) == (False, "sitemap_failed")


async def test_the_number_of_sitemaps_is_bounded(crawler: Crawler) -> None:
    site = crawler.site
    pages(site)
    entries = "".join(f"<sitemap><loc>{site.origin}/{number}.xml</loc></sitemap>" for number in range(60))
    site.put("/sitemap.xml", f"<sitemapindex>{entries}</sitemapindex>", XML)
    crawled = await crawler.crawl()
    assert (crawled.end.complete, crawled.end.reason) == (False, "max_sitemaps")
    assert len([path for path in site.paths() if path.endswith(".xml")]) == 50


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("https://a.test/1\n\n https://a.test/2 \n", ("https://a.test/1", "https://a.test/2")),
        ('\ufeff<?xml version="1.0"?><urlset><url><loc> https://a.test/?a&amp;b </loc></url></urlset>', ("https://a.test/?a&b",)),
        ("<s:urlset xmlns:s='x'><s:url><s:loc><![CDATA[https://a.test/]]></s:loc></s:url></s:urlset>", ("https://a.test/",)),
        ("<urlset><!-- <url><loc>https://a.test/</loc></url> --></urlset>", ()),
        ("<urlset><url><loc>https://a.test/1</loc></url><url><loc>https://a.test/?a&b</url><url><loc>x</loc>",
         ("https://a.test/1", "x")),
        ("<urlset><url><loc>a</loc><image:image><image:loc>b</image:loc></image:image></url></urlset>", ("a",)),
    ],
)  # fmt: skip
def test_sitemaps_of_several_forms_are_read(text: str, urls: tuple[str, ...]) -> None:
    assert read_sitemap(text.encode()).pages == urls
    assert read_sitemap(text.encode("utf-16")).pages == urls or text.startswith("\ufeff")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<rss><channel><link>https://a.test/</link></channel></rss>",
        b"https://a.test/\nand more",
        gzip.compress(b"x" * (MAX_BYTES + 1)),
        gzip.compress(b"<urlset></urlset>")[:-4],
        b"\x1f\x8b no gzip",
    ],
    ids=["empty", "feed", "text", "bomb", "cut", "damaged"],
)
def test_files_that_are_no_sitemaps_are_recognised(body: bytes) -> None:
    with pytest.raises(SitemapInvalid):
        read_sitemap(body)


def test_entities_of_a_sitemap_are_not_expanded() -> None:
    text = (
        '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><urlset><url><loc>http://a.test/&b;</loc></url></urlset>'
    )
    assert read_sitemap(text.encode()).pages == ("http://a.test/&b;",)


def test_comments_of_a_sitemap_are_skipped_and_one_without_an_end_is_no_comment() -> None:
    entry = "<url><loc>http://a.test/{}</loc></url>"
    commented = f"<urlset><!--{entry.format(1)}-->{entry.format(2)}<!-- - -- ->{entry.format(3)}</urlset>"
    assert read_sitemap(commented.encode()).pages == ("http://a.test/2", "http://a.test/3")
    with ends():
        many = b"<urlset>" + entry.format(4).encode() + b"<!--" * (MAX_BYTES // 5)
        assert read_sitemap(many).pages == ("http://a.test/4",)


def test_a_sitemap_has_a_maximum_of_urls() -> None:
    body = b"<urlset>" + b"<url><loc>http://a.test/</loc></url>" * 50_001
    sitemap = read_sitemap(body)
    assert (len(sitemap.pages), sitemap.truncated) == (1, True)
