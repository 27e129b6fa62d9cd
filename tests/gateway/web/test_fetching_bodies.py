"""Bodies without end, bombs, slow and broken responses, encodings."""

from __future__ import annotations

import asyncio
import gzip
import threading
import zlib
from collections.abc import Callable

import pytest

from ragstore_gateway.fetching.errors import FetchTimeout, ResponseInvalid, ResponseTooLarge
from tests.gateway.web.fetchers import a_fetcher
from tests.support.fake_sites import FakeSite
from tests.support.fake_upstream import Behaviour, Exchange
from tests.support.hangs import ends

LIMIT = 64 * 1024
BOMB_BYTES = 50 * 1024 * 1024


def _raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def _gzip_members(data: bytes) -> bytes:
    return b"".join(gzip.compress(data[start : start + 1024 * 1024]) for start in range(0, len(data), 1024 * 1024))


PACKERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "gzip with members": ("x-gzip", _gzip_members),
    "deflate": ("deflate", zlib.compress),
    "deflate without a head": ("Deflate", _raw_deflate),
}


@pytest.mark.parametrize(("encoding", "pack"), PACKERS.values(), ids=PACKERS.keys())
async def test_a_bomb_is_refused_before_it_is_unpacked(
    site: FakeSite, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    packed = pack(bytes(BOMB_BYTES))
    url = site.page("bomb", packed, f"Content-Encoding: {encoding}")
    async with a_fetcher(site) as fetcher:
        with pytest.raises(ResponseTooLarge):
            await fetcher.fetch(url, max_bytes=len(packed) + 1024)


@pytest.mark.parametrize(("encoding", "pack"), PACKERS.values(), ids=PACKERS.keys())
async def test_a_packed_page_is_unpacked(site: FakeSite, encoding: str, pack: Callable[[bytes], bytes]) -> None:
    text = "".join(f"line {number}\n" for number in range(200_000))
    url = site.page("packed", pack(text.encode()), f"Content-Encoding: {encoding}")
    async with a_fetcher(site) as fetcher:
        assert (await fetcher.fetch(url, max_bytes=len(text))).text == text
    assert site.requests[-1].header("accept-encoding") == ["gzip, deflate"]


@pytest.mark.parametrize("encoding", ["br", "zstd", "compress", "gzip, gzip", "gzip,br", "x" * 100])
async def test_an_encoding_that_was_not_requested_is_refused_and_never_unpacked(site: FakeSite, encoding: str) -> None:
    url = site.page("other", b"\xce\xb2\xcf\x81" * 10, f"Content-Encoding: {encoding}")
    async with a_fetcher(site) as fetcher:
        with pytest.raises(ResponseInvalid):
            await fetcher.fetch(url)


@pytest.mark.parametrize("packed", [b"not gzip at all", gzip.compress(b"x" * 5000, mtime=0)[:-9], b"\x1f\x8b\x08\x00"])
async def test_a_packed_page_that_is_damaged_is_refused(site: FakeSite, packed: bytes) -> None:
    url = site.page("damaged", packed, "Content-Encoding: gzip")
    async with a_fetcher(site) as fetcher:
        with pytest.raises(ResponseInvalid):
            await fetcher.fetch(url)


async def test_zeros_after_a_packed_page_are_ignored(site: FakeSite) -> None:
    url = site.page("padded", gzip.compress(b"text") + bytes(100), "Content-Encoding: gzip")
    async with a_fetcher(site) as fetcher:
        assert (await fetcher.fetch(url)).text == "text"


async def test_a_body_that_is_announced_as_too_large_is_not_read(site: FakeSite) -> None:
    async def announce(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n")
        await exchange.until_closed()

    url = site.behave("announced", announce)
    async with a_fetcher(site) as fetcher:
        with pytest.raises(ResponseTooLarge):
            await fetcher.fetch(url, max_bytes=LIMIT)
    assert await asyncio.to_thread(site.requests[-1].closed.wait, 10)


async def _endless_chunks(exchange: Exchange) -> None:
    await exchange.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await exchange.chunk(b"x" * 8192)


async def _endless_until_close(exchange: Exchange) -> None:
    await exchange.raw(b"HTTP/1.0 200 OK\r\n\r\n")
    while True:
        await exchange.raw(b"x" * 8192)


@pytest.mark.parametrize("behaviour", [_endless_chunks, _endless_until_close])
async def test_a_body_without_end_is_refused(site: FakeSite, behaviour: Behaviour) -> None:
    url = site.behave("endless", behaviour)
    async with a_fetcher(site) as fetcher:
        with pytest.raises(ResponseTooLarge):
            await fetcher.fetch(url, max_bytes=LIMIT)


async def test_a_body_of_exactly_the_limit_is_accepted(site: FakeSite) -> None:
    url = site.page("exact", b"x" * LIMIT)
    async with a_fetcher(site, max_bytes=LIMIT) as fetcher:
        assert len((await fetcher.fetch(url)).body) == LIMIT
        with pytest.raises(ResponseTooLarge):
            await fetcher.fetch(site.page("exact", b"x" * (LIMIT + 1)), max_bytes=10 * LIMIT)


async def _drip_body(exchange: Exchange) -> None:
    await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n")
    while True:
        await exchange.raw(b"x")
        await asyncio.sleep(0.02)


async def _drip_headers(exchange: Exchange) -> None:
    await exchange.raw(b"HTTP/1.1 200 OK\r\n")
    while True:
        await exchange.raw(b"X-A: b\r\n")
        await asyncio.sleep(0.02)


async def _drip_interim(exchange: Exchange) -> None:
    while True:
        await exchange.raw(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        await asyncio.sleep(0.02)


async def _drip_redirects(exchange: Exchange) -> None:
    await asyncio.sleep(0.2)
    await exchange.respond(b"", status="302 Found", headers=["Location: drip"])


async def _silent(exchange: Exchange) -> None:
    await exchange.until_closed()


@pytest.mark.parametrize("behaviour", [_drip_body, _drip_headers, _drip_interim, _drip_redirects, _silent])
async def test_a_slow_response_ends_at_the_time_limit(site: FakeSite, behaviour: Behaviour) -> None:
    url = site.behave("drip", behaviour)
    async with a_fetcher(site, timeout_seconds=0.5, max_redirects=1000) as fetcher:
        with pytest.raises(FetchTimeout):
            await fetcher.fetch(url)


BROKEN: dict[str, bytes] = {
    "shorter than announced": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nshort",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nshort",
    "a length that is no number": b"HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\nshort",
    "a chunk that breaks off": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nshort",
    "a chunk of no size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nshort",
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-",
    "a long header": b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 100_000 + b"\r\n\r\n",
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"X-Many: 1\r\n" * 100_000 + b"\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
}


@pytest.mark.parametrize("response", BROKEN.values(), ids=BROKEN.keys())
async def test_a_response_that_is_not_whole_http_is_refused(site: FakeSite, response: bytes) -> None:
    async def respond(exchange: Exchange) -> None:
        await exchange.raw(response)
        exchange.writer.close()

    url = site.behave("broken", respond)
    async with a_fetcher(site) as fetcher:
        with pytest.raises(ResponseInvalid):
            await fetcher.fetch(url)


async def test_more_bytes_than_announced_are_no_second_response(site: FakeSite) -> None:
    async def respond(exchange: Exchange) -> None:
        smuggled = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled"
        await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst" + smuggled)
        await exchange.until_closed()

    first = site.behave("first", respond)
    second = site.page("second", "second")
    async with a_fetcher(site) as fetcher:
        assert (await fetcher.fetch(first)).text == "first"
        assert (await fetcher.fetch(second)).text == "second"


async def test_a_failure_is_not_kept(site: FakeSite) -> None:
    url = site.behave("flaky", _abort)
    async with a_fetcher(site) as fetcher:
        with pytest.raises(ResponseInvalid):
            await fetcher.fetch(url)
        site.page("flaky", "now it works")
        assert (await fetcher.fetch(url)).text == "now it works"


async def _abort(exchange: Exchange) -> None:
    exchange.drop()


async def test_requests_to_one_host_are_limited_and_other_hosts_do_not_wait(site: FakeSite, inner: FakeSite) -> None:
    full, free = threading.Event(), threading.Event()
    in_progress = 0
    peak = 0

    async def slow(exchange: Exchange) -> None:
        nonlocal in_progress, peak
        in_progress += 1
        peak = max(peak, in_progress)
        if in_progress == 2:
            full.set()
        await exchange.until(free)
        in_progress -= 1
        await exchange.respond(b"slow")

    slow_page, other = site.behave("slow", slow), inner.page("page", "other")
    async with a_fetcher(site, inner, address_check=lambda _: True, max_fetches_per_host=2, max_fetches=3) as fetcher:
        waiting = [asyncio.ensure_future(fetcher.fetch(slow_page)) for _ in range(6)]
        assert await asyncio.to_thread(full.wait, 10)
        assert (await fetcher.fetch(other)).text == "other"
        free.set()
        assert [fetched.text for fetched in await asyncio.gather(*waiting)] == ["slow"] * 6
    assert peak == 2


async def test_a_caller_that_leaves_frees_its_slot_and_its_connection(site: FakeSite) -> None:
    arrived = threading.Event()

    async def silent(exchange: Exchange) -> None:
        arrived.set()
        await exchange.until_closed()

    url = site.behave("silent", silent)
    page = site.page("page", "page")
    async with a_fetcher(site, max_fetches_per_host=1) as fetcher:
        leaving = asyncio.ensure_future(fetcher.fetch(url))
        assert await asyncio.to_thread(arrived.wait, 10)
        leaving.cancel()
        assert (await fetcher.fetch(page)).text == "page"
    assert await asyncio.to_thread(site.requests[0].closed.wait, 10)


CONTENTS: dict[str, tuple[bytes, str, str, str, str]] = {
    "by the header": ("ä".encode("cp1252"), "text/html; charset=ISO-8859-1", "text/html", "cp1252", "ä"),
    "by a quoted header": ("я".encode("koi8-r"), 'Text/HTML;charset="KOI8-R"', "text/html", "koi8-r", "я"),
    "by a meta element": (
        b'<html><meta charset="windows-1251">' + "я".encode("cp1251"),
        "text/html",
        "text/html",
        "cp1251",
        '<html><meta charset="windows-1251">я',
    ),
    "by an XML declaration": (
        b'<?xml version="1.0" encoding="Shift_JIS"?>' + "日".encode("cp932"),
        "application/xml",
        "application/xml",
        "cp932",
        '<?xml version="1.0" encoding="Shift_JIS"?>日',
    ),
    "by a byte order mark": ("\ufeffä".encode(), "text/plain; charset=latin1", "text/plain", "utf-8", "ä"),
    "UTF-16 by its mark": ("\ufeffä".encode("utf-16-le"), "text/plain", "text/plain", "utf-16-le", "ä"),
    "as UTF-8": ("日本".encode(), "text/plain", "text/plain", "utf-8", "日本"),
    "as Western": ("ä".encode("cp1252"), "text/plain", "text/plain", "cp1252", "ä"),
    "a codec that is no encoding": (b"eJwrSS0uAQAEXQHB", "text/plain; charset=zlib", "text/plain", "utf-8", ""),
    "a codec of quadratic time": (b"a-", "text/plain; charset=punycode", "text/plain", "utf-8", "a-"),
    "an unknown encoding": (b"a", "text/plain; charset=x-nonsense", "text/plain", "utf-8", "a"),
    "HTML without a type": (b"<!-- x --> <!DOCTYPE html><p>x", "", "text/html", "utf-8", ""),
    "HTML as bytes": (b"\n<html>", "application/octet-stream", "text/html", "utf-8", "\n<html>"),
    "text without a type": (b"plain", "", "text/plain", "utf-8", "plain"),
    "bytes without a type": (b"\x00\x01\x02", "", "application/octet-stream", "", ""),
    "a PDF file that is called HTML": (b"%PDF-1.7", "text/html", "application/pdf", "", ""),
    "a picture that is called text": (b"\x89PNG\r\n\x1a\n", "text/plain", "image/png", "", ""),
    "an office file": (b"PK\x03\x04", "application/vnd.x", "application/vnd.x", "", ""),
    "a type that is none": (b"plain", "nonsense", "text/plain", "utf-8", "plain"),
    "nothing": (b"", "text/html", "", "", ""),
}


@pytest.mark.parametrize(("body", "header", "media_type", "charset", "text"), CONTENTS.values(), ids=CONTENTS.keys())
async def test_type_and_encoding_are_recognised(
    site: FakeSite, body: bytes, header: str, media_type: str, charset: str, text: str
) -> None:
    url = site.page("content", body, f"Content-Type: {header}")
    async with a_fetcher(site) as fetcher:
        fetched = await fetcher.fetch(url)
    assert (fetched.media_type, fetched.charset) == (media_type, charset)
    if text:
        assert fetched.text == text


@pytest.mark.parametrize(("end", "media_type"), [(b"<html>", "text/html"), (b"kettle", "text/plain")])
async def test_a_page_of_comments_without_a_type_does_not_stop_the_gateway(
    site: FakeSite, end: bytes, media_type: str
) -> None:
    url = site.page("comments", b"<!---->" * 400 + end, "Content-Type:")
    async with a_fetcher(site) as fetcher:
        with ends():
            assert (await fetcher.fetch(url)).media_type == media_type
