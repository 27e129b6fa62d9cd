"""Requests: redirects, conditions, methods, headers that would be another request."""

from __future__ import annotations

import pytest

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.fetching.errors import TooManyRedirects, UrlRefused
from tests.gateway.web.fetchers import INNER, PUBLIC, a_fetcher
from tests.support.fake_sites import FakeSite
from tests.support.fake_upstream import Exchange


async def test_a_page_is_fetched_with_its_final_url_and_status(site: FakeSite) -> None:
    page = site.page("page", "<p>Tea</p>", "X-Own: a", "Content-Type: text/html") + "?x=1"
    moved = site.redirect("moved", "/page?x=1", "301 Moved Permanently")
    async with a_fetcher(site) as fetcher:
        fetched = await fetcher.fetch(moved + "#part")
    assert (fetched.url, fetched.final_url, fetched.status) == (moved + "#part", page, 200)
    assert (fetched.text, fetched.media_type, fetched.headers["x-own"]) == ("<p>Tea</p>", "text/html", "a")


async def test_an_error_page_is_a_response_with_its_status(site: FakeSite) -> None:
    url = site.page("gone", "Gone for good", status="410 Gone")
    async with a_fetcher(site) as fetcher:
        fetched = await fetcher.fetch(url)
    assert (fetched.ok, fetched.status, fetched.text) == (False, 410, "Gone for good")


@pytest.mark.parametrize("location", ["a", "/loop", "?x=1"])
async def test_redirects_without_end_are_refused(site: FakeSite, location: str) -> None:
    for name in ("loop", "a"):
        site.redirect(name, location)
    async with a_fetcher(site, max_redirects=3) as fetcher:
        with pytest.raises(TooManyRedirects):
            await fetcher.fetch(f"{site.origin}/loop")
    assert len(site.requests) == 4


async def test_a_redirect_with_a_space_or_an_umlaut_is_followed(site: FakeSite) -> None:
    site.page("a%20%C3%A4", "here")

    async def redirect(exchange: Exchange) -> None:
        await exchange.raw("HTTP/1.1 302 Found\r\nLocation:  /a ä \r\nContent-Length: 0\r\n\r\n".encode())

    async with a_fetcher(site) as fetcher:
        assert (await fetcher.fetch(site.behave("spaced", redirect))).text == "here"


async def test_a_redirect_without_a_location_is_a_response(site: FakeSite) -> None:
    async with a_fetcher(site) as fetcher:
        assert (await fetcher.fetch(site.page("odd", "x", status="302 Found"))).status == 302


async def test_an_unchanged_page_is_304(site: FakeSite) -> None:
    async def conditional(exchange: Exchange) -> None:
        if exchange.request.header("if-none-match") == ['"v1"']:
            await exchange.raw(b'HTTP/1.1 304 Not Modified\r\nETag: "v1"\r\n\r\n')
        else:
            date = "Sun, 22 Nov 2026 10:00:00 GMT"
            await exchange.respond(b"page", headers=['ETag: "v1"', f"Last-Modified: {date}"])

    url = site.behave("conditional", conditional)
    async with a_fetcher(site) as fetcher:
        first = await fetcher.fetch(url)
        second = await fetcher.fetch(url, etag=first.etag, last_modified=first.last_modified)
    assert (first.status, first.not_modified, second.status, second.not_modified) == (200, False, 304, True)
    assert (second.body, second.etag) == (b"", '"v1"')
    assert site.requests[-1].header("if-modified-since") == ["Sun, 22 Nov 2026 10:00:00 GMT"]


async def test_a_call_has_its_method_headers_and_body(site: FakeSite) -> None:
    url = site.page("call", '{"ok": true}', "Content-Type: application/json")
    async with a_fetcher(site) as fetcher:
        fetched = await fetcher.fetch(
            url, method="POST", headers={"X-Key": "k", "Content-Type": "application/json"}, body=b'{"q": "tea"}'
        )
    request = site.requests[-1]
    assert (request.method, request.body) == ("POST", b'{"q": "tea"}')
    assert (request.header("x-key"), request.header("content-type")) == (["k"], ["application/json"])
    assert fetched.media_type == "application/json"


async def test_a_redirect_to_another_origin_gets_no_header_of_the_caller(site: FakeSite, inner: FakeSite) -> None:
    inner.page("page", "there")
    away = site.redirect("away", f"{inner.origin}/page")
    async with a_fetcher(site, inner, address_check=lambda _: True) as fetcher:
        await fetcher.fetch(away, headers={"Authorization": "Bearer secret", "X-Key": "secret"})
    assert site.requests[-1].header("authorization") == ["Bearer secret"]
    assert not [value for _, value in inner.requests[-1].headers if "secret" in value]


async def test_a_redirect_to_another_origin_gets_no_body_of_the_caller(site: FakeSite, inner: FakeSite) -> None:
    away = site.redirect("away", f"{inner.origin}/page", "307 Temporary Redirect")
    async with a_fetcher(site, inner, address_check=lambda _: True) as fetcher:
        with pytest.raises(UrlRefused):
            await fetcher.fetch(away, method="POST", body=b"secret")
    assert inner.requests == []


