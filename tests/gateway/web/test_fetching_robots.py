"""robots.txt: what it allows, its cache, and files that are hostile."""

from __future__ import annotations

import asyncio

import pytest

from ragstore_gateway.fetching.errors import AddressRefused, RobotsDisallowed
from ragstore_gateway.fetching.robots import MAX_ROBOTS_BYTES, Robots, without_other_robots
from tests.gateway.web.fetchers import a_fetcher
from tests.support.fake_sites import FakeSite
from tests.support.fake_upstream import Exchange

RULES = """
User-agent: *
Disallow: /private
Allow: /private/but
Disallow: /*.pdf$
Crawl-delay: 2
Sitemap: https://public.test/sitemap.xml

User-agent: another
Disallow: /
"""
TEXT = "Content-Type: text/plain"


async def test_a_disallowed_page_is_not_requested(site: FakeSite) -> None:
    site.page("robots.txt", RULES, TEXT)
    open_page, private = site.page("open", "open"), site.page("private", "private")
    async with a_fetcher(site, robots=True) as fetcher:
        assert (await fetcher.fetch(open_page)).text == "open"
        with pytest.raises(RobotsDisallowed):
            await fetcher.fetch(private)
        robots = await fetcher.robots(open_page)
    assert site.paths() == ["/robots.txt", "/open"]
    assert (robots.crawl_delay_seconds, robots.sitemaps) == (2.0, ["https://public.test/sitemap.xml"])


async def test_a_redirect_to_a_disallowed_page_is_not_followed(site: FakeSite) -> None:
    site.page("robots.txt", RULES, TEXT)
    site.page("private", "private")
    away = site.redirect("away", "/private")
    async with a_fetcher(site, robots=True) as fetcher:
        with pytest.raises(RobotsDisallowed):
            await fetcher.fetch(away)
    assert "/private" not in site.paths()


@pytest.mark.parametrize("by_rules", [True, False])
async def test_robots_are_ignored_if_the_settings_or_the_caller_say_so(site: FakeSite, by_rules: bool) -> None:
    site.page("robots.txt", RULES, TEXT)
    private = site.page("private", "private")
    async with a_fetcher(site, robots=not by_rules) as fetcher:
        assert (await fetcher.fetch(private, robots=by_rules)).text == "private"
    assert site.paths() == ["/private"]


@pytest.mark.parametrize("status", ["404 Not Found", "403 Forbidden", "410 Gone"])
async def test_a_site_without_robots_allows_everything(site: FakeSite, status: str) -> None:
    site.page("robots.txt", "User-agent: *\nDisallow: /", status=status)
    async with a_fetcher(site, robots=True) as fetcher:
        assert (await fetcher.fetch(site.page("page", "page"))).text == "page"


async def test_a_failure_of_robots_disallows_and_is_not_kept(site: FakeSite) -> None:
    site.page("robots.txt", "", status="503 Service Unavailable")
    url = site.page("page", "page")
    async with a_fetcher(site, robots=True) as fetcher:
        with pytest.raises(RobotsDisallowed):
            await fetcher.fetch(url)
        site.page("robots.txt", "", TEXT)
        assert (await fetcher.fetch(url)).text == "page"


async def test_robots_are_read_once_for_concurrent_fetches(site: FakeSite) -> None:
    site.page("robots.txt", "", TEXT)
    url = site.page("page", "page")
    async with a_fetcher(site, robots=True, max_fetches_per_host=1) as fetcher:
        await asyncio.gather(*(fetcher.fetch(url) for _ in range(5)))
    assert site.paths().count("/robots.txt") == 1


async def test_a_caller_may_want_robots_that_were_read_just_now(site: FakeSite) -> None:
    site.page("robots.txt", "", TEXT)
    async with a_fetcher(site, robots=True) as fetcher:
        url = site.page("private", "private")
        assert (await fetcher.robots(url)).allows(url)
        site.page("robots.txt", RULES, TEXT)
        assert (await fetcher.robots(url)).allows(url)
        assert not (await fetcher.robots(url, max_age_seconds=0)).allows(url)
        # The newer one is the one of all fetches.
        with pytest.raises(RobotsDisallowed):
            await fetcher.fetch(url)


async def test_the_cache_of_robots_is_bounded(site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragstore_gateway.fetching.robots.MAX_SITES", 2)
    names = {f"{name}.test": [[site.address]] for name in "abc"}
    site.page("robots.txt", "", TEXT)
    site.page("page", "page")
    async with a_fetcher(site, robots=True, names=names) as fetcher:
        for name in "abca":
            await fetcher.fetch(f"http://{name}.test:{site.port}/page")
    assert site.paths().count("/robots.txt") == 4


async def test_robots_that_redirect_to_an_inner_address_are_refused(site: FakeSite, inner: FakeSite) -> None:
    site.redirect("robots.txt", f"{inner.origin}/robots.txt")
    async with a_fetcher(site, inner, robots=True) as fetcher:
        with pytest.raises(AddressRefused):
            await fetcher.fetch(f"{site.origin}/page")
    assert inner.requests == []


async def test_the_rest_of_an_endless_robots_file_is_ignored(site: FakeSite) -> None:
    async def endless(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await exchange.chunk(b"User-agent: *\nDisallow: /private\n#")
        while True:
            await exchange.chunk(b"x" * 8192)

    site.behave("robots.txt", endless)
    async with a_fetcher(site, robots=True) as fetcher:
        assert (await fetcher.fetch(site.page("open", "open"))).ok
        with pytest.raises(RobotsDisallowed):
            await fetcher.fetch(f"{site.origin}/private")


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("User-agent: ragstore-gateway\nDisallow: /a", False),
        ("User-agent: Ragstore-Gateway/2.0\nDisallow: /a", False),
        ("User-agent: *\nDisallow: /\nUser-agent: ragstore-gateway\nAllow: /", True),
        ("User-agent: gateway\nDisallow: /a", True),
        ("User-agent: other\nUser-agent: ragstore-gateway\nDisallow: /a", False),
        ("User-agent: other\nDisallow: /a", True),
        ("User-agent: other # *\nDisallow: /a", True),
        ("useragent *\nDisallow: /a", False),
        ("<html>User-agent: *</html>", True),
        ("", True),
    ],
)
def test_the_group_of_the_gateway_or_of_all_applies(text: str, allowed: bool) -> None:
    assert Robots(text, "ragstore-gateway/1.0").allows("https://public.test/a") is allowed


def test_a_hostile_file_has_one_group_for_all_other_robots() -> None:
    # Each rule is stored for each agent of its group: without a limit, these are 10^8 rules.
    agents = "".join(f"User-agent: robot{number}\n" for number in range(10_000))
    rules = "".join(f"Disallow: /{number}*a*b\n" for number in range(20_000))
    text = (agents + rules)[:MAX_ROBOTS_BYTES]
    short = without_other_robots(text, "ragstore-gateway/1.0")
    assert {line for line in short.splitlines() if line.startswith("User-agent")} == {"User-agent: other-robots"}
    assert Robots(text, "ragstore-gateway/1.0").allows("https://public.test/1")
