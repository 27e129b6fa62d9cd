"""A write that Chroma cannot apply does not cost its collection's name, nor what was stored before it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from chroma_repair.data_lock import DATABASE
from chroma_repair.index_repair import repair
from ragstore.chroma.merging import MAX_REMOVED_KEYS
from ragstore.chroma.operations import UpsertRecords
from ragstore.chroma.records import RecordBatch
from ragstore.errors import ChromaFailed, CollectionNotFound, InvalidMetadata
from ragstore.model.documents import EVERYTHING
from ragstore.model.metadata import Metadata
from ragstore.store.protocol import Store
from tests.support.damaged_index import NAME, content_of, numbered, opened, run_repair
from tests.support.factories import add_documents, batch, make_query, matrix, of_ids, upsert_documents
from tests.support.poisoning import POISON, poison
from tests.support.servers import running, start_chroma
from tests.support.stores import StoreLocation, embedded_backend, exact, http_backend

pytestmark = pytest.mark.process

POISONED = pytest.mark.parametrize("metadata", POISON.values(), ids=POISON)
KINDS = pytest.mark.parametrize("kind", ["embedded", "remote"])


async def poisoned_store(kind: str, folder: Path, chroma_url: str, metadata: Metadata) -> Store:
    """A store with a poisoned collection."""
    backend = embedded_backend(folder) if kind == "embedded" else http_backend(chroma_url, uuid4().hex)
    store = exact(backend)
    await store.start()
    await poison(backend, NAME, metadata)
    return store


@POISONED
@KINDS
async def test_a_poisoned_collection_can_be_deleted_and_made_again(
    kind: str, metadata: Metadata, location: StoreLocation, tmp_path: Path
) -> None:
    store = await poisoned_store(kind, tmp_path, location.chroma_url, metadata)
    await store.delete_collection(NAME)
    with pytest.raises(CollectionNotFound):
        await store.count(NAME)
    await store.create_collection(NAME, {}, "l2")
    await add_documents(store, NAME, batch("again"))
    assert await store.get_ids(NAME, EVERYTHING) == ["again"]
    await store.close()


@POISONED
async def test_a_poisoned_collection_can_be_deleted_after_a_restart(metadata: Metadata, tmp_path: Path) -> None:
    await (await poisoned_store("embedded", tmp_path, "", metadata)).close()
    async with opened(tmp_path) as store:
        with pytest.raises(ChromaFailed):
            await store.count(NAME)
        await store.delete_collection(NAME)
        assert await store.count_collections() == 0


@POISONED
async def test_repair_brings_back_what_was_stored_before_the_poison(metadata: Metadata, tmp_path: Path) -> None:
    await (await poisoned_store("embedded", tmp_path, "", metadata)).close()
    (found,) = repair(tmp_path)
    assert (found.collection, found.documents, found.removed_entries, found.index, found.problem) == (
        NAME,
        3,
        3,
        False,
        "",
    )
    assert repair(tmp_path) == []
    async with opened(tmp_path) as store:
        assert sorted(await content_of(store)) == ["one", "three", "two"]
        await add_documents(store, NAME, batch("later"))
        await upsert_documents(store, NAME, batch("two", text="changed"))
        (hits,) = (await store.query(NAME, [make_query(1, 1, top_k=10)])).matches
        assert sorted(hits.ids) == ["later", "one", "three", "two"]
        assert await store.delete(NAME, of_ids("one")) == 1
    async with opened(tmp_path) as store:
        content = await content_of(store)
        assert {key: text for key, (text, _, _) in content.items()} == {
            "two": "changed",
            "three": "text of three",
            "later": "text of later",
        }


async def test_writes_to_other_collections_after_the_poison_stay(tmp_path: Path) -> None:
    store = await poisoned_store("embedded", tmp_path, "", POISON["keys"])
    await store.create_collection("other", {}, "l2")
    await add_documents(store, "other", numbered(0, 5))
    await store.close()
    repair(tmp_path)
    async with opened(tmp_path) as store:
        await add_documents(store, "other", numbered(5, 5))
        await add_documents(store, NAME, batch("later"))
        assert await store.count("other") == 10
        assert await store.count(NAME) == 4


async def test_a_log_that_can_be_applied_is_left_as_it_is(tmp_path: Path) -> None:
    """As after a kill between a write's entry in the log and its application."""
    async with opened(tmp_path) as store:
        await store.create_collection(NAME, {}, "l2")
        await add_documents(store, NAME, numbered(0, 3))
    with closing(sqlite3.connect(tmp_path / DATABASE)) as database, database:
        database.execute(
            "INSERT INTO embeddings_queue (operation, topic, id, vector, encoding, metadata) "
            "SELECT operation, topic, 'unapplied', vector, encoding, metadata FROM embeddings_queue LIMIT 1"
        )
    assert repair(tmp_path) == []
    async with opened(tmp_path) as store:
        assert await store.count(NAME) == 4


async def test_the_command_says_what_it_removed(tmp_path: Path) -> None:
    await (await poisoned_store("embedded", tmp_path, "", POISON["keys"])).close()
    code, printed = run_repair(str(tmp_path))
    assert code == 0
    assert "removed 3 failed writes from its log, which Chroma cannot apply" in printed
    assert "repaired" not in printed


async def test_a_chroma_server_goes_on_after_a_repair(tmp_path: Path) -> None:
    with running(start_chroma(tmp_path)) as served:
        backend = http_backend(served.url, "store_tests")
        await backend.start()
        await poison(backend, NAME, POISON["list members"])
        await backend.close()
    repair(tmp_path / "chroma")
    with running(start_chroma(tmp_path)) as served:
        store = exact(http_backend(served.url, "store_tests"))
        await store.start()
        await add_documents(store, NAME, batch("later"))
        assert sorted(await store.get_ids(NAME, EVERYTHING)) == ["later", "one", "three", "two"]
        await store.close()


@KINDS
async def test_a_replacement_that_would_remove_too_many_keys_is_refused_by_itself(
    kind: str, location: StoreLocation, tmp_path: Path
) -> None:
    """Others than ragstore can give a document any number of keys, by upserts that add to them."""
    backend = embedded_backend(tmp_path) if kind == "embedded" else http_backend(location.chroma_url, uuid4().hex)
    store = exact(backend)
    await store.start()
    collection = await store.create_collection(NAME, {}, "l2")
    for start in range(0, MAX_REMOVED_KEYS + 1000, 5000):
        metadata: Metadata = {f"key-{number}": number for number in range(start, start + 5000)}
        await backend.call(
            UpsertRecords(collection.id, RecordBatch(["huge"], matrix([1, 1]), ["text"], [dict(metadata)]))
        )
    with pytest.raises(InvalidMetadata, match="has more than 32000 metadata keys"):
        await upsert_documents(store, NAME, batch("other", "huge"))
    await upsert_documents(store, NAME, batch("other"))
    assert await store.delete(NAME, of_ids("huge")) == 1
    await upsert_documents(store, NAME, batch("huge"))
    assert sorted(await store.get_ids(NAME, EVERYTHING)) == ["huge", "other"]
    await store.close()