@pytest.mark.parametrize(
    ("status", "method", "then", "body"),
    [
        ("303 See Other", "POST", "GET", b""),
        ("302 Found", "POST", "GET", b""),
        ("307 Temporary Redirect", "POST", "POST", b"b"),
        ("308 Permanent Redirect", "PUT", "PUT", b"b"),
        ("301 Moved Permanently", "PUT", "PUT", b"b"),
    ],
)
async def test_a_redirect_keeps_or_changes_the_method_as_http_has_it(
    site: FakeSite, status: str, method: str, then: str, body: bytes
) -> None:
    site.page("there", "x")
    url = site.redirect("here", "there", status)
    async with a_fetcher(site) as fetcher:
        await fetcher.fetch(url, method=method, body=b"b", headers={"Content-Type": "text/plain"})
    request = site.requests[-1]
    assert (request.method, request.body) == (then, body)
    assert bool(request.header("content-type")) == bool(body)


async def test_head_has_no_body_whatever_length_is_announced(site: FakeSite) -> None:
    async def head(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")

    async with a_fetcher(site) as fetcher:
        fetched = await fetcher.fetch(site.behave("head", head), method="HEAD")
    assert (fetched.status, fetched.body) == (200, b"")


@pytest.mark.parametrize(
    "headers",
    [
        {"X-A": "b\r\nX-Injected: 1"},
        {"X-A": "b\nX-Injected: 1"},
        {"X-A": "b\x00"},
        {"X-A": "\u0100"},
        {"X-A\r\nX-Injected": "1"},
        {"X A": "1"},
        {"": "1"},
        {"X-A:": "1"},
        {"Host": "evil.test"},
        {"host": "evil.test"},
        {"Content-Length": "0"},
        {"Transfer-Encoding": "chunked"},
        {"Connection": "Upgrade"},
        {"Expect": "100-continue"},
        {"Proxy-Authorization": "x"},
    ],
)
async def test_a_header_that_would_be_another_request_is_refused(site: FakeSite, headers: dict[str, str]) -> None:
    async with a_fetcher(site) as fetcher:
        with pytest.raises(InvalidRequest):
            await fetcher.fetch(f"{site.origin}/page", headers=headers)
    assert site.requests == []


@pytest.mark.parametrize("method", ["get", "CONNECT", "TRACE", "GET / HTTP/1.1\r\nX:", "", "PROPFIND"])
async def test_a_method_of_another_kind_is_refused(site: FakeSite, method: str) -> None:
    async with a_fetcher(site) as fetcher:
        with pytest.raises(InvalidRequest):
            await fetcher.fetch(f"{site.origin}/page", method=method)
    assert site.requests == []


async def test_line_breaks_of_a_url_stay_encoded(site: FakeSite) -> None:
    async with a_fetcher(site) as fetcher:
        await fetcher.fetch(f"{site.origin}/a%0d%0aX-Injected:%201?b=%0A")
    request = site.requests[-1]
    assert request.target.lower() == "/a%0d%0ax-injected:%201?b=%0a"
    assert not request.header("x-injected")


async def test_line_breaks_of_a_validator_are_not_sent(site: FakeSite) -> None:
    url = site.page("page", "x")
    async with a_fetcher(site) as fetcher:
        await fetcher.fetch(url, etag='"a"\r\nX-Injected: 1', last_modified="\n")
    assert not site.requests[-1].header("x-injected")
    assert not site.requests[-1].header("if-none-match")


async def test_a_request_names_the_gateway_and_has_no_cookie(site: FakeSite) -> None:
    url = site.page("page", "x", "Set-Cookie: a=b; Path=/")
    async with a_fetcher(site) as fetcher:
        await fetcher.fetch(url)
        await fetcher.fetch(url)
    request = site.requests[-1]
    assert request.header("user-agent")[0].startswith("ragstore-gateway/")
    assert request.header("host") == [f"{PUBLIC}:{site.port}"]
    assert not request.header("cookie")
    assert not request.header("referer")


async def test_the_host_header_is_the_name_and_not_its_address(site: FakeSite) -> None:
    site.page("page", "x")
    async with a_fetcher(site, names={"public.test": [[PUBLIC]]}) as fetcher:
        await fetcher.fetch(f"http://public.test:{site.port}/page")
    assert site.requests[-1].header("host") == [f"public.test:{site.port}"]
    assert INNER not in str(site.requests[-1].headers)


async def test_errors_have_stable_codes_and_no_part_of_the_url() -> None:
    async with a_fetcher() as fetcher:
        with pytest.raises(UrlRefused) as caught:
            await fetcher.fetch("http://user:secret@host.test/path")
    assert caught.value.code == "url_refused"
    assert not [word for word in ("secret", "host.test", "path?") if word in caught.value.detail]
