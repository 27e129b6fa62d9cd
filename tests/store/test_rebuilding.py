"""A rebuild gives a collection of embedded Chroma a new index, while the collection is read and written."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import numpy as np
import pytest

from ragstore.chroma import collection_copy, rebuilding
from ragstore.chroma.chroma_store import ChromaStore
from ragstore.chroma.collection_copy import CollectionCopy
from ragstore.chroma.embedded.backend import EmbeddedBackend
from ragstore.chroma.errors import StaleCollectionId
from ragstore.chroma.operations import CreateCollection, ExchangeNames, ListCollections, Operation, UpsertRecords
from ragstore.chroma.rebuild_names import COPY_PREFIX, NAME_KEY, REPLACED_PREFIX, copy_name, replaced_name
from ragstore.errors import ChromaTimeout, CollectionNotFound, RebuildNotFound, RebuildRunning, RebuildUnsupported
from ragstore.model.collections import DEFAULT_HNSW, Distance, HnswParameters
from ragstore.model.documents import EVERYTHING, Batch, Documents, Selection, Write
from ragstore.model.metadata import Metadata
from ragstore.model.metadata_updates import MetadataUpdates
from ragstore.model.rebuilds import Rebuild
from ragstore.store.protocol import Store
from tests.support.factories import make_query
from tests.support.process_fixtures import starts_process
from tests.support.stores import MAX_BATCH_SIZE, STORES, StoreLocation, embedded_backend

pytestmark = pytest.mark.process

T = TypeVar("T")

DIMENSION = 8


def documents(*ids: str, seed: int = 0) -> Batch:
    """Documents with texts, metadata with lists, and embeddings that the seed determines."""
    embeddings = np.random.default_rng(seed).normal(size=(len(ids), DIMENSION)).astype(np.float32)
    metadatas: list[Metadata] = [
        {"n": row, "tags": ["a", key], "seed": seed} if row % 3 else {} for row, key in enumerate(ids)
    ]
    return Batch(list(ids), [f"text of {key}" for key in ids], metadatas, embeddings)


def names(count: int, prefix: str = "d") -> list[str]:
    """Ids whose order as text is not the order of the documents."""
    return [f"{prefix}{number}" for number in range(count)]


@pytest.fixture
@starts_process
async def backend(tmp_path: Path) -> AsyncIterator[EmbeddedBackend]:
    """Embedded Chroma with a folder of its own."""
    made = embedded_backend(tmp_path / "data")
    yield made
    await made.close()


@pytest.fixture
@starts_process
async def store(backend: EmbeddedBackend) -> AsyncIterator[ChromaStore]:
    """A store with data of its own."""
    made = ChromaStore(backend, MAX_BATCH_SIZE)
    await made.start()
    yield made
    await made.close()


async def ended(store: Store, name: str) -> Rebuild:
    """The state of a rebuild after its end."""
    rebuild = await store.get_rebuild(name)
    await until(lambda: rebuild.status != "running")
    return rebuild


async def rebuilt(store: Store, name: str, hnsw: HnswParameters = DEFAULT_HNSW, sample: int = 20) -> Rebuild:
    """Rebuild an index, and wait for the end."""
    await store.start_rebuild(name, hnsw, sample)
    rebuild = await ended(store, name)
    assert rebuild.error is None
    assert rebuild.status == "completed"
    return rebuild


async def content(store: Store, name: str) -> Documents:
    """All documents with their embeddings."""
    return await store.get(name, EVERYTHING, with_embeddings=True)


async def hidden(backend: EmbeddedBackend) -> list[str]:
    """Names of the hidden collections of rebuilds."""
    prefixes = (COPY_PREFIX, REPLACED_PREFIX)
    return [found.name for found in await backend.call(ListCollections()) if found.name.startswith(prefixes)]


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is true, or 60 s."""
    for _ in range(3000):
        if condition():
            return
        await asyncio.sleep(0.02)
    pytest.fail("It did not become true")


async def eventually_hidden(backend: EmbeddedBackend) -> list[str]:
    """Names of the hidden collections, when they are removed or after 10 s."""
    for _ in range(100):
        if not await hidden(backend):
            break
        await asyncio.sleep(0.1)
    return await hidden(backend)


