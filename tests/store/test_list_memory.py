"""The matches of a filter are remembered until their collection changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from ragstore.errors import ChromaTimeout
from ragstore.model.documents import EVERYTHING, Selection
from ragstore.store import list_memory
from ragstore.store.layer import StoreLayer
from ragstore.store.list_memory import ListMemory
from ragstore.store.protocol import Store
from tests.support.factories import add_documents, batch_of, of_ids, of_where, upsert_documents
from tests.support.spies import SpyStore

FEW = of_where({"few": True})


class CountingStore(StoreLayer):
    """Counts the lists of ids that are read."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.lists = 0
        self.started = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def get_ids(self, name: str, selection: Selection) -> list[str]:
        self.lists += 1
        self.started.set()
        found = await super().get_ids(name, selection)
        await self.gate.wait()
        return found


@pytest.fixture
def counting(inner: SpyStore) -> CountingStore:
    """The innermost store."""
    return CountingStore(inner)


@pytest.fixture
async def points(bare: Store) -> AsyncIterator[str]:
    """100 documents, of which every tenth is one of few."""
    name = f"t-{uuid4().hex}"
    await bare.create_collection(name, {}, "l2")
    await add_documents(bare, name, batch_of([{"few": n % 10 == 0} for n in range(100)]))
    yield name
    await bare.delete_collection(name)


async def test_a_list_is_read_once_until_its_collection_changes(counting: CountingStore, points: str) -> None:
    store = ListMemory(counting, is_exclusive=True)
    for _ in range(3):
        assert await store.count(points, FEW) == 10
        assert await store.get_ids(points, FEW) == [str(n) for n in range(0, 100, 10)]
    assert counting.lists == 1
    await store.delete(points, of_ids("0"))
    assert await store.count(points, FEW) == 9
    await upsert_documents(store, points, batch_of([{"few": True}]))
    assert await store.count(points, FEW) == 10
    assert counting.lists == 3


async def test_lists_of_other_filters_and_collections_are_apart(counting: CountingStore, points: str) -> None:
    store = ListMemory(counting, is_exclusive=True)
    assert await store.count(points, FEW) == 10
    assert await store.count(points, of_where({"few": False})) == 90
    assert await store.count(points) == 100
    assert await store.count(points, of_ids("1", "none")) == 1
    other = f"{points}-other"
    await store.create_collection(other, {}, "l2")
    assert await store.count(other, FEW) == 0
    await store.delete_collection(other)
    assert await store.count(points, FEW) == 10


async def test_a_list_that_was_read_beside_a_change_is_not_kept(counting: CountingStore, points: str) -> None:
    store = ListMemory(counting, is_exclusive=True)
    counting.gate.clear()
    reading = asyncio.create_task(store.count(points, FEW))
    await counting.started.wait()
    await store.delete(points, of_ids("0"))
    counting.gate.set()
    await reading
    assert store.remembered == 0
    assert await store.count(points, FEW) == 9


async def test_nothing_is_remembered_after_a_change_that_failed(
    counting: CountingStore, inner: SpyStore, points: str
) -> None:
    """It may still be applied."""
    store = ListMemory(counting, is_exclusive=True)
    inner.failure = lambda call: ChromaTimeout("too slow") if call.kind == "delete" else None
    with pytest.raises(ChromaTimeout):
        await store.delete(points, of_ids("0"))
    inner.failure = lambda call: None
    for _ in range(2):
        assert await store.count(points, FEW) == 10
    assert counting.lists == 2


async def test_with_other_clients_only_later_pages_recall_a_list_for_a_time(
    counting: CountingStore, bare: Store, points: str
) -> None:
    now = [0.0]
    store = ListMemory(counting, is_exclusive=False, clock=lambda: now[0])
    assert await store.count(points, FEW) == 10
    assert await store.count(points, FEW) == 10
    assert counting.lists == 2
    await store.get_ids(points, FEW)
    assert counting.lists == 2
    await bare.delete(points, of_ids("1"))  # another client, without this store
    assert len(await store.get_ids(points, FEW)) == 10
    assert counting.lists == 3
    now[0] += list_memory.MAX_AGE_SECONDS + 1
    await store.get_ids(points, FEW)
    assert counting.lists == 4


async def test_the_memory_is_bounded(counting: CountingStore, points: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_memory, "MAX_IDS", 150)
    store = ListMemory(counting, is_exclusive=True)
    await store.get_ids(points, EVERYTHING)
    assert store.remembered == 100
    await store.get_ids(points, of_where({"few": False}))
    assert store.remembered == 90
