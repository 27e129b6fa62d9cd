"""Models without the prefix `rag/`, and all other paths under `/v1`, pass through unchanged."""

from __future__ import annotations

import gzip
import threading

import httpx
import pytest

from tests.support.fake_upstream import DONE, Exchange, FakeUpstream, delta, responding
from tests.support.raw_http import connect, read_all
from tests.support.servers import Served

pytestmark = pytest.mark.process

ODD = (
    b'{ "model" :"m",\n"unknown_field": {"a":  1.50, "b": 1e999, "c": "\\ud83d\\ude00"}, '
    b'"n": 123456789012345678901234567890,\t"messages": [] }'
)


def chat(http: httpx.Client, body: bytes, **headers: str) -> httpx.Response:
    return http.post("/v1/chat/completions", content=body, headers={"Content-Type": "application/json", **headers})


@pytest.mark.parametrize("body", [ODD, b'{"model":"m","cut":"\\ud83d"}', b'{"model":"m"} trailing', b"[]", b"\xff"])
def test_the_body_reaches_the_upstream_byte_for_byte(http: httpx.Client, upstream: FakeUpstream, body: bytes) -> None:
    upstream.on("m", responding(b"{}"))
    chat(http, body)
    upstream.off("m")
    assert upstream.last.body == body
    assert upstream.last.target == "/v1/chat/completions"


def test_a_large_body_is_sent_in_pieces_with_its_length(http: httpx.Client, upstream: FakeUpstream) -> None:
    upstream.on("large", responding(b"{}"))
    body = b'{"model":"large","padding":"' + b"x" * 290_000 + b'"}'
    response = chat(http, body)
    assert response.status_code == 200, response.text
    assert upstream.last.body == body
    assert upstream.last.header("content-length") == [str(len(body))]
    assert upstream.last.header("transfer-encoding") == []


def test_status_headers_and_body_of_the_response_are_the_upstreams(http: httpx.Client, upstream: FakeUpstream) -> None:
    body = b'{ "odd":  1.50 }\n'
    upstream.on("own-status", responding(body, "418 Teapot", "X-Own: a", "X-Own: b", "X-Request-ID: req_1"))
    response = chat(http, b'{"model":"own-status"}')
    assert (response.status_code, response.content) == (418, body)
    assert response.headers.get_list("x-own") == ["a", "b"]
    assert response.headers.get_list("x-request-id") == ["req_1"]


def test_a_compressed_response_stays_compressed(http: httpx.Client, upstream: FakeUpstream) -> None:
    packed = gzip.compress(b'{"packed": true}')
    upstream.on("packed", responding(packed, "200 OK", "Content-Encoding: gzip"))
    with http.stream("POST", "/v1/chat/completions", json={"model": "packed"}) as response:
        assert response.headers["content-encoding"] == "gzip"
        assert b"".join(response.iter_raw()) == packed


def test_hop_by_hop_headers_stay_on_their_connection(http: httpx.Client, upstream: FakeUpstream) -> None:
    hop = ("Connection: X-Named, keep-alive", "X-Named: 1", "Keep-Alive: timeout=5", "Proxy-Authenticate: x")
    upstream.on("hops", responding(b"{}", "200 OK", *hop, "X-Kept: 1"))
    own = {"Connection": "x-mine", "X-Mine": "1", "TE": "trailers", "Proxy-Authorization": "x", "X-End": "1"}
    response = chat(http, b'{"model":"hops"}', **own)
    assert not {"x-named", "keep-alive", "proxy-authenticate"} & set(response.headers)
    assert response.headers["x-kept"] == "1"
    names = {name for name, _ in upstream.last.headers}
    assert not {"x-mine", "te", "proxy-authorization", "connection"} & names
    assert "x-end" in names


def test_the_callers_key_and_cookies_are_not_forwarded(http: httpx.Client, upstream: FakeUpstream) -> None:
    secrets = {"Authorization": "Bearer sk-caller", "X-API-Key": "sk-caller", "Api-Key": "sk", "Cookie": "a=sk-caller"}
    chat(http, b'{"model":"m"}', **secrets)
    assert upstream.last.header("authorization") == ["Bearer sk-upstream"]
    assert "sk-caller" not in str(upstream.last.headers)


def test_the_callers_key_is_forwarded_if_the_setting_says_so(manual: httpx.Client, upstream: FakeUpstream) -> None:
    chat(manual, b'{"model":"m"}', Authorization="Bearer sk-caller")
    assert upstream.last.header("authorization") == ["Bearer sk-caller"]


def test_cookies_of_the_upstream_are_not_kept_for_other_callers(http: httpx.Client, upstream: FakeUpstream) -> None:
    upstream.on("cookies", responding(b"{}", "200 OK", "Set-Cookie: session=1; Path=/"))
    chat(http, b'{"model":"cookies"}')
    chat(http, b'{"model":"m"}')
    assert upstream.last.header("cookie") == []


