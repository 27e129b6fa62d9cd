"""The cache of vectors, and the computations that callers share."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import numpy as np
import pytest

from ragstore.kit.context import set_deadline
from ragstore_gateway.embeddings.cache import OVERHEAD_BYTES, CachingEmbedder, VectorCache
from ragstore_gateway.embeddings.embedder import Kind, Vectors
from ragstore_gateway.errors import EmbeddingFailed, EmbeddingTimeout
from tests.gateway.embeddings.factories import embeddings
from tests.gateway.embeddings.waits import until
from tests.support.fake_providers import Received, fake_provider, vectors_of

ENTRY = 4 * 4 + OVERHEAD_BYTES


class Computing:
    """An `Embedder` that records its calls, and waits until it may complete them."""

    name = "computing"
    dimension = 4

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[str, ...], Kind]] = []
        self.may_complete = asyncio.Event()
        self.cancelled = 0
        self.rejects = ""

    async def embed(self, texts: Sequence[str], kind: Kind, *, normalize: bool = True) -> Vectors:
        self.calls.append((tuple(texts), kind))
        try:
            await self.may_complete.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.rejects in texts:
            raise EmbeddingFailed("rejected")
        return np.array([[len(text), 0, 0, len(kind)] for text in texts], dtype=np.float32)


def caching(inner: Computing, max_bytes: int = 1 << 20, timeout_seconds: float = 20) -> CachingEmbedder:
    return CachingEmbedder(inner, VectorCache(max_bytes), b"identity", timeout_seconds=timeout_seconds)


async def test_a_text_is_computed_once() -> None:
    inner = Computing()
    inner.may_complete.set()
    embedder = caching(inner)
    first = await embedder.embed(["tea", "coffee", "tea"], "document", normalize=False)
    again = await embedder.embed(["coffee", "tea", "water"], "document", normalize=False)
    assert inner.calls == [(("tea", "coffee"), "document"), (("water",), "document")]
    assert first[:, 0].tolist() == [3, 6, 3]
    assert again[:, 0].tolist() == [6, 3, 5]


async def test_a_query_and_a_document_have_vectors_of_their_own() -> None:
    inner = Computing()
    inner.may_complete.set()
    embedder = caching(inner)
    document = await embedder.embed(["tea"], "document", normalize=False)
    query = await embedder.embed(["tea"], "query", normalize=False)
    assert document.tolist() != query.tolist()


async def test_providers_and_models_have_vectors_of_their_own() -> None:
    received: list[Received] = []

    async def respond(request: Received) -> object:
        received.append(request)
        return vectors_of(request)

    async with fake_provider(respond) as server, embeddings() as made:  # type: ignore[arg-type]
        await made.of("tei", {"baseUrl": server.url}).embed(["tea"], "document")
        await made.of("tei", {"baseUrl": server.url, "model": "other"}).embed(["tea"], "document")
        await made.of("tei", {"baseUrl": server.url}).embed(["tea"], "document")
    assert len(received) == 2


async def test_normalised_and_raw_vectors_share_an_entry() -> None:
    inner = Computing()
    inner.may_complete.set()
    embedder = caching(inner)
    raw = await embedder.embed(["tea"], "query", normalize=False)
    normalised = await embedder.embed(["tea"], "query")
    assert len(inner.calls) == 1
    assert raw[0].tolist() == [3, 0, 0, 5]
    assert np.linalg.norm(normalised[0]) == pytest.approx(1)


async def test_concurrent_callers_share_one_computation() -> None:
    inner = Computing()
    embedder = caching(inner)
    callers = [asyncio.create_task(embedder.embed(["tea"], "query")) for _ in range(50)]
    await until(lambda: len(inner.calls) == 1)
    inner.may_complete.set()
    assert len({tuple(vectors[0].tolist()) for vectors in await asyncio.gather(*callers)}) == 1
    assert len(inner.calls) == 1


async def test_only_texts_that_nobody_computes_are_computed() -> None:
    inner = Computing()
    embedder = caching(inner)
    first = asyncio.create_task(embedder.embed(["tea", "coffee"], "document"))
    await until(lambda: len(inner.calls) == 1)
    inner.may_complete.set()
    second = asyncio.create_task(embedder.embed(["coffee", "water"], "document"))
    await asyncio.gather(first, second)
    assert inner.calls[1] == (("water",), "document")


async def test_a_caller_that_leaves_does_not_end_what_another_one_waits_for() -> None:
    inner = Computing()
    embedder = caching(inner)
    first = asyncio.create_task(embedder.embed(["tea"], "query"))
    await until(lambda: len(inner.calls) == 1)
    second = asyncio.create_task(embedder.embed(["tea"], "query"))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    inner.may_complete.set()
    assert (await second).shape == (1, 4)
    assert inner.cancelled == 0


async def test_the_last_caller_that_leaves_ends_the_computation() -> None:
    inner = Computing()
    embedder = caching(inner)
    callers = [asyncio.create_task(embedder.embed(["tea"], "query")) for _ in range(3)]
    await until(lambda: len(inner.calls) == 1)
    for caller in callers:
        caller.cancel()
    await until(lambda: inner.cancelled == 1)
    inner.may_complete.set()
    assert (await embedder.embed(["tea"], "query")).shape == (1, 4)


async def test_the_deadline_of_the_first_caller_ends_nothing_for_the_others() -> None:
    inner = Computing()
    embedder = caching(inner)

    async def with_deadline(seconds: float) -> Vectors:
        set_deadline(seconds)
        return await embedder.embed(["tea"], "query")

    first = asyncio.create_task(with_deadline(0.05))
    await until(lambda: len(inner.calls) == 1)
    second = asyncio.create_task(with_deadline(20))
    with pytest.raises(EmbeddingTimeout):
        await first
    inner.may_complete.set()
    assert (await second).shape == (1, 4)


async def test_a_failure_is_not_cached() -> None:
    inner = Computing()
    inner.may_complete.set()
    inner.rejects = "tea"
    embedder = caching(inner)
    for _ in range(2):
        with pytest.raises(EmbeddingFailed):
            await embedder.embed(["tea"], "document")
    inner.rejects = ""
    await embedder.embed(["tea"], "document")
    assert len(inner.calls) == 3


async def test_the_text_of_one_caller_does_not_fail_another_one() -> None:
    inner = Computing()
    inner.rejects = "bad"
    embedder = caching(inner)
    first = asyncio.create_task(embedder.embed(["tea", "bad"], "document"))
    await until(lambda: len(inner.calls) == 1)
    second = asyncio.create_task(embedder.embed(["tea"], "document"))
    await asyncio.sleep(0)
    inner.may_complete.set()
    with pytest.raises(EmbeddingFailed):
        await first
    assert (await second).shape == (1, 4)


async def test_the_cache_stays_within_its_bytes() -> None:
    inner = Computing()
    inner.may_complete.set()
    cache = VectorCache(10 * ENTRY)
    embedder = CachingEmbedder(inner, cache, b"identity", timeout_seconds=20)
    for index in range(100):
        await embedder.embed([f"{index}"], "document")
    assert len(cache) == 10
    assert cache.size_bytes == 10 * ENTRY
    await embedder.embed(["99"], "document")
    assert len(inner.calls) == 100


async def test_the_least_recently_used_vector_is_dropped_first() -> None:
    inner = Computing()
    inner.may_complete.set()
    embedder = caching(inner, max_bytes=2 * ENTRY)
    for text in ("tea", "coffee", "tea", "water", "tea"):
        await embedder.embed([text], "document")
    assert [texts for texts, _ in inner.calls] == [("tea",), ("coffee",), ("water",)]


async def test_a_cache_of_no_bytes_keeps_nothing() -> None:
    inner = Computing()
    inner.may_complete.set()
    cache = VectorCache(0)
    embedder = CachingEmbedder(inner, cache, b"identity", timeout_seconds=20)
    assert (await embedder.embed(["tea"], "document")).shape == (1, 4)
    assert (len(cache), cache.size_bytes) == (0, 0)


async def test_no_text_is_kept() -> None:
    text = "".join(["tea", " and milk"])
    before = sys.getrefcount(text)
    async with embeddings() as made:
        embedder = made.of("local", {})
        await embedder.embed([text, "coffee"], "document")
        await embedder.embed([text], "query")
        # Threads and tasks that computed vectors may end a little later.
        await until(lambda: sys.getrefcount(text) == before)
