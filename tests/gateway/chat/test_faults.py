"""Faults of the upstream, of retrieval and of callers: the right status, in bounded time, and no leak."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.chat.test_rag import QUESTION, ask
from tests.support.fake_upstream import DONE, Exchange, FakeUpstream, delta, fake_upstream, hang
from tests.support.gateways import start_gateway
from tests.support.ledger import wait_until
from tests.support.servers import Served, free_port, running

pytestmark = pytest.mark.process

PLAIN = {"model": "m", "messages": [{"role": "user", "content": QUESTION}]}


def error_of(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    error: dict[str, Any] = body["error"]
    return error


@pytest.fixture(params=["m", "rag/m"])
def model(request: pytest.FixtureRequest) -> str:
    """A model that passes through, and one with retrieval."""
    return str(request.param)


def test_an_upstream_that_never_responds_is_504(http: httpx.Client, upstream: FakeUpstream, model: str) -> None:
    upstream.on("m", hang)
    response = ask(http, QUESTION, model)
    upstream.off("m")
    assert error_of(response, 504)["code"] == "upstream_timeout"
    assert upstream.last.closed.wait(10)


async def _garbage(exchange: Exchange) -> None:
    await exchange.raw(b"\x00\x01 this is not HTTP\r\n\r\n")
    exchange.drop()


async def _dropped(exchange: Exchange) -> None:
    exchange.drop()


async def _broken_body(exchange: Exchange) -> None:
    await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
    exchange.drop()


def test_an_upstream_that_sends_garbage_is_502(http: httpx.Client, upstream: FakeUpstream, model: str) -> None:
    upstream.on("m", _garbage)
    response = ask(http, QUESTION, model)
    upstream.off("m")
    assert error_of(response, 502)["code"] == "upstream_failed"


def test_an_upstream_that_closes_before_its_response_is_502_and_a_chat_is_sent_once(
    http: httpx.Client, upstream: FakeUpstream, model: str
) -> None:
    upstream.on("m", _dropped)
    before = len(upstream.chats())
    response = ask(http, QUESTION, model)
    upstream.off("m")
    assert error_of(response, 502)["code"] == "upstream_unreachable"
    assert len(upstream.chats()) == before + 1


def test_a_safe_request_is_repeated_once_when_the_connection_is_lost(
    http: httpx.Client, upstream: FakeUpstream
) -> None:
    seen: list[str] = []

    async def second_time(exchange: Exchange) -> None:
        seen.append(exchange.request.method)
        if len(seen) == 1:
            exchange.drop()
        else:
            await exchange.respond(b'{"ok": true}')

    upstream.on("twice", second_time)
    assert http.get("/v1/batches/twice").json() == {"ok": True}
    assert seen == ["GET", "GET"]
    seen.clear()
    assert http.post("/v1/batches/twice", content=b"x").status_code == 502
    assert seen == ["POST"]


def test_a_plain_response_that_breaks_off_is_not_complete(http: httpx.Client, upstream: FakeUpstream) -> None:
    upstream.on("m", _broken_body)
    with pytest.raises(httpx.RemoteProtocolError):
        ask(http, QUESTION, "m")
    response = ask(http, QUESTION, "rag/m")
    upstream.off("m")
    assert error_of(response, 502)["code"] == "upstream_failed"


async def broken_stream(exchange: Exchange) -> None:
    await exchange.begin_stream()
    await exchange.chunk(delta("Tea"))
    await asyncio.sleep(0.2)
    await exchange.raw(b'40\r\ndata: {"half')
    await asyncio.sleep(0.2)
    exchange.drop()


async def silent_stream(exchange: Exchange) -> None:
    await exchange.begin_stream()
    await exchange.chunk(delta("Tea"))
    await exchange.until_closed()


async def _short_stream(exchange: Exchange) -> None:
    await exchange.begin_stream()
    await exchange.chunk(delta("Tea"))
    await exchange.end_stream()


@pytest.mark.parametrize(
    ("behaviour", "code"), [(broken_stream, "upstream_failed"), (silent_stream, "upstream_timeout")]
)
def test_a_broken_stream_ends_with_an_error_event_and_without_done(
    http: httpx.Client, upstream: FakeUpstream, model: str, behaviour: Callable[[Exchange], Any], code: str
) -> None:
    upstream.on("m", behaviour)
    text = ask(http, QUESTION, model, stream=True).text
    upstream.off("m")
    assert '"content": "Tea"' in text
    assert "[DONE]" not in text
    event, data = text.strip().split("\n\n")[-1].split("\n")
    assert event == "event: error"
    assert json.loads(data.removeprefix("data: "))["error"]["code"] == code


def test_a_rag_stream_that_ends_too_early_is_a_broken_one(http: httpx.Client, upstream: FakeUpstream) -> None:
    upstream.on("m", _short_stream)
    text = ask(http, QUESTION, "rag/m", stream=True).text
    upstream.off("m")
    assert "event: error" in text
    assert "[DONE]" not in text


def test_a_half_event_of_a_rag_stream_is_not_passed_on(http: httpx.Client, upstream: FakeUpstream) -> None:
    upstream.on("m", broken_stream)
    text = ask(http, QUESTION, "rag/m", stream=True).text
    upstream.off("m")
    assert "half" not in text


def test_an_unreachable_upstream_is_502_in_bounded_time(unreachable: httpx.Client, model: str) -> None:
    started = time.monotonic()
    assert error_of(ask(unreachable, QUESTION, model), 502)["code"] == "upstream_unreachable"
    assert error_of(unreachable.get("/v1/models"), 502)["code"] == "upstream_unreachable"
    assert time.monotonic() - started < 20


def test_an_upstream_that_starts_is_reached_by_the_retry_of_the_connection(
    unreachable: httpx.Client, unreachable_gateway: tuple[Served, int]
) -> None:
    with fake_upstream(unreachable_gateway[1]):
        assert ask(unreachable, QUESTION, "m").status_code == 200


def test_a_slow_first_byte_may_take_longer_than_other_requests(manual: httpx.Client, upstream: FakeUpstream) -> None:
    async def slow(exchange: Exchange) -> None:
        await asyncio.sleep(2.5)  # the request timeout is 1 s, and the last resort comes 1 s later
        await exchange.begin_stream()
        await exchange.chunk(delta("Tea"))
        await asyncio.sleep(2.5)
        await exchange.chunk(delta(None, finish="stop") + DONE)
        await exchange.end_stream()

    upstream.on("m", slow)
    text = ask(manual, QUESTION, "m", stream=True).text
    upstream.off("m")
    assert text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("stage", ["before the head", "in the stream"])
@pytest.mark.parametrize("name", ["m", "rag/m"])
async def test_a_caller_that_disconnects_cancels_the_upstream_request(
    chat_gateway: Served, upstream: FakeUpstream, name: str, stage: str
) -> None:
    upstream.on("m", hang if stage == "before the head" else silent_stream)
    before = len(upstream.chats())
    async with httpx.AsyncClient(base_url=chat_gateway.url, timeout=30) as client:
        body = {"model": name, "stream": True, "messages": [{"role": "user", "content": QUESTION}]}

        async def call() -> None:
            async with client.stream("POST", "/v1/chat/completions", json=body) as response:
                async for _ in response.aiter_raw():
                    pass

        task = asyncio.create_task(call())
        await wait_until(lambda: len(upstream.chats()) > before, 20)
        await asyncio.sleep(0.3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        left = time.monotonic()
        closed = await asyncio.to_thread(upstream.chats()[-1].closed.wait, 10)
        passed = time.monotonic() - left
    upstream.off("m")
    assert closed
    assert passed < 1.5, "the upstream's own timeout is 2 s"
    await asyncio.sleep(0.2)
    assert "Exception in ASGI application" not in chat_gateway.log.read_text()


@pytest.mark.process
def test_a_gateway_that_stops_ends_its_streams_with_an_error_event(upstream: FakeUpstream, tmp_path: Path) -> None:
    environ = {
        "RAGSTORE_URL": f"http://127.0.0.1:{free_port()}",
        "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url,
        "RAGSTORE_GATEWAY_SHUTDOWN_SECONDS": "1",
    }
    upstream.on("m", silent_stream)
    with (
        running(start_gateway(tmp_path, environ, ready=False)) as served,
        httpx.stream("POST", served.url + "/v1/chat/completions", json={**PLAIN, "stream": True}, timeout=30) as got,
    ):
        chunks = got.iter_text()
        text = next(chunks)
        served.process.terminate()
        text += "".join(chunks)
    upstream.off("m")
    assert '"content": "Tea"' in text
    assert "event: error" in text
    assert "[DONE]" not in text


# -- gateways with something broken ---------------------------------------------------------------


@pytest.fixture(scope="module")
def unreachable_gateway(chat_gateway: Served, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A gateway whose upstream does not run, and the upstream's port."""
    port = free_port()
    environ = {"RAGSTORE_URL": chat_gateway.url, "RAGSTORE_GATEWAY_UPSTREAM_URL": f"http://127.0.0.1:{port}/v1"}
    with running(start_gateway(tmp_path_factory.mktemp("unreachable"), environ)) as served:
        yield served, port


@pytest.fixture
def unreachable(unreachable_gateway: tuple[Served, int]) -> Any:
    """A client of that gateway."""
    with httpx.Client(base_url=unreachable_gateway[0].url, timeout=30) as client:
        yield client
