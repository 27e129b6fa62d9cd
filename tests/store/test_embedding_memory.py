"""Every document of a small collection is found, and its embeddings are not read for each query."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import uuid4

import numpy as np
import pytest

from ragstore.model.collections import Distance
from ragstore.model.distances import distances_to
from ragstore.model.documents import EVERYTHING, Batch, Selection, StoredEmbeddings
from ragstore.model.queries import Query
from ragstore.model.vectors import Matrix
from ragstore.store import embedding_memory
from ragstore.store.embedding_memory import EmbeddingMemory
from ragstore.store.layer import StoreLayer
from ragstore.store.protocol import Store
from tests.support.factories import add_documents, of_ids, upsert_documents

pytestmark = pytest.mark.process

DIMENSION = 64
COUNT = 120


class CountingStore(StoreLayer):
    """Counts the embeddings that are read, and the counts of documents."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.embeddings: list[int] = []
        self.counts = 0

    async def get_embeddings(self, name: str, ids: list[str]) -> StoredEmbeddings:
        self.embeddings.append(len(ids))
        return await super().get_embeddings(name, ids)

    async def count(self, name: str, selection: Selection = EVERYTHING) -> int:
        self.counts += 1
        return await super().count(name, selection)


def rows_of(count: int, seed: int) -> Matrix:
    """Random embeddings of length 1."""
    drawn = np.random.default_rng(seed).normal(size=(count, DIMENSION))
    rows: Matrix = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    return rows


def documents_of(rows: Matrix, prefix: str = "") -> Batch:
    """Documents with these embeddings."""
    ids = [f"{prefix}{row}" for row in range(len(rows))]
    return Batch(ids, [f"text of {key}" for key in ids], [{"of": key} for key in ids], rows)


async def write_and_delete_equal(store: Store, name: str, rows: Matrix) -> None:
    """Replace documents by themselves, between copies of one of them that are written and deleted."""
    await upsert_documents(store, name, documents_of(rows))
    for number in range(6):
        copies = documents_of(np.repeat(rows[number : number + 1], 200, axis=0), f"copy-{number}-")
        await add_documents(store, name, copies)
        await upsert_documents(store, name, documents_of(rows))
        await store.delete(name, of_ids(*copies.ids))


async def not_found(store: Store, name: str, rows: Matrix) -> int:
    """Number of documents that are not the nearest to their own embedding."""
    queries = [Query(row, 1, may_be_short=True) for row in rows]
    found = await store.query(name, queries)
    return sum(hits.ids != [str(row)] for row, hits in enumerate(found.matches))


@pytest.fixture(params=["embedded", "remote"])
async def any_bare(request: pytest.FixtureRequest, started: Callable[[str], Awaitable[Store]]) -> Store:
    """The innermost store over each kind of Chroma."""
    return await started(request.param)


@pytest.fixture
async def name(bare: Store) -> AsyncIterator[str]:
    """A new, empty collection of the innermost store."""
    name = f"t-{uuid4().hex}"
    await bare.create_collection(name, {}, "cosine")
    yield name
    await bare.delete_collection(name)


async def test_every_document_is_found_after_deletions_of_many_equal_ones(any_bare: Store) -> None:
    name = f"t-{uuid4().hex}"
    await any_bare.create_collection(name, {}, "cosine")
    rows = rows_of(COUNT, 1)
    await write_and_delete_equal(any_bare, name, rows)

    assert await not_found(any_bare, name, rows) > 0, "Chroma's index loses none any more"
    assert await not_found(EmbeddingMemory(any_bare), name, rows) == 0
    await any_bare.delete_collection(name)


@pytest.mark.parametrize("distance", ["cosine", "l2", "ip"])
async def test_results_are_those_of_numpy(bare: Store, distance: Distance) -> None:
    name = f"t-{uuid4().hex}"
    await bare.create_collection(name, {}, distance)
    rows = rows_of(COUNT, 2) * np.random.default_rng(2).lognormal(0, 0.3, (COUNT, 1)).astype(np.float32)
    await write_and_delete_equal(bare, name, rows)
    store = EmbeddingMemory(bare)

    for query in rows_of(10, 3):
        found = (await store.query(name, [Query(query, 10, with_embeddings=True)])).matches[0]
        expected = distances_to(rows, query, distance)
        assert found.ids == [str(row) for row in np.argsort(expected)[:10]]
        assert found.distances == pytest.approx(np.sort(expected)[:10].tolist(), rel=1e-4, abs=1e-5)
        assert found.texts == [f"text of {key}" for key in found.ids]
        assert found.embeddings is not None
        assert found.embeddings.shape == (10, DIMENSION)
    await bare.delete_collection(name)


async def test_after_a_change_only_new_and_written_documents_are_read(bare: Store, name: str) -> None:
    counting = CountingStore(bare)
    store = EmbeddingMemory(counting)
    rows = rows_of(COUNT, 4)
    await add_documents(store, name, documents_of(rows))
    for _ in range(3):
        assert await not_found(store, name, rows) == 0
    assert counting.embeddings == [COUNT]

    rows[:2] = rows_of(2, 5)
    await upsert_documents(store, name, documents_of(rows[:2]))
    assert await not_found(store, name, rows) == 0
    await add_documents(store, name, documents_of(rows_of(3, 6), "new-"))
    await store.delete(name, of_ids("7"))
    assert await not_found(store, name, rows) == 1
    assert counting.embeddings == [COUNT, 2, 3]
    assert store.remembered == (COUNT + 2) * DIMENSION


