"""Ways to make the gateway connect to an address that is not public, or to another port or scheme."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address

import pytest

from ragstore_gateway.fetching.addresses import is_public, is_public_or_inner
from ragstore_gateway.fetching.connections import ThreadResolver
from ragstore_gateway.fetching.errors import AddressRefused, Unreachable, UrlRefused
from ragstore_gateway.fetching.fetcher import Fetcher
from ragstore_gateway.fetching.rules import AllowedHosts, FetchRules
from ragstore_gateway.fetching.urls import read_url
from tests.gateway.web.fetchers import INNER, PUBLIC, a_fetcher
from tests.support.fake_sites import FakeSite, Names
from tests.support.servers import free_port

REFUSED_ADDRESSES = {
    "loopback": "127.0.0.1",
    "all of loopback": "127.255.255.254",
    "unspecified": "0.0.0.0",
    "this network": "0.1.2.3",
    "private 10": "10.0.0.1",
    "private 172": "172.16.0.1",
    "private 192": "192.168.1.1",
    "shared by carriers": "100.64.0.1",
    "metadata of Alibaba": "100.100.100.200",
    "link-local and metadata of clouds": "169.254.169.254",
    "metadata of Azure": "168.63.129.16",
    "metadata of Oracle": "192.0.0.192",
    "relays of 6to4": "192.88.99.1",
    "documentation": "192.0.2.1",
    "benchmarks": "198.18.0.1",
    "multicast": "224.0.0.1",
    "global multicast": "233.1.2.3",
    "reserved": "240.0.0.1",
    "broadcast": "255.255.255.255",
    "IPv6 loopback": "::1",
    "IPv6 unspecified": "::",
    "IPv4-mapped": "::ffff:127.0.0.1",
    "IPv4-mapped public": "::ffff:93.184.216.34",
    "IPv4-compatible": "::127.0.0.1",
    "IPv4-compatible public": "::93.184.216.34",
    "IPv4-translated": "::ffff:0:10.0.0.1",
    "NAT64": "64:ff9b::10.0.0.1",
    "NAT64 public": "64:ff9b::93.184.216.34",
    "NAT64 of a network": "64:ff9b:1::10.0.0.1",
    "6to4": "2002:7f00:1::",
    "6to4 public": "2002:5db8:d822::1",
    "Teredo": "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "ISATAP": "2a00:1450::5efe:10.0.0.1",
    "ISATAP global": "2a00:1450::200:5efe:10.0.0.1",
    "ORCHID": "2001:20::1",
    "unique local": "fd00::1",
    "metadata of Amazon": "fd00:ec2::254",
    "IPv6 link-local": "fe80::1",
    "IPv6 link-local with a zone": "fe80::1%lo",
    "a public address with a zone": "2a00:1450:4001::1%eth0",
    "site-local": "fec0::1",
    "IPv6 multicast": "ff02::1",
    "global IPv6 multicast": "ff0e::1",
    "IPv6 documentation": "2001:db8::1",
    "new IPv6 documentation": "3fff::1",
    "discard": "100::1",
    "segment routing": "5f00::1",
}


@pytest.mark.parametrize("address", REFUSED_ADDRESSES.values(), ids=REFUSED_ADDRESSES.keys())
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "172.32.0.1", "2a00:1450:4001:80b::200e"])
def test_a_public_address_is_accepted(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize("address", ["10.0.0.1", "127.0.0.1", "192.168.1.1", "fd00::1", "::1", "93.184.216.34"])
def test_an_allowed_host_may_have_an_inner_address(address: str) -> None:
    assert is_public_or_inner(ip_address(address))


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "fe80::1", "224.0.0.1", "0.0.0.0", "::", "::ffff:10.0.0.1", "fd00::1%lo"],
)
def test_even_an_allowed_host_has_no_link_local_multicast_or_mapped_address(address: str) -> None:
    assert not is_public_or_inner(ip_address(address))


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "0.0.0.0"],
)
async def test_a_url_of_an_inner_address_is_refused(address: str) -> None:
    async with Fetcher(FetchRules(robots=False), Names({})).running() as fetcher:
        with pytest.raises(AddressRefused):
            await fetcher.fetch(f"http://{address}/")


async def test_a_name_with_an_inner_address_is_refused(site: FakeSite, inner: FakeSite) -> None:
    async with a_fetcher(site, inner, names={"evil.test": [[INNER]]}) as fetcher:
        with pytest.raises(AddressRefused):
            await fetcher.fetch(f"http://evil.test:{inner.port}/")
    assert inner.requests == []


async def test_a_name_that_changes_its_address_between_two_connections_is_refused(
    site: FakeSite, inner: FakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragstore_gateway.fetching.connections.DNS_CACHE_SECONDS", 0)
    site.page("page", "x", "Connection: close")
    names = {"rebinding.test": [[PUBLIC], [INNER]]}
    async with a_fetcher(site, inner, names=names) as fetcher:
        assert (await fetcher.fetch(f"http://rebinding.test:{site.port}/page")).ok
        with pytest.raises(AddressRefused):
            await fetcher.fetch(f"http://rebinding.test:{inner.port}/page")
    assert inner.requests == []


async def test_an_inner_address_beside_a_public_one_that_does_not_respond_is_refused(inner: FakeSite) -> None:
    # Nothing listens on the public address, so that the inner one is the next to be tried.
    async with a_fetcher(inner, names={"both.test": [[PUBLIC, INNER]]}) as fetcher:
        with pytest.raises(AddressRefused):
            await fetcher.fetch(f"http://both.test:{inner.port}/")
    assert inner.requests == []


async def test_a_resolver_that_returns_no_address_is_refused(inner: FakeSite) -> None:
    async with a_fetcher(inner, names={"name.test": [["localhost"]]}) as fetcher:
        with pytest.raises(AddressRefused):
            await fetcher.fetch(f"http://name.test:{inner.port}/")
    assert inner.requests == []


@pytest.mark.parametrize(
    "location",
    [
        f"http://{INNER}:{{port}}/secret",
        "http://evil.test:{port}/secret",
        "//evil.test:{port}/secret",
        "http://[::ffff:7f00:1]:{port}/secret",
        "\\\\evil.test:{port}\\secret",
        "http:///evil.test:{port}/secret",
        "file:///etc/passwd",
        "gopher://evil.test:{port}/",
        "http://public.test:22/",
        "http://user:password@public.test/",
    ],
)
async def test_a_redirect_to_an_inner_address_or_another_scheme_is_refused(
    site: FakeSite, inner: FakeSite, location: str
) -> None:
    site.redirect("away", location.format(port=inner.port))
    names = {"public.test": [[PUBLIC]], "evil.test": [[INNER]]}
    async with a_fetcher(site, inner, names=names) as fetcher:
        with pytest.raises((AddressRefused, UrlRefused)):
            await fetcher.fetch(f"http://public.test:{site.port}/away")
    assert inner.requests == []


async def test_a_chain_of_redirects_is_refused_at_its_inner_end(site: FakeSite, inner: FakeSite) -> None:
    last = site.redirect("last", f"http://{INNER}:{inner.port}/secret", "307 Temporary Redirect")
    first = site.redirect("first", last, "301 Moved Permanently")
    async with a_fetcher(site, inner) as fetcher:
        with pytest.raises(AddressRefused):
            await fetcher.fetch(first)
    assert inner.requests == []


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "127.1",
        "127.0.1",
        "127.0.0.01",
        "127.0.0.256",
        "1.2.3.4.5",
        "0x",
        "①②⑦.⓪.⓪.①",
        "127。0。0。1",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "127.0.0.1%00.public.test",
        "[::1%25lo]",
        "[fe80::1%lo]",
        "[::127.0.0.1.]",
        "[127.0.0.1]",
        "[v1.x]",
        "-a.test",
        "a..test",
        "a" * 64 + ".test",
        "a." * 130 + "test",
        "a_b!.test",
    ],
)
def test_an_unusual_form_of_a_host_is_refused(host: str) -> None:
    with pytest.raises((AddressRefused, UrlRefused)):
        read_url(f"http://{host}/", FetchRules())


@pytest.mark.parametrize(
    "url",
    [
        "http://user@public.test/",
        "http://user:password@public.test/",
        "http://:@public.test/",
        "http://@public.test/",
        "http://public.test@evil.test/",
        "http://public.test:80@evil.test/",
        "http://public.test%40evil.test/",
        "http://public.test\\@evil.test/",
        "http://public.test\\.evil.test/",
        "http:\\\\public.test\\",
        "http:/public.test/",
        "http:public.test",
        "http:///public.test/",
        "//public.test/",
        "public.test",
        "",
        "ftp://public.test/",
        "file:///etc/passwd",
        "gopher://public.test/_x",
        "data:text/html,x",
        "javascript:alert(1)",
        "ws://public.test/",
        "http+unix://%2Frun%2Fdocker.sock/",
        "jar:http://public.test!/",
        "http://",
        "http://:80/",
        "http://public.test:/",
        "http://public.test:0/",
        "http://public.test:22/",
        "http://public.test:8080/",
        "http://public.test:65616/",
        "http://public.test:99999999/",
        "http://public.test:+80/",
        "http://public.test:\uff18\uff10/",
        "http://public.test:80:80/",
        "http://public.test\t/",
        " http://public.test/",
        "http://public.test/\r\nX-Injected: 1",
        "http://public.test/ HTTP/1.1\r\nHost: evil.test",
        "http://public.test/\x00",
        "http://pub\nlic.test/",
        "http://public.test/" + "a" * 5000,
        "http://a[b].test/",
        "http://[::1/",
    ],
)
def test_a_url_that_could_be_read_in_two_ways_is_refused(url: str) -> None:
    with pytest.raises(UrlRefused):
        read_url(url, FetchRules())


@pytest.mark.parametrize(
    ("url", "host", "sent"),
    [
        ("HTTP://Public.TEST/a#b@evil.test", "public.test", "http://public.test/a"),
        ("https://public.test:443/a?b=@evil.test", "public.test", "https://public.test/a?b=@evil.test"),
        ("http://public.test./", "public.test", "http://public.test/"),
        ("http://bücher.test/ä", "xn--bcher-kva.test", "http://xn--bcher-kva.test/%C3%A4"),
        ("http://public.test?x", "public.test", "http://public.test/?x"),
        ("http://93.184.216.34/", "93.184.216.34", "http://93.184.216.34/"),
        ("http://[2A00:1450:4001:080b::200E]/", "2a00:1450:4001:80b::200e", "http://[2a00:1450:4001:80b::200e]/"),
        ("http://public.test/%0d%0aX-Injected:%201", "public.test", "http://public.test/%0D%0AX-Injected:%201"),
    ],
)
def test_a_url_has_one_host_and_is_sent_in_one_form(url: str, host: str, sent: str) -> None:
    target = read_url(url, FetchRules())
    assert (target.host, str(target.url)) == (host, sent)


async def test_an_allowed_host_has_an_inner_address_and_its_own_port(site: FakeSite, inner: FakeSite) -> None:
    inner.page("page", "inner")
    names = {"intranet.test": [[INNER]], "evil.test": [[INNER]]}
    rules = {"ports": frozenset({80, 443}), "allowed": AllowedHosts.parse([f"intranet.test:{inner.port}"])}
    async with a_fetcher(names=names, **rules) as fetcher:
        assert (await fetcher.fetch(f"http://intranet.test:{inner.port}/page")).text == "inner"
        with pytest.raises(UrlRefused):
            await fetcher.fetch(f"http://intranet.test:{site.port}/page")
        with pytest.raises(UrlRefused):
            await fetcher.fetch(f"http://evil.test:{inner.port}/page")
    assert len(inner.requests) == 1


async def test_a_host_is_allowed_by_its_whole_name(inner: FakeSite) -> None:
    names = {name: [[INNER]] for name in ("evil-intranet.test", "intranet.test.evil.test", "a.intranet.test")}
    async with a_fetcher(inner, names=names, allowed=AllowedHosts.parse(["intranet.test"])) as fetcher:
        for name in names:
            with pytest.raises(AddressRefused):
                await fetcher.fetch(f"http://{name}:{inner.port}/page")
    assert inner.requests == []


async def test_an_allowed_host_does_not_open_the_way_to_others_by_a_redirect(site: FakeSite, inner: FakeSite) -> None:
    away = inner.redirect("away", f"http://{INNER}:{inner.port}/secret").replace(INNER, "intranet.test")
    async with a_fetcher(
        inner, names={"intranet.test": [[INNER]]}, allowed=AllowedHosts.parse(["intranet.test"])
    ) as fetcher:
        with pytest.raises(AddressRefused):
            await fetcher.fetch(away)
    assert "/secret" not in inner.paths()


@pytest.mark.parametrize("entry", ["http://a.test", "a.test/path", "user@a.test", "[::1", "a.test:x", "1.2.3.400", "*"])
def test_a_host_of_another_form_cannot_be_allowed(entry: str) -> None:
    with pytest.raises(ValueError):
        AllowedHosts.parse([entry])


async def test_proxy_variables_are_ignored(site: FakeSite, inner: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://{INNER}:{inner.port}")
    monkeypatch.delenv("no_proxy", raising=False)
    url = site.page("page", "direct")
    async with a_fetcher(site) as fetcher:
        assert (await fetcher.fetch(url)).text == "direct"
    assert inner.requests == []


async def test_a_name_without_an_address_is_unreachable(site: FakeSite) -> None:
    async with a_fetcher(site) as fetcher:
        with pytest.raises(Unreachable):
            await fetcher.fetch(f"http://nowhere.test:{site.port}/")


async def test_a_port_where_nothing_listens_is_unreachable() -> None:
    port = free_port()
    async with a_fetcher(ports=frozenset({port})) as fetcher:
        with pytest.raises(Unreachable):
            await fetcher.fetch(f"http://{PUBLIC}:{port}/")


async def test_a_site_without_tls_is_unreachable_by_https() -> None:
    async def respond(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(respond, PUBLIC, 0)
    port = server.sockets[0].getsockname()[1]
    async with server, a_fetcher(ports=frozenset({port})) as fetcher:
        with pytest.raises(Unreachable):
            await fetcher.fetch(f"https://{PUBLIC}:{port}/")


async def test_the_systems_resolver_is_checked_like_any_other(inner: FakeSite) -> None:
    resolver = ThreadResolver(2)
    assert {found["host"] for found in await resolver.resolve("localhost")} >= {INNER}
    fetcher = Fetcher(FetchRules(ports=frozenset({inner.port}), robots=False), resolver)
    async with fetcher.running():
        with pytest.raises(AddressRefused):
            await fetcher.fetch(f"http://localhost:{inner.port}/")
    assert inner.requests == []
