"""The pages that belong to a source: site, subdomains, prefix, patterns, depth, and one form of each URL."""

from __future__ import annotations

from typing import Any

import pytest

from ragstore_gateway.configurations.source import WebSource
from ragstore_gateway.fetching.rules import FetchRules
from ragstore_gateway.sources.globs import Glob
from ragstore_gateway.sources.scope import Scope, may_have_text
from tests.gateway.crawl.conftest import Crawler

RULES = FetchRules(ports=frozenset({80, 443, 8080}))


def scope(start: str = "https://tea.test/", **fields: Any) -> Scope:
    """The scope of a source."""
    return Scope(WebSource(start_url=start, **fields), RULES)


@pytest.mark.parametrize(
    ("link", "url"),
    [
        ("leaf", "https://tea.test/green/leaf"),
        ("/leaf#part", "https://tea.test/leaf"),
        ("#part", "https://tea.test/green/index"),
        ("../black/./leaf/..", "https://tea.test/black/"),
        ("HTTPS://TEA.Test:443/Leaf", "https://tea.test/Leaf"),
        ("http://tea.test:80", "http://tea.test/"),
        ("//tea.test/leaf", "https://tea.test/leaf"),
        ("?page=2", "https://tea.test/green/index?page=2"),
        ("leaf?", "https://tea.test/green/leaf"),
        ("  a leaf ", "https://tea.test/green/a%20leaf"),
        ("%7eleaf/%c3%a9", "https://tea.test/green/~leaf/%C3%A9"),
        ("é", "https://tea.test/green/%C3%A9"),
        ("/leaf#a b\\c", "https://tea.test/leaf"),
        ("https://user:password@tea.test/", ""),
        ("https://tea.test:22/", ""),
        ("ftp://tea.test/", ""),
        ("https://[bad/", ""),
        ("https://10.0.0.1/", ""),
    ],
)
def test_each_url_has_one_form(link: str, url: str) -> None:
    assert scope().resolve(link, "https://tea.test/green/index") == url


@pytest.mark.parametrize(
    ("url", "fields", "outside"),
    [
        ("https://tea.test/leaf", {}, None),
        ("http://tea.test/leaf", {}, None),
        ("https://www.tea.test/leaf", {}, None),
        ("https://tea.test:8080/leaf", {}, "off_site"),
        ("https://shop.tea.test/leaf", {}, "off_site"),
        ("https://shop.tea.test/leaf", {"include_subdomains": True}, None),
        ("https://nottea.test/leaf", {"include_subdomains": True}, "off_site"),
        ("https://coffee.test/leaf", {}, "off_site"),
        ("https://coffee.test/leaf", {"same_site_only": False}, None),
        ("https://tea.test/green", {"path_prefix": "/green"}, None),
        ("https://tea.test/green/leaf", {"path_prefix": "/green/"}, None),
        ("https://tea.test/greenhouse", {"path_prefix": "/green"}, "path_prefix"),
        ("https://tea.test/gr%C3%BCn/leaf", {"path_prefix": "/grün"}, None),
        ("https://tea.test/leaf", {"path_prefix": "/"}, None),
        ("https://tea.test/files/leaf.pdf", {"exclude_patterns": ["*.pdf"]}, "excluded"),
        ("https://tea.test/list?sort=name", {"exclude_patterns": ["*?sort=*"]}, "excluded"),
        ("https://tea.test/list", {"exclude_patterns": ["*?sort=*"]}, None),
    ],
)
def test_a_source_has_the_pages_of_its_scope(url: str, fields: dict[str, Any], outside: str | None) -> None:
    assert scope(**fields).outside(url) == outside


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.pdf", "/a/b.pdf", True),
        ("*.pdf", "/a.pdf/b", False),
        ("archive", "/a/archive", True),
        ("archive", "/archive/a", False),
        ("/archive/*", "/archive/a", True),
        ("/archive/*", "/archive/a/b", False),
        ("/archive/**", "/archive/a/b", True),
        ("/archive/", "/archive/a/b", True),
        ("archive/a", "/archive/a", True),
        ("**/archive/**", "/x/y/archive/z", True),
        ("**/archive/**", "/x/archives/z", False),
        ("/a/**/b", "/a/b", True),
        ("/a/**/b/**/c", "/a/x/b/y/b/c", True),
        ("/a/**/b*d", "/a/bc/x/bcd", True),
        ("/20??/*", "/2026/a", True),
        ("/20??/*", "/20/a", False),
        ("/a*b*c", "/axbxbxc", True),
        ("/a*b*c", "/axcxb", False),
        ("*.*", "/a.b", True),
        ("/a+(b)", "/a+(b)", True),
        ("/a/", "/a", True),
    ],
)
def test_a_glob_matches_within_segments_and_across_them(pattern: str, path: str, matches: bool) -> None:
    assert Glob(pattern).matches(path) is matches


def test_a_hostile_path_does_not_make_a_glob_slow() -> None:
    # With backtracking, each of these takes longer than the age of the universe.
    assert not Glob("*a" * 100 + "*b").matches("/" + "a" * 4000)
    assert not Glob("**/" + "a/**/" * 40 + "b").matches("/a" * 2000)


def test_a_start_page_with_www_has_the_pages_without_it() -> None:
    www = scope("https://www.tea.test/", include_subdomains=True)
    assert [www.outside(f"https://{host}tea.test/leaf") for host in ("", "www.", "shop.")] == [None] * 3