def assert_same(one: Documents, other: Documents, tolerance: float = 0.0) -> None:
    """Compare documents in their order."""
    assert one.ids == other.ids
    assert one.texts == other.texts
    assert one.metadatas == other.metadatas
    assert one.embeddings is not None
    assert other.embeddings is not None
    assert np.abs(one.embeddings - other.embeddings).max(initial=0.0) <= tolerance


@pytest.mark.parametrize(("distance", "tolerance"), [("l2", 0.0), ("ip", 0.0), ("cosine", 3e-7)])
async def test_documents_and_their_order_are_the_same_after_a_rebuild(
    store: ChromaStore, backend: EmbeddedBackend, distance: Distance, tolerance: float
) -> None:
    await store.create_collection("notes", {"owner": "x"}, distance, HnswParameters(ef_search=150))
    await store.write("notes", [Write("add", documents(*names(400)))])
    await store.delete("notes", Selection(ids=("d7", "d8")))
    await store.write("notes", [Write("upsert", documents("d7", "d3", "z", seed=1))])
    before, collection = await content(store, "notes"), await store.get_collection("notes")

    rebuild = await rebuilt(store, "notes")

    assert (rebuild.done, rebuild.total) == (400, 400)
    after = await store.get_collection("notes")
    assert after.id != collection.id
    assert (after.metadata, after.dimension, after.distance, after.hnsw) == (
        collection.metadata,
        collection.dimension,
        collection.distance,
        collection.hnsw,
    )
    assert_same(await content(store, "notes"), before, tolerance)
    assert await hidden(backend) == []
    assert [found.name for found in await store.list_collections(None, 0)] == ["notes"]


async def test_parameters_that_a_rebuild_names_replace_those_of_the_index(store: ChromaStore) -> None:
    await store.create_collection("notes", {}, "l2", HnswParameters(ef_search=150, max_neighbors=24))
    await store.write("notes", [Write("add", documents("a", "b"))])
    await rebuilt(store, "notes", HnswParameters(max_neighbors=48))
    assert (await store.get_collection("notes")).hnsw == HnswParameters(ef_search=150, max_neighbors=48)


async def test_a_collection_without_documents_keeps_its_dimension(store: ChromaStore) -> None:
    await store.create_collection("notes", {}, "l2")
    await rebuilt(store, "notes")
    assert (await store.get_collection("notes")).dimension is None
    await store.write("notes", [Write("add", documents("a"))])
    await store.delete("notes", EVERYTHING)
    await rebuilt(store, "notes")
    assert (await store.get_collection("notes")).dimension == DIMENSION
    assert await store.count("notes") == 0


