"""Stores that wrap stores: what a store means for all calls holds for each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar, get_args

import pytest

from ragstore.errors import ChromaTimeout, CollectionNotFound
from ragstore.kit.context import set_deadline
from ragstore.kit.errors import Forbidden
from ragstore.model.documents import EVERYTHING, Write
from ragstore.store.deadline import DeadlineStore
from ragstore.store.layer import StoreLayer, StoreOperation
from ragstore.store.protocol import Store
from ragstore.store.scope import ScopedStore
from tests.support.factories import asked, batch

T = TypeVar("T")

ABOUT_ALL: dict[str, Callable[[Store], Awaitable[object]]] = {
    "status": lambda store: store.status(),
    "list_collections": lambda store: store.list_collections(None, 0),
    "count_collections": lambda store: store.count_collections(),
}

ABOUT_ONE: dict[str, Callable[[Store, str], Awaitable[object]]] = {
    "create_collection": lambda store, name: store.create_collection(name, {}, "l2"),
    "get_collection": lambda store, name: store.get_collection(name),
    "update_metadata": lambda store, name: store.update_metadata(name, {}, merge=True),
    "write": lambda store, name: store.write(name, [Write("upsert", batch("a"))]),
    "get": lambda store, name: store.get(name, EVERYTHING),
    "get_ids": lambda store, name: store.get_ids(name, EVERYTHING),
    "get_metadatas": lambda store, name: store.get_metadatas(name, EVERYTHING, limit=1, offset=0),
    "count": lambda store, name: store.count(name),
    "query": lambda store, name: store.query(name, [asked(1, 2)]),
    "delete": lambda store, name: store.delete(name, EVERYTHING),
    "delete_collection": lambda store, name: store.delete_collection(name),
}


class Noting(StoreLayer):
    """Notes the operations that go through, with the names of their collections."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.noted: list[tuple[str, str | None]] = []

    async def _through(self, operation: StoreOperation, name: str | None, call: Callable[[], Awaitable[T]]) -> T:
        self.noted.append((operation, name))
        return await call()


def test_every_operation_of_a_store_is_called_here() -> None:
    operations = {name for name in vars(Store) if not name.startswith("_")} - {"start", "close"}
    assert ABOUT_ALL.keys() | ABOUT_ONE.keys() == operations
    assert set(get_args(StoreOperation)) == operations


async def test_every_call_goes_through_the_one_place(store: Store, name: str) -> None:
    noting = Noting(store)
    for operation, ask in ABOUT_ALL.items():
        await ask(noting)
        assert noting.noted.pop() == (operation, None)
    for operation, call in ABOUT_ONE.items():
        await call(noting, name)
        assert noting.noted.pop() == ("write" if operation in ("add", "upsert") else operation, name)
    assert noting.noted == []


@pytest.mark.parametrize("operation", ABOUT_ONE)
async def test_every_call_on_a_hidden_collection_finds_none(store: Store, collection: str, operation: str) -> None:
    with pytest.raises(Forbidden if operation == "create_collection" else CollectionNotFound):
        await ABOUT_ONE[operation](ScopedStore(store, ["another-*"]), collection)
    assert await store.count(collection) == 0


@pytest.mark.parametrize("operation", [*ABOUT_ALL, *ABOUT_ONE])
async def test_every_call_keeps_to_the_budget(store: Store, collection: str, operation: str) -> None:
    late = DeadlineStore(store)

    async def request() -> None:
        set_deadline(-1.0)
        with pytest.raises(ChromaTimeout):
            await (ABOUT_ALL[operation](late) if operation in ABOUT_ALL else ABOUT_ONE[operation](late, collection))

    await asyncio.create_task(request())
