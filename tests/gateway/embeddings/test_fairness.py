"""Callers take turns in the queue of each embedder, and each has a maximum number of requests in it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import numpy as np
import pytest
from aiohttp import web

from ragstore.kit.context import set_caller
from ragstore_gateway.embeddings.cache import CachingEmbedder, VectorCache
from ragstore_gateway.embeddings.caller_limit import CallerLimit
from ragstore_gateway.embeddings.embedder import Kind, Vectors
from ragstore_gateway.embeddings.local import LocalEmbedder
from ragstore_gateway.embeddings.prefixes import Prefixes
from ragstore_gateway.embeddings.wordllama import WordLlamaEmbedder
from ragstore_gateway.errors import TooManyEmbeddings
from tests.gateway.embeddings.factories import embeddings
from tests.gateway.embeddings.waits import until
from tests.support.fake_providers import Received, fake_provider, vectors_of

T = TypeVar("T")

TIMEOUT_SECONDS = 30


def as_caller(caller: str | None, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start work as a caller; as none, it is work in the background."""

    async def run() -> T:
        if caller is not None:
            set_caller(caller)
        return await work

    return asyncio.create_task(run())


BUSY = [[f"busy {number} text {index} " * 2_000 for index in range(5)] for number in range(20)]
"""20 requests of several batches each."""


async def test_the_built_in_model_embeds_the_small_text_of_another_caller_among_the_first() -> None:
    """It waited 7 seconds behind 60 requests of one key."""
    embedder, order = WordLlamaEmbedder(), list[str]()
    embed = embedder._add

    def add(batch: list[tuple[int, str]], means: Any) -> None:
        order.append(batch[0][1][:5])
        embed(batch, means)

    embedder._add = add  # type: ignore[method-assign]  # notes the order
    busy = [as_caller("busy", embedder.embed(texts, "document")) for texts in BUSY]
    await until(lambda: bool(order))

    await as_caller("quiet", embedder.embed(["quiet question"], "query"))

    place = order.index("quiet")
    for task in busy:
        task.cancel()
    await asyncio.gather(*busy, return_exceptions=True)
    assert place < 20, "it did not wait for a batch of each of the other's requests"


async def test_a_local_model_embeds_the_small_text_of_another_caller_among_the_first() -> None:
    embedder, order, is_queued = LocalEmbedder("none", Prefixes()), list[str](), threading.Event()

    class Model:
        def encode(self, texts: list[str], **_: object) -> Vectors:
            order.append(texts[0][:5])
            is_queued.wait(TIMEOUT_SECONDS)
            return np.ones((len(texts), 4), dtype=np.float32)

    embedder._model = Model()
    busy = [as_caller("busy", embedder.embed(texts * 30, "document")) for texts in BUSY]
    await until(lambda: bool(order))

    quiet = as_caller("quiet", embedder.embed(["quiet question"], "query"))
    for _ in range(10):
        await asyncio.sleep(0)
    is_queued.set()
    await quiet

    assert order.index("quiet") < 10
    await asyncio.gather(*busy)


async def test_a_provider_gets_the_small_text_of_another_caller_among_the_first() -> None:
    may_respond = asyncio.Event()

    async def respond(received: Received) -> web.StreamResponse:
        await may_respond.wait()
        return vectors_of(received)

    async with fake_provider(respond) as server, embeddings(concurrency=2) as made:
        embedder = made.of("tei", {"baseUrl": server.url})
        busy = [as_caller("busy", embedder.embed([f"busy {n}"], "document")) for n in range(60)]
        await until(lambda: len(server.received) == 2)
        quiet = as_caller("quiet", embedder.embed(["quiet"], "query"))
        background = as_caller(None, embedder.embed(["background"], "document"))
        await asyncio.sleep(0.05)
        may_respond.set()
        await asyncio.gather(*busy, quiet, background)

    order = [received.body for received in server.received]
    first = b"".join(order[:5])
    assert b"quiet" in first
    assert b"background" in first


class Waiting:
    """An `Embedder` whose callers wait until it may complete."""

    name = "waiting"
    dimension = 1

    def __init__(self) -> None:
        self.may_complete = asyncio.Event()
        self.calls: list[tuple[str, ...]] = []

    async def embed(self, texts: Sequence[str], kind: Kind, *, normalize: bool = True) -> Vectors:
        self.calls.append(tuple(texts))
        if len(texts) > 1:
            await self.may_complete.wait()
        return np.ones((len(texts), 1), dtype=np.float32)


async def test_a_caller_does_not_wait_for_the_request_of_another_one_that_has_its_text_among_many() -> None:
    inner = Waiting()
    embedder = CachingEmbedder(inner, VectorCache(0), b"", timeout_seconds=20)
    busy = as_caller("busy", embedder.embed(["the question", *map(str, range(2000))], "query"))
    await until(lambda: bool(inner.calls))

    await as_caller("quiet", embedder.embed(["the question"], "query"))

    assert not busy.done()
    inner.may_complete.set()
    await busy


async def test_a_caller_beyond_its_maximum_is_429_and_the_others_are_served() -> None:
    inner = Waiting()
    limit = CallerLimit(2)
    cache = VectorCache(1 << 20)
    embedder = CachingEmbedder(inner, cache, b"", timeout_seconds=20, limit=limit)
    other = CachingEmbedder(inner, cache, b"other", timeout_seconds=20, limit=limit)
    await as_caller("busy", embedder.embed(["cached"], "query"))
    busy = [as_caller("busy", embedder.embed([f"a{n}", f"b{n}"], "document")) for n in range(2)]
    await until(lambda: len(inner.calls) >= 3)

    with pytest.raises(TooManyEmbeddings) as caught:
        await as_caller("busy", other.embed(["tea"], "query"))
    assert (caught.value.status, caught.value.headers) == (429, {"Retry-After": "1"})
    await as_caller("busy", embedder.embed(["cached"], "query"))
    await as_caller("quiet", embedder.embed(["tea"], "query"))
    for _ in range(3):
        await as_caller(None, other.embed(["work in the background"], "query"))

    inner.may_complete.set()
    await asyncio.gather(*busy)
    await as_caller("busy", other.embed(["tea"], "query"))