async def test_writes_during_a_rebuild_are_all_there_afterwards(
    store: ChromaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same writes are made to a collection that is not rebuilt, which the result is compared with."""
    monkeypatch.setattr(collection_copy, "MAX_PAGE", 20)
    monkeypatch.setattr(rebuilding, "FEW_CHANGES", 12)
    for name in ("notes", "twin"):
        await store.create_collection(name, {}, "l2")
        await store.write(name, [Write("add", documents(*names(800)[:400]))])
        await store.write(name, [Write("add", documents(*names(800)[400:], seed=2))])
    generator = np.random.default_rng(5)
    await store.start_rebuild("notes", DEFAULT_HNSW, 20)
    rounds = 0
    while (await store.get_rebuild("notes")).status == "running" or rounds < 5:
        rounds += 1
        some = [f"d{number}" for number in generator.choice(800, 6, replace=False)]
        for name in ("notes", "twin"):
            await store.write(name, [Write("add", documents(f"new{rounds}", f"other{rounds}", seed=rounds))])
            await store.write(name, [Write("upsert", documents(*some[:2], f"late{rounds}", seed=rounds))])
            present = await store.get_ids(name, Selection(ids=tuple(some[2:4])))
            await store.update_documents(
                name, [MetadataUpdates("replace", present, [{"changed": rounds}] * len(present))]
            )
            await store.delete(name, Selection(ids=tuple(some[4:])))
            if rounds % 2:
                await store.write(name, [Write("upsert", documents(some[4], seed=rounds))])
    assert (await ended(store, "notes")).status == "completed"
    assert_same(await content(store, "notes"), await content(store, "twin"))


async def test_readers_never_fail_and_never_miss_a_document_during_a_rebuild(store: ChromaStore) -> None:
    await store.create_collection("notes", {}, "l2")
    ids = names(900)
    batch = documents(*ids)
    await store.write("notes", [Write("add", batch)])
    is_done, reads = False, 0

    async def read() -> None:
        nonlocal reads
        while not is_done:
            assert await store.get_ids("notes", EVERYTHING) == ids
            assert await store.count("notes") == 900
            assert (await store.get("notes", Selection(ids=("d5",)))).ids == ["d5"]
            (found,) = await store.list_collections(None, 0)
            assert await store.count_each([found], 30.0) == [900]
            assert await store.count_collections() in (1, 2)
            (matches,) = (await store.query("notes", [make_query(*[0.1] * DIMENSION)])).matches
            assert matches.ids
            exact = await store.query_exact("notes", [make_query(*[0.1] * DIMENSION)], 2000)
            assert exact is not None
            reads += 1

    readers = [asyncio.create_task(read()) for _ in range(3)]
    for _ in range(2):
        await rebuilt(store, "notes")
    is_done = True
    await asyncio.gather(*readers)
    assert reads > 3


async def test_documents_that_are_in_another_order_in_the_copy_are_moved(
    store: ChromaStore, backend: EmbeddedBackend
) -> None:
    for name, ids in (("notes", "abxyz"), ("copy", "abyx")):
        await store.create_collection(name, {}, "l2")
        for key in ids:
            await store.write(name, [Write("add", documents(key))])
    source, target = await store.get_collection("notes"), await store.get_collection("copy")
    await CollectionCopy(backend, source.id, target.id, 100, lambda _: None).complete()
    assert_same(await content(store, "copy"), await content(store, "notes"))


async def test_a_second_rebuild_is_rejected_while_one_runs(store: ChromaStore) -> None:
    await store.create_collection("notes", {}, "l2")
    await store.write("notes", [Write("add", documents(*names(300)))])
    await store.start_rebuild("notes", DEFAULT_HNSW, 300)
    with pytest.raises(RebuildRunning):
        await store.start_rebuild("notes", DEFAULT_HNSW, 0)
    assert (await ended(store, "notes")).before == (300, 0)
    await rebuilt(store, "notes")


async def test_a_rebuild_of_a_collection_that_is_deleted_meanwhile_fails_and_leaves_nothing(
    store: ChromaStore, backend: EmbeddedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection_copy, "MAX_PAGE", 10)
    await store.create_collection("notes", {}, "l2")
    await store.write("notes", [Write("add", documents(*names(900)))])
    rebuild = await store.start_rebuild("notes", DEFAULT_HNSW, 0)
    await until(lambda: rebuild.done > 0)
    await store.delete_collection("notes")
    await store.create_collection("notes", {}, "l2")
    await until(lambda: rebuild.status != "running")
    assert isinstance(rebuild.error, CollectionNotFound)
    assert await store.count("notes") == 0
    assert await hidden(backend) == []
    with pytest.raises(RebuildNotFound):
        await store.get_rebuild("notes")


async def test_a_collection_of_a_chroma_server_is_not_rebuilt(location: StoreLocation) -> None:
    remote = STORES["remote"](location)
    await remote.start()
    await remote.create_collection("not-rebuilt", {}, "l2")
    with pytest.raises(RebuildUnsupported, match="ragstore copy --into NAME"):
        await remote.start_rebuild("not-rebuilt", DEFAULT_HNSW, 0)
    await remote.close()


class FailingBackend(EmbeddedBackend):
    """Embedded Chroma that fails or loses the response of some operations, before or after they are executed."""

    fails: tuple[type[Operation[object]], ...] = ()
    executes_failed: bool = False

    async def call(self, operation: Operation[T]) -> T:
        if isinstance(operation, self.fails):
            if self.executes_failed:
                await super().call(operation)
            self.fails = ()
            raise ChromaTimeout("Chroma did not respond in time")
        return await super().call(operation)


@pytest.fixture
@starts_process
async def failing(tmp_path: Path) -> AsyncIterator[FailingBackend]:
    """Embedded Chroma whose calls a test lets fail."""
    made = FailingBackend(str(tmp_path / "failing"), "default_tenant", "default_database", 30.0)
    yield made
    await made.close()


@pytest.mark.parametrize("kind", [CreateCollection, UpsertRecords, ExchangeNames])
async def test_a_failure_leaves_the_collection_as_it_is(failing: FailingBackend, kind: type[Operation[object]]) -> None:
    store = ChromaStore(failing, MAX_BATCH_SIZE)
    await store.start()
    await store.create_collection("notes", {"a": 1}, "l2")
    await store.write("notes", [Write("add", documents(*names(100)))])
    before, collection = await content(store, "notes"), await store.get_collection("notes")
    failing.fails = (kind,)
    await store.start_rebuild("notes", DEFAULT_HNSW, 0)
    rebuild = await ended(store, "notes")
    assert (rebuild.status, rebuild.error and rebuild.error.code) == ("failed", "chroma_timeout")
    assert await store.get_collection("notes") == collection
    assert_same(await content(store, "notes"), before)
    assert await hidden(failing) == []
    await rebuilt(store, "notes")
    assert_same(await content(store, "notes"), before)
    await store.close()


async def test_an_exchange_whose_response_is_lost_is_a_rebuild(failing: FailingBackend) -> None:
    store = ChromaStore(failing, MAX_BATCH_SIZE)
    await store.start()
    await store.create_collection("notes", {"a": 1}, "l2")
    await store.write("notes", [Write("add", documents(*names(100)))])
    before, collection = await content(store, "notes"), await store.get_collection("notes")
    failing.fails, failing.executes_failed = (ExchangeNames,), True
    await rebuilt(store, "notes")
    assert (await store.get_collection("notes")).id != collection.id
    await store.write("notes", [Write("add", documents("new"))])
    assert (await store.get_ids("notes", EVERYTHING)) == [*before.ids, "new"]
    assert await hidden(failing) == []
    await store.close()


async def test_an_exchange_that_cannot_rename_the_copy_is_undone(store: ChromaStore, backend: EmbeddedBackend) -> None:
    await store.create_collection("notes", {}, "l2")
    collection = await store.get_collection("notes")
    with pytest.raises(StaleCollectionId):
        await backend.call(ExchangeNames(collection.id, str(uuid4()), "notes", {}))
    assert await store.get_collection("notes") == collection
    assert await hidden(backend) == []


@pytest.mark.process
async def test_an_exchange_that_ended_between_its_steps_is_undone_by_the_next_start(tmp_path: Path) -> None:
    """The state of the names is written to the closed database, as a kill between the two renames leaves it."""
    folder = tmp_path / "interrupted"
    first = ChromaStore(embedded_backend(folder), MAX_BATCH_SIZE)
    await first.start()
    await first.create_collection("notes", {"a": 1}, "l2")
    await first.write("notes", [Write("add", documents(*names(50)))])
    before, collection = await content(first, "notes"), await first.get_collection("notes")
    await first.backend.call(CreateCollection(copy_name(collection.id), {NAME_KEY: "notes"}, "l2"))
    await first.close()
    with closing(sqlite3.connect(folder / "chroma.sqlite3")) as database, database:
        database.execute("UPDATE collections SET name = ? WHERE id = ?", (replaced_name(collection.id), collection.id))

    backend = embedded_backend(folder)
    second = ChromaStore(backend, MAX_BATCH_SIZE)
    await second.start()
    assert await second.get_collection("notes") == collection
    assert_same(await content(second, "notes"), before)
    assert await eventually_hidden(backend) == []
    await second.close()


@pytest.mark.process
async def test_the_old_collection_is_removed_by_the_next_start_if_a_kill_prevented_it(tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    first = ChromaStore(embedded_backend(folder), MAX_BATCH_SIZE)
    await first.start()
    await first.backend.call(CreateCollection(replaced_name(str(uuid4())), {}, "l2"))
    await first.create_collection("notes", {}, "l2")
    await first.close()
    backend = embedded_backend(folder)
    second = ChromaStore(backend, MAX_BATCH_SIZE)
    await second.start()
    assert await eventually_hidden(backend) == []
    assert [found.name for found in await backend.call(ListCollections())] == ["notes"]
    await second.close()
