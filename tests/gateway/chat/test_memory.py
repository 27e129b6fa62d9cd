"""The passages of plain `rag/` models: the best one of each of the nearest URLs. Diversity orders them."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Mapping, Sequence
from uuid import uuid4

import numpy as np
import pytest

from ragstore_client import AsyncClient, CallTimeout, Client, MultiQueryResults, NewDocument
from ragstore_client.context import PartialSearch
from ragstore_gateway.chat.conversation import Conversation
from ragstore_gateway.chat.rag_models import Caller
from ragstore_gateway.embeddings.cache import CachingEmbedder, VectorCache
from ragstore_gateway.embeddings.embedder import Kind, Vectors
from ragstore_gateway.plain_collections.memory import FAN_OUT, Memory, MemorySource
from ragstore_gateway.settings import Settings
from ragstore_gateway.store.store import Store
from tests.support.servers import Served

DIMENSION = 64
TOP_K = 5


class AxisEmbedder:
    """Embeds each text as the first axis."""

    name = "axis"
    dimension = DIMENSION

    async def embed(self, texts: Sequence[str], kind: Kind, *, normalize: bool = True) -> Vectors:
        """Embed texts."""
        return np.array([vector(1.0, 1)] * len(texts), np.float32)


def vector(similarity: float, direction: int) -> list[float]:
    """A vector of a similarity to the question. Vectors of one direction are similar to each other."""
    components = [0.0] * DIMENSION
    components[0], components[direction] = similarity, math.sqrt(1 - similarity**2)
    return components


def passage(name: str, similarity: float, direction: int, url: str = "") -> NewDocument:
    return NewDocument(
        id=name,
        text=f"Text of {name}",
        embedding=vector(similarity, direction),
        metadata={"url": f"https://m.example/{url}"} if url else {},
    )


@pytest.fixture
def collection(chat_gateway: Served) -> str:
    """The name of an empty collection."""
    name = f"memory-{uuid4().hex[:8]}"
    with Client(chat_gateway.url) as client:
        client.create_collection(name)
    return name


def stored(gateway: Served, collection: str, passages: Sequence[NewDocument]) -> None:
    with Client(gateway.url) as client:
        client.upsert_documents(collection, passages)


async def sources(gateway: Served, collection: str, settings: Mapping[str, float] | None = None) -> list[str]:
    """The ids of the passages in the prompt of a plain model, in their order."""
    given = Settings(rag_collections=collection, **(settings or {}))  # type: ignore[arg-type]  # numbers of any field
    store = Store(given, threading.Event(), gateway.url)
    async with store.running():
        memory = Memory(store, AxisEmbedder(), given)
        added = await memory.augment(Conversation("How long is the warranty?", [], [], {}, []), Caller())
    return [each.id for each in added.passages]


@pytest.mark.parametrize("diversity", [0.0, 0.7, 1.0])
async def test_the_nearest_urls_are_the_sources_whatever_the_diversity(
    chat_gateway: Served, collection: str, diversity: float
) -> None:
    """The near ones repeat each other, and each far one is unlike all others: 15 were fetched, and far ones chosen."""
    near = [passage(f"near-{n}", 0.9 - n / 100, 1, f"near-{n}") for n in range(TOP_K)]
    far = [passage(f"far-{n}", 0.5 - n / 100, 2 + n, f"far-{n}") for n in range(20)]
    stored(chat_gateway, collection, [*far, *near])
    found = await sources(chat_gateway, collection, {"rag_diversity": diversity})
    assert found[0] == "near-0"
    assert set(found) == {f"near-{n}" for n in range(TOP_K)}


async def test_an_embedder_that_reaches_its_own_time_limit_is_a_timeout(chat_gateway: Served, collection: str) -> None:
    class Slow(AxisEmbedder):
        async def embed(self, texts: Sequence[str], kind: Kind, *, normalize: bool = True) -> Vectors:
            await asyncio.sleep(3600)
            raise AssertionError

    given = Settings(rag_collections=collection)
    store = Store(given, threading.Event(), chat_gateway.url)
    embedder = CachingEmbedder(Slow(), VectorCache(0), b"slow", timeout_seconds=0.05)
    async with store.running():
        added = await Memory(store, embedder, given).augment(Conversation("Tea?", [], [], {}, []), Caller())
    assert (added.reason, added.failed, list(added.passages)) == ("timeout", True, [])


async def test_by_default_diversity_orders_the_sources(chat_gateway: Served, collection: str) -> None:
    near = [passage(f"near-{n}", 0.9 - n / 100, 1, f"near-{n}") for n in range(TOP_K - 1)]
    stored(chat_gateway, collection, [*near, passage("other", 0.6, 2, "other")])
    expected = ["near-0", "other", "near-3", "near-2", "near-1"]
    assert sorted(await sources(chat_gateway, collection)) == sorted(expected)
    assert (await sources(chat_gateway, collection))[:2] == expected[:2]
    assert await sources(chat_gateway, collection, {"rag_diversity": 0}) == [f"near-{n}" for n in range(4)] + ["other"]


async def test_a_url_with_many_near_passages_leaves_room_for_the_others(chat_gateway: Served, collection: str) -> None:
    """15 passages were fetched, all of them of one URL, which was then the only source."""
    book = [passage(f"book-{n}", 0.9 - n / 1000, 1, "book") for n in range(40)]
    pages = [passage(f"page-{n}", 0.7 - n / 100, 2, f"page-{n}") for n in range(6)]
    stored(chat_gateway, collection, [*book, *pages])
    found = await sources(chat_gateway, collection, {"rag_diversity": 0})
    assert found == ["book-0", "page-0", "page-1", "page-2", "page-3"]


async def test_a_text_that_two_urls_share_costs_neither_of_them_its_best_passage(
    chat_gateway: Served, collection: str
) -> None:
    footers = [passage(f"footer-{n}", 0.8 - n / 100, 2, f"page-{n}") for n in range(3)]
    shared = [
        NewDocument(id=each.id, text="Imprint", embedding=each.embedding, metadata=each.metadata) for each in footers
    ]
    stored(chat_gateway, collection, [*shared, *(passage(f"body-{n}", 0.9 - n / 20, 1, f"page-{n}") for n in range(2))])
    found = await sources(chat_gateway, collection, {"rag_diversity": 0})
    assert found == ["body-0", "body-1", "footer-2"]


async def test_passages_without_a_url_are_sources_of_their_own(chat_gateway: Served, collection: str) -> None:
    stored(chat_gateway, collection, [passage(f"note-{n}", 0.9 - n / 100, 1) for n in range(8)])
    found = await sources(chat_gateway, collection, {"rag_diversity": 0})
    assert found == [f"note-{n}" for n in range(TOP_K)]


async def test_no_more_passages_are_fetched_than_the_threshold_allows(
    chat_gateway: Served, collection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = [passage(f"book-{n}", 0.9 - n / 1000, 1, "book") for n in range(10)]
    stored(chat_gateway, collection, [*book, *(passage(f"far-{n}", 0.1, 2, f"far-{n}") for n in range(30))])
    counts: list[int] = []
    query = AsyncClient.query_collections

    async def counted(self: AsyncClient, *arguments: object, **options: object) -> MultiQueryResults:
        counts.append(int(str(options["top_k"])))
        return await query(self, *arguments, **options)  # type: ignore[arg-type]  # passed on as given

    monkeypatch.setattr(AsyncClient, "query_collections", counted)
    assert await sources(chat_gateway, collection, {"rag_similarity_threshold": 0.2}) == ["book-0"]
    assert counts == [FAN_OUT * TOP_K]


async def test_what_was_found_is_kept_when_the_search_for_further_urls_fails(
    chat_gateway: Served, collection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(chat_gateway, collection, [passage(f"book-{n}", 0.9 - n / 1000, 1, "book") for n in range(40)])
    query = AsyncClient.query_collections

    async def first_only(self: AsyncClient, *arguments: object, **options: object) -> MultiQueryResults:
        if options["top_k"] != FAN_OUT * TOP_K:
            raise CallTimeout("no response in time")
        return await query(self, *arguments, **options)  # type: ignore[arg-type]  # passed on as given

    monkeypatch.setattr(AsyncClient, "query_collections", first_only)
    settings = Settings(rag_collections=collection)
    store = Store(settings, threading.Event(), chat_gateway.url)
    async with store.running():
        source = MemorySource(store, AxisEmbedder(), settings, settings.collections)
        with pytest.raises(PartialSearch) as raised:
            await source.search("Tea?", TOP_K, where=None, with_embeddings=False, deadline=None)
    assert [each.id for each in raised.value.passages] == ["book-0"]
    assert raised.value.reason == "timeout"
    assert await sources(chat_gateway, collection) == ["book-0"]
