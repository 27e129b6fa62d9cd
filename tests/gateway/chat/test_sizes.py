"""Names, streams and copies of responses have maxima."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from typing import cast

import aiohttp
import httpx
import pytest
from litestar.types import HTTPReceiveMessage, Message, Scope

from ragstore.kit import byte_budget
from ragstore.kit.byte_budget import ByteBudget, Share, request_shares
from ragstore.kit.disconnect import CallerWatch
from ragstore.kit.errors import Overloaded
from ragstore.kit.metrics import rejections
from ragstore.kit.time_slices import TimeSlices
from ragstore_gateway.api.names import MAX_NAME_CHARACTERS
from ragstore_gateway.chat.body import encode_raw, read_head
from ragstore_gateway.chat.event_stream import EventStream
from ragstore_gateway.chat.relay import PIECE_BYTES, read_all, relay
from tests.gateway.chat.test_faults import error_of
from tests.gateway.chat.test_streams import PASSAGES
from tests.support.fake_upstream import DONE, Exchange, FakeUpstream, delta, fake_upstream, responding

LONG = "n" * (MAX_NAME_CHARACTERS + 1)
EVENTS = delta("tea") * 600 + delta(None, finish="stop") + DONE
MAX_ADDED_BYTES = 6 * MAX_NAME_CHARACTERS
"""Bytes of a name in JSON: a control character has six."""

REJECTIONS = rejections("chat_sizes")


def chat_body(**fields: object) -> dict[str, object]:
    return {"model": "rag/m", "messages": [{"role": "user", "content": "Tea?"}], **fields}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": "rag/" + LONG[4:]}, "model"),
        ({"user": LONG}, "user"),
        ({"session_id": LONG}, "session_id"),
        ({"metadata": {"session_id": LONG}}, "metadata.session_id"),
        ({"metadata": {"user_id": LONG}}, "metadata.user_id"),
        ({"metadata": {"conversation_id": LONG}}, "metadata.conversation_id"),
    ],
)
def test_a_name_that_is_too_long_is_400_with_its_path(
    http: httpx.Client, upstream: FakeUpstream, fields: dict[str, object], param: str
) -> None:
    before = len(upstream.requests)
    response = http.post("/v1/chat/completions", json=chat_body(**fields))
    assert error_of(response, 400)["param"] == param
    assert len(response.content) < 500
    assert len(upstream.requests) == before


def test_a_conversation_id_that_is_too_long_is_400_with_the_name_of_its_header(http: httpx.Client) -> None:
    response = http.post("/v1/chat/completions", json=chat_body(), headers={"X-Conversation-Id": LONG})
    assert error_of(response, 400)["param"] == "X-Conversation-Id"


def test_the_name_of_one_model_has_the_same_maximum(http: httpx.Client) -> None:
    assert error_of(http.get("/v1/models/rag/" + LONG), 400)["param"] == "model"


def test_names_of_the_maximum_length_pass(http: httpx.Client) -> None:
    name = "rag/" + LONG[5:]
    own = chat_body(model=name, user=LONG[1:], metadata={"session_id": LONG[1:]})
    assert http.post("/v1/chat/completions", json=own).json()["model"] == name


def test_a_long_model_name_passes_through_and_its_upstream_judges_it(
    http: httpx.Client, upstream: FakeUpstream
) -> None:
    body = json.dumps(chat_body(model=LONG)).encode()
    assert http.post("/v1/chat/completions", content=body).status_code == 200
    assert upstream.last.body == body


@pytest.mark.parametrize("character", ["n", "\\u00e4", "\\ud83d\\ude00", "\u00e4", "\U0001f600"])
def test_only_the_beginning_of_a_long_model_name_is_read(character: str) -> None:
    body = f'{{"model": "rag/{character * 1_000_000}"}}'.encode()
    tracemalloc.start()
    name = read_head(body).model
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (name[:4], len(name)) == ("rag/", MAX_NAME_CHARACTERS + 1)
    assert peak < 100_000


@pytest.mark.parametrize("character", ["n", "\x01", "\U0001f600"])
def test_a_stream_is_larger_than_the_upstreams_by_a_name_for_each_event_at_most(character: str) -> None:
    model = encode_raw("rag/" + character * (MAX_NAME_CHARACTERS - 4))
    sent = b"".join(EventStream(model, PASSAGES, annotate=True, debug=None).feed(EVENTS))
    assert len(EVENTS) < len(sent) < len(EVENTS) + EVENTS.count(b"data:") * MAX_ADDED_BYTES


@asynccontextmanager
async def streamed(upstream: FakeUpstream, chunk: bytes) -> AsyncIterator[aiohttp.ClientResponse]:
    """A stream of events of the upstream."""

    async def behave(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(chunk)
        await exchange.end_stream()

    upstream.on("sizes", behave)
    async with aiohttp.ClientSession() as session, session.get(upstream.url + "/sizes") as response:
        yield response


class NoMeter:
    """Counts nothing."""

    counts_tokens = False

    def feed(self, _: bytes) -> Generator[None, None, None]:
        yield


async def test_a_caller_that_does_not_read_costs_one_piece_of_the_stream() -> None:
    """With a name of 100 KB the whole of one chunk has 60 MB."""
    name_bytes = 100_000
    sizes: list[int] = []
    read = asyncio.Event()
    piece_made = asyncio.Event()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            sizes.append(len(message["body"]))
            piece_made.set()
            await read.wait()

    async def receive() -> HTTPReceiveMessage:
        return await asyncio.Future()

    rewriter = EventStream(encode_raw("x" * name_bytes), (), annotate=False, debug=None)
    with fake_upstream() as upstream:
        async with streamed(upstream, EVENTS) as response, CallerWatch(receive) as watch:
            tracemalloc.start()
            relaying = asyncio.create_task(
                relay(response, [], cast("Scope", {}), send, watch, TimeSlices(), rewriter=rewriter, meter=NoMeter())
            )
            await piece_made.wait()
            for _ in range(20):
                await asyncio.sleep(0)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert len(sizes) == 1
            read.set()
            await relaying
    assert sum(sizes) > 600 * name_bytes
    assert max(sizes) < PIECE_BYTES + 2 * name_bytes
    assert peak < 2_000_000


async def test_a_large_plain_response_waits_for_room_in_the_budget_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(byte_budget, "MAX_WAIT_SECONDS", 0.1)
    budget = ByteBudget(10_000_000, 30.0, REJECTIONS)
    small, large = b" " * 60_000, b" " * 1_000_000
    with fake_upstream() as upstream:
        upstream.on("small", responding(small))
        upstream.on("large", responding(large))
        async with aiohttp.ClientSession() as session:

            async def read(name: str) -> bytes:
                with request_shares(budget, Share(), Share()):
                    async with session.get(f"{upstream.url}/{name}") as response:
                        return await read_all(response, 2_000_000, copies=6)

            assert await read("large") == large
            budget.add(Share(), 9_000_000)
            assert await read("small") == small
            with pytest.raises(Overloaded):
                await read("large")