def test_files_without_a_text_are_known_by_their_extensions() -> None:
    assert not may_have_text("https://tea.test/leaf.JPG?size=1")
    assert may_have_text("https://tea.test/leaf.pdf")
    assert may_have_text("https://tea.test/?file=leaf.jpg")


async def test_links_out_of_scope_are_not_requested(crawler: Crawler) -> None:
    site = crawler.site
    crawler.names = {"coffee.test": [[site.address]]}
    site.article("/", "Tea", "Start", ["/tea/leaf", "/shop/cup", "/tea/leaf.pdf", f"http://coffee.test:{site.port}/"])
    site.article("/tea/leaf", "Leaf", "A leaf")
    crawled = await crawler.crawl(path_prefix="/tea", exclude_patterns=["*.pdf"])
    assert site.taken() == ["/", "/tea/leaf"]
    # The start page is read for its links.
    assert crawled.outcomes == {"/": "skipped path_prefix", "/tea/leaf": "changed"}
    assert crawled.end.complete


async def test_other_hosts_are_crawled_if_the_source_allows_them(crawler: Crawler) -> None:
    site = crawler.site
    crawler.names = {"coffee.test": [[site.address]]}
    site.article("/", "Tea", "Start", [f"http://coffee.test:{site.port}/bean"])
    site.article("/bean", "Bean", "A bean")
    crawled = await crawler.crawl(same_site_only=False)
    assert [visit.url for visit in crawled.visits] == [f"{site.origin}/", f"http://coffee.test:{site.port}/bean"]


async def test_subdomains_are_crawled_if_the_source_includes_them(crawler: Crawler) -> None:
    site = crawler.site
    crawler.names = {name: [[site.address]] for name in ("tea.test", "shop.tea.test")}
    site.article("/", "Tea", "Start", [f"http://shop.tea.test:{site.port}/cup"])
    site.article("/cup", "Cup", "A cup")
    without = await crawler.crawl(f"http://tea.test:{site.port}/")
    with_them = await crawler.crawl(f"http://tea.test:{site.port}/", include_subdomains=True)
    assert [len(without.visits), len(with_them.visits)] == [1, 2]


@pytest.mark.parametrize(("max_depth", "paths"), [(0, ["/"]), (1, ["/", "/1"]), (2, ["/", "/1", "/2"])])
async def test_links_are_followed_up_to_a_depth(crawler: Crawler, max_depth: int, paths: list[str]) -> None:
    crawler.site.article("/", "Start", "Start", ["/1"])
    for number in range(1, 4):
        crawler.site.article(f"/{number}", f"Page {number}", f"Text {number}", [f"/{number + 1}"])
    crawled = await crawler.crawl(max_depth=max_depth)
    assert crawler.site.taken() == paths
    # A depth is a part of the scope, and not a limit that the crawl was cut short by.
    assert crawled.end.complete


async def test_a_page_counts_with_the_shortest_way_to_it(crawler: Crawler) -> None:
    site = crawler.site
    site.article("/", "Start", "Start", ["/a", "/b"])
    site.article("/a", "A", "Text a", ["/c"])
    site.article("/b", "B", "Text b", ["/d"])
    site.article("/c", "C", "Text c", ["/d"])
    site.article("/d", "D", "Text d", ["/e"])
    site.article("/e", "E", "Text e")
    crawled = await crawler.crawl(max_depth=3)
    assert {path: crawled.visit(path).depth for path in crawled.outcomes} == {
        "/": 0, "/a": 1, "/b": 1, "/c": 2, "/d": 2, "/e": 3
    }  # fmt: skip


async def test_links_of_many_forms_lead_to_one_page(crawler: Crawler) -> None:
    site = crawler.site
    links = ["/a", "a#x", "./a", "b/../a", f"{site.origin.upper().replace('HTTP', 'http')}/a", "/a?", "\n/\ta "]
    site.article("/", "Start", "Start", links)
    site.article("/a", "A", "Text a")
    await crawler.crawl()
    assert site.taken() == ["/", "/a"]


async def test_a_base_element_resolves_links(crawler: Crawler) -> None:
    crawler.site.article("/", "Start", "Start", ["a"], head='<base href="/deep/">')
    crawler.site.article("/deep/a", "A", "Text a")
    assert (await crawler.crawl()).outcomes == {"/": "changed", "/deep/a": "changed"}


async def test_links_that_are_no_pages_are_ignored(crawler: Crawler) -> None:
    links = ["mailto:a@tea.test", "javascript:void(0)", "tel:1", "data:text/html,a", "http://", "/leaf.png", "#a", ""]
    crawler.site.article("/", "Start", "Start", links)
    crawled = await crawler.crawl()
    assert (crawler.site.taken(), crawled.end.complete) == (["/"], True)


async def test_frames_areas_and_refreshes_are_links(crawler: Crawler) -> None:
    head = '<meta http-equiv="Refresh" content="0; url=\'/refreshed\'">'
    crawler.site.put("/", f"<html><head>{head}</head><body><p>Start<map><area href=/area></map></body></html>")
    crawler.site.put("/frames", "<html><frameset><frame src=/frame></frameset></html>")
    for name in ("refreshed", "area", "frame"):
        crawler.site.article(f"/{name}", name, f"Text {name}")
    assert set((await crawler.crawl()).outcomes) == {"/", "/refreshed", "/area"}
    assert "/frame" in (await crawler.crawl("/frames")).outcomes


async def test_a_start_page_that_may_not_be_fetched_is_reported(crawler: Crawler) -> None:
    crawled = await crawler.crawl("http://10.0.0.1/")
    assert (crawled.visits, crawled.end.complete, crawled.end.reason) == ([], False, "url_refused")
