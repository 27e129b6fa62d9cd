"""The cost of requests: which of them are streams, how many tokens they take, and which take none."""

from __future__ import annotations

import gzip
import json
import os
import threading
import zlib
from typing import Any

import httpx
import pytest

from ragstore.kit.time_slices import run_whole
from ragstore_gateway.chat import usage
from ragstore_gateway.chat.body import form_requests_stream
from ragstore_gateway.chat.quotas import StreamQuota, TokenQuota
from ragstore_gateway.chat.request_cost import RequestCost
from ragstore_gateway.chat.usage import PIECE_BYTES, UsageMeter, readable_encodings
from ragstore_gateway.errors import TokenRateExceeded, TooManyStreams
from tests.gateway.chat.test_faults import error_of
from tests.support.fake_upstream import DONE, Exchange, FakeUpstream, delta, responding
from tests.support.keyed_services import eventually

PLAIN = {"model": "m", "messages": [{"role": "user", "content": "Tea?"}]}
EXPENSIVE = {"model": "m", "messages": [{"role": "user", "content": "tea " * 900}]}
"""An estimate of 900 tokens, of the 1,000 a minute that a key of the tests has."""

REPORTED = json.dumps({"choices": [], "usage": {"total_tokens": 5000}}).encode()


# -- streams --------------------------------------------------------------------------------------


