"""Collections, over every store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import uuid4

import pytest

from ragstore.errors import CollectionExists, CollectionNotFound, InvalidMetadata
from ragstore.model.collections import Distance
from ragstore.model.documents import EVERYTHING
from ragstore.model.metadata import CollectionMetadata
from ragstore.store.protocol import Store
from tests.support.factories import add_documents, batch, batch_of, make_query, of_where, upsert_documents

pytestmark = pytest.mark.process

METADATA: CollectionMetadata = {
    "text": "é\x00\U0001f600",
    "empty": "",
    "int": 2**63 - 1,
    "low": -(2**63),
    "float": 0.1 + 0.2,
    "whole": 1.0,
    "yes": True,
    "no": False,
}

EVERY_CALL: dict[str, Callable[[Store, str], Awaitable[object]]] = {
    "get_collection": lambda store, name: store.get_collection(name),
    "update_metadata": lambda store, name: store.update_metadata(name, {"a": 1}, merge=False),
    "delete_collection": lambda store, name: store.delete_collection(name),
    "add": lambda store, name: add_documents(store, name, batch("a")),
    "upsert": lambda store, name: upsert_documents(store, name, batch("a")),
    "get": lambda store, name: store.get(name, EVERYTHING),
    "get_metadata_values": lambda store, name: store.get_metadata_values(name, "a"),
    "count": lambda store, name: store.count(name),
    "count_filtered": lambda store, name: store.count(name, of_where({"a": 1})),
    "delete": lambda store, name: store.delete(name, EVERYTHING),
    "query": lambda store, name: store.query(name, [make_query(1, 2)]),
}


def _typed(metadata: CollectionMetadata) -> dict[str, tuple[type, object]]:
    """With the types, as 1, 1.0 and True are equal."""
    return {key: (type(value), value) for key, value in metadata.items()}


async def test_a_created_collection_is_as_requested(store: Store, name: str) -> None:
    created = await store.create_collection(name, METADATA, "ip")
    assert (created.name, created.dimension, created.distance) == (name, None, "ip")
    assert _typed(created.metadata) == _typed(METADATA)
    assert await store.get_collection(name) == created


@pytest.mark.parametrize("distance", ["cosine", "l2", "ip"])
async def test_a_collection_keeps_its_distance(store: Store, name: str, distance: Distance) -> None:
    await store.create_collection(name, {}, distance)
    await store.update_metadata(name, {"a": 1}, merge=False)
    await store.update_metadata(name, {}, merge=False)
    assert (await store.get_collection(name)).distance == distance
    assert name in {found.name for found in await store.list_collections(None, 0) if found.distance == distance}


async def test_a_name_that_is_taken_is_refused(store: Store, store_collection: str) -> None:
    with pytest.raises(CollectionExists, match=f"Collection '{store_collection}' already exists"):
        await store.create_collection(store_collection, {"b": 2}, "cosine")
    assert (await store.get_collection(store_collection)).distance == "l2"


async def test_of_concurrent_creations_one_wins(store: Store, name: str) -> None:
    answers = await asyncio.gather(
        *(store.create_collection(name, {"by": index}, "l2") for index in range(10)), return_exceptions=True
    )
    refused = [answer for answer in answers if isinstance(answer, CollectionExists)]
    assert len(refused) == 9


@pytest.mark.parametrize("call", EVERY_CALL)
async def test_every_call_says_when_there_is_no_such_collection(store: Store, name: str, call: str) -> None:
    with pytest.raises(CollectionNotFound) as refused:
        await EVERY_CALL[call](store, name)
    assert refused.value.detail == f"Collection '{name}' not found"


@pytest.mark.parametrize("call", EVERY_CALL)
async def test_every_call_says_when_the_collection_was_deleted(store: Store, store_collection: str, call: str) -> None:
    await add_documents(store, store_collection, batch("a"))
    await store.query(store_collection, [make_query(1, 2)])
    await store.delete_collection(store_collection)
    with pytest.raises(CollectionNotFound):
        await EVERY_CALL[call](store, store_collection)


async def test_metadata_is_replaced(store: Store, name: str) -> None:
    await store.create_collection(name, {"a": 1, "b": "x"}, "l2")
    updated = await store.update_metadata(name, {"b": 2.5, "c": True, "gone": None}, merge=False)
    assert _typed(updated.metadata) == _typed({"b": 2.5, "c": True})
    assert await store.get_collection(name) == updated


async def test_metadata_is_merged_and_null_removes_a_key(store: Store, name: str) -> None:
    await store.create_collection(name, {"a": 1, "b": "x", "c": 0.5}, "l2")
    updated = await store.update_metadata(name, {"b": None, "c": 1, "d": "new", "never": None}, merge=True)
    assert _typed(updated.metadata) == _typed({"a": 1, "c": 1, "d": "new"})
    assert await store.get_collection(name) == updated


@pytest.mark.parametrize(("merge", "given"), [(False, {}), (False, {"a": None}), (True, {"a": None})])
async def test_metadata_may_become_empty(
    store: Store, name: str, merge: bool, given: dict[str, str | int | float | bool | None]
) -> None:
    await store.create_collection(name, {"a": 1}, "l2")
    assert (await store.update_metadata(name, given, merge=merge)).metadata == {}
    assert (await store.get_collection(name)).metadata == {}


@pytest.mark.parametrize("merge", [False, True])
async def test_metadata_may_name_the_distance_that_it_has(store: Store, name: str, merge: bool) -> None:
    await store.create_collection(name, {}, "ip")
    assert (await store.update_metadata(name, {"hnsw:space": "ip"}, merge=merge)).distance == "ip"


@pytest.mark.parametrize("merge", [False, True])
async def test_metadata_that_names_another_distance_is_refused(store: Store, name: str, merge: bool) -> None:
    await store.create_collection(name, {"a": 1}, "cosine")
    with pytest.raises(InvalidMetadata, match="it is 'cosine'"):
        await store.update_metadata(name, {"hnsw:space": "l2"}, merge=merge)
    found = await store.get_collection(name)
    assert (found.metadata, found.distance) == ({"a": 1}, "cosine")


async def test_concurrent_merges_are_all_kept(store: Store, name: str) -> None:
    await store.create_collection(name, {}, "l2")
    await asyncio.gather(*(store.update_metadata(name, {f"key{index}": index}, merge=True) for index in range(10)))
    assert (await store.get_collection(name)).metadata == {f"key{index}": index for index in range(10)}


async def test_collections_are_listed_by_name_and_counted(store: Store) -> None:
    prefix = f"list-{uuid4().hex}"
    names = [f"{prefix}-{letter}" for letter in "dbace"]
    before = await store.count_collections()
    for name in names:
        await store.create_collection(name, {"n": name[-1]}, "l2")
    assert await store.count_collections() == before + 5
    listed = await store.list_collections(None, 0)
    assert len(listed) == before + 5
    assert [found.name for found in listed if found.name.startswith(prefix)] == sorted(names)
    assert [found.metadata["n"] for found in listed if found.name.startswith(prefix)] == list("abcde")


async def test_collections_are_listed_page_by_page(store: Store, store_collection: str, name: str) -> None:
    await store.create_collection(name, {}, "l2")
    total = await store.count_collections()
    pages = [await store.list_collections(1, offset) for offset in range(total + 1)]
    assert [len(page) for page in pages] == [1] * total + [0]
    assert [page[0] for page in pages[:total]] == await store.list_collections(None, 0)


async def test_a_collection_has_a_dimension_from_its_first_document_on(store: Store, store_collection: str) -> None:
    assert (await store.get_collection(store_collection)).dimension is None
    await add_documents(store, store_collection, batch("a", dimension=5))
    assert (await store.get_collection(store_collection)).dimension == 5


async def test_a_deleted_collection_leaves_its_name_free_and_nothing_behind(
    store: Store, store_collection: str
) -> None:
    await add_documents(store, store_collection, batch("a", dimension=3))
    await store.delete_collection(store_collection)
    await store.create_collection(store_collection, {}, "ip")
    assert await store.count(store_collection) == 0
    found = await store.get_collection(store_collection)
    assert (found.dimension, found.distance) == (None, "ip")


async def test_lists_of_a_deleted_collection_do_not_come_back_in_another(
    store: Store, store_collection: str, name: str
) -> None:
    await add_documents(store, store_collection, batch_of([{"a": ["secret"]}, {"b": 1}, {"a": [1, 2, 3]}]))
    await store.delete_collection(store_collection)
    await store.create_collection(name, {}, "l2")
    await add_documents(store, name, batch_of([{}, {}, {"c": 1}]))
    assert (await store.get(name, EVERYTHING)).metadatas == [{}, {}, {"c": 1}]
    assert await store.count(name, of_where({"a": {"$contains": "secret"}})) == 0


async def test_status_tells_the_kind_the_version_and_the_number_of_collections(
    store: Store, store_collection: str
) -> None:
    status = await store.status()
    assert status.kind in ("embedded", "remote")
    assert status.chroma_version.startswith("1.")
    assert status.collections_count == await store.count_collections() > 0
    assert (status.storage_bytes is None) == (status.kind == "remote")
    assert status.storage_bytes is None or status.storage_bytes > 0


async def test_collections_are_counted_together(store: Store, name: str) -> None:
    full = await store.create_collection(f"{name}-full", {}, "l2")
    empty = await store.create_collection(f"{name}-empty", {}, "l2")
    await add_documents(store, full.name, batch("a", "b"))
    assert await store.count_each([full, empty, full], 30.0) == [2, 0, 2]
    await store.delete_collection(empty.name)
    assert await store.count_each([empty, full], 30.0) == ["deleted", 2]
    assert await store.count_each([], 30.0) == []