def test_the_request_id_reaches_the_upstream_once(http: httpx.Client, upstream: FakeUpstream) -> None:
    response = chat(http, b'{"model":"m"}', **{"X-Request-ID": "mine-7"})
    assert upstream.last.header("x-request-id") == ["mine-7"]
    assert response.headers["x-request-id"] == "mine-7"


def test_each_chunk_of_a_stream_is_sent_immediately_and_unchanged(http: httpx.Client, upstream: FakeUpstream) -> None:
    pieces = [b": comment\n\n", b'data: {"half', b'":1}\n\n', delta("tea"), DONE]
    received = [threading.Event() for _ in pieces]

    async def behave(exchange: Exchange) -> None:
        await exchange.begin_stream()
        for piece, event in zip(pieces, received, strict=True):
            await exchange.chunk(piece)
            await exchange.until(event)
        await exchange.end_stream()

    upstream.on("slowly", behave)
    got = b""
    with http.stream("POST", "/v1/chat/completions", json={"model": "slowly", "stream": True}) as response:
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        chunks = response.iter_raw()
        for piece, event in zip(pieces, received, strict=True):
            assert next(chunks) == piece
            got += piece
            event.set()
        assert next(chunks, b"") == b""
    assert got == b"".join(pieces)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/completions"),
        ("POST", "/v1/audio/speech"),
        ("GET", "/v1/batches/file%2Fa%20b/content?after=x%26y&after=z"),
        ("DELETE", "/v1/models/ft:m:x"),
        ("GET", "/v1/chat/completions"),
        ("GET", "/v1/chat/completions/c-1/messages"),
        ("POST", "/v1/chat/completions/c-1"),
        ("GET", "/v1/responses/r-1"),
        ("PUT", "/v1/anything/at/all"),
        ("PATCH", "/v1/unknown"),
        ("GET", "/v1/models/openai/gpt-x"),
    ],
)
def test_every_other_path_is_proxied_with_its_method_and_query(
    http: httpx.Client, upstream: FakeUpstream, method: str, path: str
) -> None:
    response = http.request(method, path, content=b"" if method == "GET" else b"body")
    assert response.status_code == 200
    assert (upstream.last.method, upstream.last.target) == (method, path)


@pytest.mark.parametrize(
    "path", ["/v1/files/../../key", "/v1/files/%2e%2e/%2e%2e/key", "/v1/x/%252e%252e/%2e", "/v1/..%5cx"]
)
def test_a_path_cannot_leave_the_upstreams_base(chat_gateway: Served, upstream: FakeUpstream, path: str) -> None:
    before = len(upstream.requests)
    with connect(chat_gateway) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        assert read_all(connection).startswith(b"HTTP/1.1 404")
    assert len(upstream.requests) == before


def test_a_redirect_is_passed_on_and_not_followed(http: httpx.Client, upstream: FakeUpstream) -> None:
    upstream.on("elsewhere", responding(b"", "307 Temporary Redirect", f"Location: {upstream.url}/secret"))
    response = chat(http, b'{"model":"elsewhere"}')
    assert (response.status_code, response.headers["location"]) == (307, f"{upstream.url}/secret")
    assert upstream.last.target == "/v1/chat/completions"


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        ("429 Too Many Requests", ("Retry-After: 7",), b'{"error":{"message":"slow down","code":"rate"}}'),
        ("400 Bad Request", (), b'{"error":{"message":"no"}}'),
        ("500 Internal Server Error", ("Content-Type: application/problem+json",), b'{"title":"theirs"}'),
        ("503 Service Unavailable", ("Content-Type: text/html",), b"<h1>busy</h1>"),
    ],
)
@pytest.mark.parametrize("prefix", ["", "rag/"])
def test_errors_of_the_upstream_pass_with_status_and_body(
    http: httpx.Client, upstream: FakeUpstream, status: str, headers: tuple[str, ...], body: bytes, prefix: str
) -> None:
    upstream.on("m", responding(body, status, *headers))
    response = chat(http, b'{"model":"%sm","messages":[{"role":"user","content":"Tea?"}]}' % prefix.encode())
    upstream.off("m")
    assert (response.status_code, response.content) == (int(status[:3]), body)
    assert response.headers.get("retry-after") == ("7" if "429" in status else None)


def test_without_an_upstream_chat_is_503_and_names_the_setting(gateway: Served) -> None:
    for response in (
        httpx.post(gateway.url + "/v1/chat/completions", json={"model": "rag/m"}),
        httpx.get(gateway.url + "/v1/models"),
        httpx.post(gateway.url + "/v1/completions", json={"model": "m"}),
    ):
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "not_configured"
        assert "RAGSTORE_GATEWAY_UPSTREAM_URL" in response.json()["error"]["message"]