def test_each_response_that_is_a_stream_counts_however_it_was_requested(keyed: Any, upstream: FakeUpstream) -> None:
    free = threading.Event()
    closed = threading.Event()
    reached = threading.Semaphore(0)

    async def wait(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(delta("Tea"))
        # The gateway counts a stream that was not requested as one when it has the head of the response.
        reached.release()
        await exchange.until(free)
        await exchange.chunk(delta(None, finish="stop") + DONE)
        await exchange.end_stream()

    async def refused(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.until_closed()
        closed.set()

    form: dict[str, Any] = {"files": {"file": b"sound"}, "data": {"stream": "true"}}
    upstream.on("transcriptions", wait)
    upstream.on("responses", wait)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("/v1/audio/transcriptions", form),
        ("/v1/responses", {"json": {"input": "Tea?"}}),
    ]
    texts: list[str] = []

    def call(path: str, options: Any) -> None:
        texts.append(keyed("streamer", path=path, **options).text)

    running = [threading.Thread(target=call, args=each) for each in calls]
    for thread in running:
        thread.start()
        assert reached.acquire(timeout=20)
    before = len(upstream.requests)
    for path, options in (
        calls[0],
        ("/v1/completions", {"data": {"model": "m", "stream": "1"}}),
        ("/v1/responses?stream=true", {"json": {}}),
    ):
        assert error_of(keyed("streamer", path=path, **options), 429)["code"] == "too_many_streams"
    assert len(upstream.requests) == before
    upstream.on("responses", refused)
    assert error_of(keyed("streamer", path="/v1/responses", json={}), 429)["code"] == "too_many_streams"
    assert closed.wait(20)
    free.set()
    for thread in running:
        thread.join(20)
    assert all(text.endswith("data: [DONE]\n\n") for text in texts)
    upstream.on("speech", responding(b"sound", "200 OK", "Content-Type: audio/mpeg"))
    # A stream that its caller has read counts until the gateway has ended it.
    assert eventually(lambda: keyed("streamer", path="/v1/audio/speech", json={}).content == b"sound")
    for name in ("transcriptions", "responses", "speech"):
        upstream.off(name)


MULTIPART = "multipart/form-data; boundary=b"
FORM = "application/x-www-form-urlencoded"


def part(value: bytes, head: bytes = b'Content-Disposition: form-data; name="stream"') -> bytes:
    return b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--b\r\n' + head + b"\r\n\r\n" + value


@pytest.mark.parametrize(
    ("content_type", "query", "body"),
    [
        (MULTIPART, b"", part(b"true\r\n--b--")),
        (MULTIPART, b"", part(b" 1\r\n--b--")),
        (MULTIPART, b"", part(b"yes", b"content-disposition: form-data; name=stream\r\nContent-Type: text/plain")),
        (MULTIPART, b"", part(b"false\r\n") + part(b"true\r\n")),
        (MULTIPART, b"", part(b"false\r\n") * 50),
        (FORM, b"", b"model=m&stream=true"),
        (FORM, b"", b"stream=1&model=m"),
        ("", b"stream=true", b""),
        ("", b"a=b&stream=1", b""),
    ],
)
def test_a_form_or_a_query_that_asks_for_a_stream_is_recognised(content_type: str, query: bytes, body: bytes) -> None:
    assert form_requests_stream(content_type, query, body)


@pytest.mark.parametrize(
    ("content_type", "query", "body"),
    [
        (MULTIPART, b"", part(b"false\r\n--b--")),
        (MULTIPART, b"", part(b"x", b'Content-Disposition: form-data; name="file"; filename="stream"')),
        (FORM, b"", b"model=m&stream=false&upstream=true"),
        ("", b"stream=0&restream=true", b""),
        ("application/json", b"", b"stream=true"),
        (MULTIPART, b"", os.urandom(100_000)),
    ],
)
def test_other_forms_are_no_streams(content_type: str, query: bytes, body: bytes) -> None:
    assert not form_requests_stream(content_type, query, body)


def test_a_stream_that_is_refused_costs_no_tokens() -> None:
    tokens, streams = TokenQuota(60, lambda: 0.0), StreamQuota(1)
    with streams.slot(""), RequestCost(tokens, streams, "", 200) as cost, pytest.raises(TooManyStreams):
        cost.count_stream()
    tokens.admit("", 60)  # the whole minute is left


def test_a_stream_is_counted_once() -> None:
    streams = StreamQuota(1)
    with RequestCost(TokenQuota(0), streams, "", 0) as cost:
        cost.count_stream()
        cost.count_stream()
    with streams.slot(""):
        pass


# -- tokens ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["400 Bad Request", "404 Not Found", "429 Too Many Requests", "502 Bad Gateway"])
def test_an_error_of_the_upstream_costs_no_tokens(keyed: Any, upstream: FakeUpstream, status: str) -> None:
    body = b'{"error": {"message": "' + b"x" * 4_000 + b'"}}'
    upstream.on("m", responding(body, status))
    for _ in range(3):
        assert keyed("reader", json=EXPENSIVE).status_code == int(status[:3])
    upstream.off("m")


def test_a_request_without_a_response_costs_no_tokens(keyed: Any, upstream: FakeUpstream) -> None:
    async def drop(exchange: Exchange) -> None:
        exchange.drop()

    upstream.on("m", drop)
    for _ in range(3):
        assert error_of(keyed("reader", json=EXPENSIVE), 502)["code"] == "upstream_unreachable"
    upstream.off("m")
    # The upstream has no such model, so nothing is sent.
    for _ in range(2):
        assert error_of(keyed("reader", json={**EXPENSIVE, "model": "rag/absent"}), 404)["code"] == "model_not_found"


@pytest.mark.parametrize("kind", ["reported", "timeout", "left"])
async def test_work_that_the_upstream_may_have_done_is_charged(kind: str) -> None:
    tokens = TokenQuota(100, lambda: 0.0)
    with RequestCost(tokens, StreamQuota(0), "", 400) as cost:
        await cost.admit()
        cost.sent(400)
        if kind == "reported":
            cost.failed()
            run_whole(cost.feed(b'{"error": {}, "usage": {"total_tokens": 70}}'))
    with pytest.raises(TokenRateExceeded):
        tokens.admit("", 31)
    if kind == "reported":
        tokens.admit("", 30)


async def test_the_passages_in_a_prompt_are_charged_where_the_upstream_reports_no_usage() -> None:
    tokens = TokenQuota(1_000, lambda: 0.0)
    with RequestCost(tokens, StreamQuota(0), "", 400) as cost:
        await cost.admit()
        cost.sent(2_000)
        run_whole(cost.feed(b"data: a\n\ndata: b\n\n"))
    tokens.admit("", 1_000 - 500 - 2)
    with pytest.raises(TokenRateExceeded):
        tokens.admit("", 1)


async def test_a_request_that_was_not_sent_costs_no_tokens() -> None:
    tokens = TokenQuota(100, lambda: 0.0)
    with RequestCost(tokens, StreamQuota(0), "", 400) as cost:
        await cost.admit()
    with RequestCost(tokens, StreamQuota(0), "", 400) as cost:
        await cost.admit()
    tokens.admit("", 100)


def test_a_compressed_response_is_passed_through_and_its_usage_counts(keyed: Any, upstream: FakeUpstream) -> None:
    content = gzip.compress(REPORTED)
    upstream.on("m", responding(content, "200 OK", "Content-Type: application/json", "Content-Encoding: gzip"))
    response = keyed("packer", json=PLAIN, extra={"Accept-Encoding": "zstd, br;q=1.0, gzip;q=0.8, *;q=0.1"})
    assert response.json() == json.loads(REPORTED)
    assert response.headers["content-encoding"] == "gzip"
    assert response.num_bytes_downloaded == len(content)
    assert upstream.last.header("accept-encoding") == ["gzip;q=0.8"]
    upstream.off("m")
    refused = keyed("packer", json=PLAIN)
    assert error_of(refused, 429)["code"] == "token_rate_exceeded"
    assert 200 < int(refused.headers["retry-after"]) < 260
    # A request that makes no model work costs nothing, and needs nothing left.
    assert keyed("packer", "GET", "/v1/models").status_code == 200


def test_without_a_limit_of_tokens_the_accepted_encodings_pass_unchanged(
    http: httpx.Client, upstream: FakeUpstream
) -> None:
    accepted = {"Accept-Encoding": "zstd, br;q=1.0"}
    assert http.post("/v1/chat/completions", json=PLAIN, headers=accepted).status_code == 200
    assert upstream.last.header("accept-encoding") == ["zstd, br;q=1.0"]


@pytest.mark.parametrize(
    ("accepted", "readable"),
    [
        (["gzip, deflate, br, zstd"], "gzip, deflate"),
        (["br"], "identity"),
        (["*"], "identity"),
        (["br", "GZIP;q=0.5"], "GZIP;q=0.5"),
        (["identity;q=0, gzip"], "identity;q=0, gzip"),
        ([], "identity"),
    ],
)
def test_only_encodings_that_can_be_counted_are_requested(accepted: list[str], readable: str) -> None:
    assert readable_encodings(accepted) == readable


def raw_deflate(content: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(content) + compressor.flush()


def metered(encoding: str, content: bytes, size: int = 7) -> UsageMeter:
    meter = UsageMeter(encoding)
    for start in range(0, len(content), size):
        run_whole(meter.feed(content[start : start + size]))
    return meter


def test_usage_is_what_the_upstream_reports_or_an_estimate() -> None:
    assert metered("", b'{"usage": {"total_tokens": 77}}').total(5) == 77
    assert metered("identity", b"data: a\n\ndata: b\n\n", 100).total(5) == 7
    assert metered("", b"x" * 400).total(5) == 105


@pytest.mark.parametrize(
    ("encoding", "content"),
    [
        ("gzip", gzip.compress(REPORTED)),
        ("X-GZIP", gzip.compress(REPORTED[:20]) + gzip.compress(REPORTED[20:])),
        ("deflate", zlib.compress(REPORTED)),
        ("deflate", raw_deflate(REPORTED)),
        ("identity, gzip", gzip.compress(REPORTED)),
    ],
    # gzip's header has the time: ids from the contents would differ between two workers.
    ids=["gzip", "two-members", "zlib", "deflate", "identity"],
)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_the_usage_in_a_compressed_response_is_found(encoding: str, content: bytes, size: int) -> None:
    assert metered(encoding, content, size).total(5) == 5000


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, br", "gzip"])
def test_a_byte_of_an_encoding_that_cannot_be_read_counts_as_a_token(encoding: str) -> None:
    assert metered(encoding, b"\xff" * 400, 100).total(5) == 405


def test_a_bomb_is_decompressed_in_pieces_and_to_a_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "MAX_DECOMPRESSED_BYTES", 1_000_000)
    bomb = gzip.compress(b"\0" * 4_000_000)
    meter = UsageMeter("gzip")
    counted: list[int] = []
    monkeypatch.setattr(meter, "_count", lambda piece: counted.append(len(piece)))
    assert len(list(meter.feed(bomb))) == len(counted)
    assert sum(counted) <= 1_000_000
    assert max(counted) <= PIECE_BYTES
    run_whole(meter.feed(b"\0" * 100))
    assert len(counted) < 20
    assert meter.total(0) == len(bomb) + 100


def test_members_of_gzip_are_limited() -> None:
    members = gzip.compress(b"") * 10_000
    meter = UsageMeter("gzip")
    assert len(list(meter.feed(members))) <= usage.MAX_MEMBERS
    assert meter.total(0) == len(members)


def test_a_stream_in_gzip_counts_its_events() -> None:
    events = b"".join(b'data: {"choices": []}\n\n' for _ in range(50))
    assert metered("gzip", gzip.compress(events), 10_000).total(5) == 55
