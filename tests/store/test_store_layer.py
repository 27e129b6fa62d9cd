"""Layers that concern all calls: what they do applies to every method of `Store`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar, get_args
from uuid import UUID

import pytest

from ragstore.errors import ChromaTimeout, CollectionNotFound, RebuildNotFound, RebuildUnsupported
from ragstore.kit.context import set_deadline
from ragstore.kit.errors import Forbidden
from ragstore.model.collections import DEFAULT_HNSW, Collection
from ragstore.model.documents import EVERYTHING, Write
from ragstore.model.maps import MapParameters
from ragstore.model.metadata_updates import MetadataUpdates
from ragstore.store.deadline import DeadlineStore
from ragstore.store.layer import StoreLayer, StoreOperation
from ragstore.store.name_scope import NameScope
from ragstore.store.protocol import Store
from ragstore.store.scope import ScopedStore
from tests.support.factories import batch, make_query

T = TypeVar("T")


async def _start_rebuild(store: Store, name: str) -> None:
    with suppress(RebuildUnsupported):  # over a Chroma server
        await store.start_rebuild(name, DEFAULT_HNSW, 0)


async def _get_rebuild(store: Store, name: str) -> None:
    with suppress(RebuildNotFound):
        await store.get_rebuild(name)


WITHOUT_A_NAME: dict[str, Callable[[Store], Awaitable[object]]] = {
    "status": lambda store: store.status(),
    "max_batch_size": lambda store: store.max_batch_size(),
    "list_collections": lambda store: store.list_collections(None, 0),
    "count_collections": lambda store: store.count_collections(),
    "count_each": lambda store: store.count_each([Collection(str(UUID(int=1)), "gone", {}, None, "l2")], 1.0),
}

WITH_A_NAME: dict[str, Callable[[Store, str], Awaitable[object]]] = {
    "create_collection": lambda store, name: store.create_collection(name, {}, "l2"),
    "get_collection": lambda store, name: store.get_collection(name),
    "update_metadata": lambda store, name: store.update_metadata(name, {}, merge=True),
    "write": lambda store, name: store.write(name, [Write("upsert", batch("a"))]),
    "get": lambda store, name: store.get(name, EVERYTHING),
    "get_ids": lambda store, name: store.get_ids(name, EVERYTHING),
    "get_embeddings": lambda store, name: store.get_embeddings(name, ["a"]),
    "get_metadata_values": lambda store, name: store.get_metadata_values(name, "a"),
    "count": lambda store, name: store.count(name),
    "query": lambda store, name: store.query(name, [make_query(1, 2)]),
    "update_documents": lambda store, name: store.update_documents(name, [MetadataUpdates("merge", ["a"], [{}])]),
    "query_exact": lambda store, name: store.query_exact(name, [make_query(1, 2)], 10),
    "map_collection": lambda store, name: store.map_collection(name, MapParameters(10)),
    "delete": lambda store, name: store.delete(name, EVERYTHING),
    "start_rebuild": _start_rebuild,
    "get_rebuild": _get_rebuild,
    "delete_collection": lambda store, name: store.delete_collection(name),
}


class RecordingLayer(StoreLayer):
    """Records the operations that are intercepted, with the names of their collections."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.recorded: list[tuple[str, str | None]] = []

    async def _intercept(self, operation: StoreOperation, name: str | None, call: Callable[[], Awaitable[T]]) -> T:
        self.recorded.append((operation, name))
        return await call()


def test_these_tests_call_every_method_of_a_store() -> None:
    operations = {name for name in vars(Store) if not name.startswith("_")} - {"start", "close"}
    assert WITHOUT_A_NAME.keys() | WITH_A_NAME.keys() == operations
    assert set(get_args(StoreOperation)) == operations


async def test_every_call_is_intercepted(store: Store, name: str) -> None:
    layer = RecordingLayer(store)
    for operation, call_all in WITHOUT_A_NAME.items():
        await call_all(layer)
        assert layer.recorded.pop() == (operation, None)
    for operation, call in WITH_A_NAME.items():
        await call(layer, name)
        assert layer.recorded.pop() == (operation, name)
    assert layer.recorded == []


@pytest.mark.parametrize("operation", WITH_A_NAME)
async def test_every_call_on_a_hidden_collection_is_rejected(
    store: Store, store_collection: str, operation: str
) -> None:
    with pytest.raises(Forbidden if operation == "create_collection" else CollectionNotFound):
        await WITH_A_NAME[operation](ScopedStore(store, NameScope(["another-*"])), store_collection)
    assert await store.count(store_collection) == 0


@pytest.mark.parametrize("operation", sorted((WITHOUT_A_NAME.keys() | WITH_A_NAME.keys()) - {"max_batch_size"}))
async def test_every_call_keeps_to_the_budget_of_the_request(
    store: Store, store_collection: str, operation: str
) -> None:
    deadline_store = DeadlineStore(store)

    async def request() -> None:
        set_deadline(-1.0)
        method = WITHOUT_A_NAME.get(operation) or (lambda store: WITH_A_NAME[operation](store, store_collection))
        with pytest.raises(ChromaTimeout):
            await method(deadline_store)

    await asyncio.create_task(request())
