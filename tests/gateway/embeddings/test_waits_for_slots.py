"""A call whose provider is busy with other calls: its time limit begins when it has a slot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from ragstore.kit.context import set_caller, set_deadline
from ragstore_gateway.embeddings.embedder import Embedder, Vectors
from ragstore_gateway.embeddings.embeddings import Embeddings
from ragstore_gateway.errors import EmbeddingTimeout, EmbeddingUnavailable
from tests.gateway.embeddings.factories import embeddings
from tests.gateway.embeddings.waits import until
from tests.support.fake_providers import FakeProvider, Received, fake_provider, json_response, vectors_of

RESPONSE_SECONDS = 0.2
TIMEOUT_SECONDS = 1.0
CALLS = 10
"""With one slot, the last call waits 1.8 s for it, longer than the limit."""


class SlowProvider:
    """Responds after `RESPONSE_SECONDS`, and with errors first."""

    def __init__(self) -> None:
        self.failures = 0

    async def respond(self, received: Received) -> web.StreamResponse:
        """Respond with vectors."""
        if self.failures:
            self.failures -= 1
            return json_response({}, 503, {"Retry-After": "0"})
        await asyncio.sleep(RESPONSE_SECONDS)
        return vectors_of(received)


@pytest.fixture
def slow() -> SlowProvider:
    """How the provider responds."""
    return SlowProvider()


@pytest.fixture
async def server(slow: SlowProvider) -> AsyncIterator[FakeProvider]:
    """The provider."""
    async with fake_provider(slow.respond) as server:
        yield server


@pytest.fixture
async def made() -> AsyncIterator[Embeddings]:
    """Embedders with one slot, which keep no vectors."""
    async with embeddings(concurrency=1, timeout_seconds=TIMEOUT_SECONDS, cache_bytes=0) as made:
        yield made


async def in_background(embedder: Embedder, count: int = CALLS) -> list[Vectors]:
    """Calls outside of requests, all at the same time."""
    return await asyncio.gather(*(embedder.embed([f"text {number}"], "document") for number in range(count)))


async def of_request(embedder: Embedder, caller: str = "key", seconds: float = 60.0) -> Vectors:
    """A call of a request with a time limit."""
    set_caller(caller)
    set_deadline(seconds)
    return await embedder.embed(["question"], "query")


async def test_work_in_the_background_waits_for_a_slot_longer_than_its_own_limit(
    made: Embeddings, server: FakeProvider
) -> None:
    vectors = await in_background(made.of("tei", {"baseUrl": server.url}))
    assert len(vectors) == CALLS
    assert len(server.received) == CALLS


async def test_a_call_of_many_batches_has_the_limit_for_each_of_them(made: Embeddings, server: FakeProvider) -> None:
    texts = [f"text {number}" for number in range(32 * CALLS)]
    vectors = await made.of("tei", {"baseUrl": server.url}).embed(texts, "document")
    assert len(vectors) == len(texts)
    assert len(server.received) == CALLS


async def test_a_batch_that_is_repeated_waits_for_a_slot_again_and_keeps_the_rest_of_its_limit(
    made: Embeddings, server: FakeProvider, slow: SlowProvider
) -> None:
    slow.failures = CALLS
    await in_background(made.of("tei", {"baseUrl": server.url}))
    assert len(server.received) == 2 * CALLS


async def test_a_hung_provider_ends_each_call_after_its_limit_with_the_slot(
    made: Embeddings, server: FakeProvider
) -> None:
    async def hung(_: Received) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    server.respond = hung
    embedder = made.of("tei", {"baseUrl": server.url})
    calls = [asyncio.create_task(embedder.embed([f"text {number}"], "document")) for number in range(3)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {EmbeddingTimeout}
    assert len(server.received) == 3, "each one got the slot when the one before it had ended"


async def test_a_request_waits_for_a_slot_within_its_own_limit(made: Embeddings, server: FakeProvider) -> None:
    async def hung(_: Received) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    embedder = made.of("tei", {"baseUrl": server.url})
    server.respond = hung
    first = asyncio.create_task(of_request(embedder, "busy"))
    await until(lambda: len(server.received) == 1)
    with pytest.raises(EmbeddingTimeout) as caught:
        await of_request(embedder, seconds=TIMEOUT_SECONDS / 5)
    assert caught.value.status == 504
    assert len(server.received) == 1, "its text was never sent"
    assert not first.done()
    await asyncio.gather(first, return_exceptions=True)


async def test_a_request_waits_for_one_further_call_of_the_background_and_not_for_all(
    made: Embeddings, server: FakeProvider
) -> None:
    embedder = made.of("tei", {"baseUrl": server.url})
    background = asyncio.create_task(in_background(embedder))
    await until(lambda: len(server.received) == 1)
    await of_request(embedder)
    assert len(server.received) in (3, 4)
    await background


async def test_a_retry_that_would_end_after_the_request_is_not_made(made: Embeddings, server: FakeProvider) -> None:
    async def busy(_: Received) -> web.StreamResponse:
        return json_response({}, 503, {"Retry-After": "0.5"})

    server.respond = busy
    with pytest.raises(EmbeddingUnavailable):
        await of_request(made.of("tei", {"baseUrl": server.url}), seconds=0.3)
    assert len(server.received) == 1