async def test_queries_that_come_together_read_the_embeddings_once(bare: Store, name: str) -> None:
    counting = CountingStore(bare)
    store = EmbeddingMemory(counting)
    await add_documents(store, name, documents_of(rows_of(COUNT, 7)))
    await asyncio.gather(*(store.query(name, [Query(row, 1)]) for row in rows_of(8, 8)))
    assert counting.embeddings == [COUNT]


async def test_a_collection_that_is_not_small_is_neither_read_nor_counted_again_after_writes(
    bare: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_memory, "MAX_COLLECTION_VALUES", 100 * DIMENSION)
    counting = CountingStore(bare)
    store = EmbeddingMemory(counting)
    await add_documents(store, name, documents_of(rows_of(COUNT, 9)))
    for number in range(3):
        await store.query(name, [Query(rows_of(1, 10)[0], 1)])
        await add_documents(store, name, documents_of(rows_of(1, 11), f"new-{number}-"))
    assert (counting.counts, counting.embeddings, store.remembered) == (1, [], 0)


async def test_a_collection_that_deletions_make_small_is_read(
    bare: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_memory, "MAX_COLLECTION_VALUES", 100 * DIMENSION)
    store = EmbeddingMemory(bare)
    rows = rows_of(COUNT, 12)
    await add_documents(store, name, documents_of(rows))
    await store.query(name, [Query(rows[0], 1)])
    await store.delete(name, of_ids(*(str(row) for row in range(100, COUNT))))
    await store.query(name, [Query(rows[0], 1)])
    assert store.remembered == 100 * DIMENSION


async def test_a_collection_that_is_created_again_is_read_again(bare: Store, name: str) -> None:
    store = EmbeddingMemory(bare)
    await add_documents(store, name, documents_of(rows_of(COUNT, 13)))
    await store.query(name, [Query(rows_of(1, 13)[0], 1)])
    await bare.delete_collection(name)
    await bare.create_collection(name, {}, "cosine")
    rows = rows_of(3, 14)[:, :8]
    await add_documents(bare, name, documents_of(rows))
    assert await not_found(store, name, rows) == 0
    assert store.remembered == rows.size


async def test_a_change_by_another_client_is_seen_after_a_time_and_never_returned_wrongly(
    bare: Store, name: str
) -> None:
    now = [0.0]
    counting = CountingStore(bare)
    store = EmbeddingMemory(counting, lambda: now[0])
    before, after = rows_of(COUNT, 15), rows_of(COUNT, 16)
    await add_documents(store, name, documents_of(before))
    await store.query(name, [Query(before[0], 1)])
    await upsert_documents(bare, name, documents_of(after))

    found = (await store.query(name, [Query(before[0], 5)])).matches[0]
    assert found.distances == pytest.approx(
        [float(distances_to(after[[int(key)]], before[0], "cosine")[0]) for key in found.ids], abs=1e-5
    )
    now[0] += embedding_memory.MAX_AGE_SECONDS + 1
    await store.query(name, [Query(after[0], 1)])
    assert counting.embeddings == [COUNT, COUNT]


async def test_a_document_that_is_written_during_a_read_is_read_again(bare: Store, name: str) -> None:
    class WritingStore(StoreLayer):
        """Writes a document while its embedding is read."""

        async def get_embeddings(self, name: str, ids: list[str]) -> StoredEmbeddings:
            read = await super().get_embeddings(name, ids)
            if pending:
                await upsert_documents(store, name, pending.pop())
            return read

    store = EmbeddingMemory(WritingStore(bare))
    rows = rows_of(COUNT, 17)
    await add_documents(store, name, documents_of(rows))
    pending = [documents_of(rows_of(1, 18))]
    await store.query(name, [Query(rows[5], 1)])
    rows[0] = rows_of(1, 18)[0]
    await store.query(name, [Query(rows[5], 1)])
    table = store.embeddings_of(name)
    assert table is not None
    assert table.rows[table.ids.index("0")] == pytest.approx(rows[0], abs=1e-6)


async def test_the_least_recently_used_collection_is_forgotten(bare: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_memory, "MAX_VALUES", 25 * DIMENSION)
    counting = CountingStore(bare)
    store = EmbeddingMemory(counting)
    names = [f"t-{uuid4().hex}" for _ in range(3)]
    for name in names:
        await bare.create_collection(name, {}, "cosine")
        await add_documents(bare, name, documents_of(rows_of(10, 19)))
    for index in (0, 1, 0, 2, 0, 1):
        await store.query(names[index], [Query(rows_of(1, 19)[0], 1)])
    assert counting.embeddings == [10, 10, 10, 10]
    assert store.remembered == 20 * DIMENSION
    for name in names:
        await bare.delete_collection(name)
