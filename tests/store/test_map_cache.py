"""Maps are made one at a time, and cached until their collection changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from prometheus_client import CollectorRegistry, Counter

from ragstore.chroma import mapping
from ragstore.errors import ChromaFailed, CollectionNotFound
from ragstore.kit.byte_budget import ByteBudget, Share, request_shares
from ragstore.kit.errors import Overloaded
from ragstore.model.documents import EVERYTHING
from ragstore.model.filters.condition import Condition
from ragstore.model.maps import CollectionMap, MapParameters
from ragstore.store import map_cache
from ragstore.store.layer import StoreLayer
from ragstore.store.map_cache import MAX_AGE_SECONDS, MAX_AGE_SHARED_SECONDS, MapCacheStore, Maps
from ragstore.store.name_scope import NameScope
from ragstore.store.protocol import Store
from ragstore.store.scope import ScopedStore
from tests.support.clock import Clock
from tests.support.factories import add_documents, batch, of_ids, upsert_documents
from tests.support.spies import SpyStore

pytestmark = pytest.mark.process

ALL = MapParameters(2000)


class CountingMaps(StoreLayer):
    """Counts the maps that are made, and holds them back while its gate is closed."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.made = 0
        self.started = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def map_collection(self, name: str, parameters: MapParameters) -> CollectionMap:
        self.made += 1
        self.started.set()
        found = await super().map_collection(name, parameters)
        await self.gate.wait()
        return found


@pytest.fixture
def counting(inner: SpyStore) -> CountingMaps:
    """The innermost store."""
    return CountingMaps(inner)


@pytest.fixture
async def mapped(bare: Store) -> AsyncIterator[str]:
    """Three documents."""
    name = f"t-{uuid4().hex}"
    await bare.create_collection(name, {}, "l2")
    await add_documents(bare, name, batch("a", "b", "c"))
    yield name
    await bare.delete_collection(name)


def cached(inner: Store, clock: Clock | None = None, *, is_exclusive: bool = True, maps: Maps | None = None) -> Store:
    return MapCacheStore(inner, maps or Maps(), is_exclusive=is_exclusive, clock=clock or Clock())


async def test_a_map_is_made_once_for_each_request(counting: CountingMaps, mapped: str) -> None:
    store = cached(counting)
    requests = [
        ALL,
        MapParameters(2),
        MapParameters(2000, Condition.parse({"n": {"$ne": 1}})),
        MapParameters(2000, Condition.parse({"n": {"$ne": 2}})),
        MapParameters(2000, color="n"),
    ]
    first = [await store.map_collection(mapped, request) for request in requests]
    again = [await store.map_collection(mapped, request) for request in requests]

    assert all(one is other for one, other in zip(first, again, strict=True))
    assert counting.made == len(requests)


async def test_each_change_ends_a_map(counting: CountingMaps, mapped: str) -> None:
    store = cached(counting)
    assert (await store.map_collection(mapped, ALL)).ids == ["a", "b", "c"]

    await add_documents(store, mapped, batch("d"))
    assert (await store.map_collection(mapped, ALL)).ids == ["a", "b", "c", "d"]

    before = (await store.map_collection(mapped, ALL)).x
    await upsert_documents(store, mapped, batch("x", "y", "a"))
    assert (await store.map_collection(mapped, ALL)).x != before

    await store.delete(mapped, of_ids("x", "y"))
    assert (await store.map_collection(mapped, ALL)).ids == ["a", "b", "c", "d"]
    assert counting.made == 4


async def test_a_map_beside_which_the_collection_changed_is_not_cached(counting: CountingMaps, mapped: str) -> None:
    store = cached(counting)
    counting.gate.clear()
    making = asyncio.create_task(store.map_collection(mapped, ALL))
    await counting.started.wait()
    await add_documents(store, mapped, batch("d"))
    counting.gate.set()
    await making

    assert (await store.map_collection(mapped, ALL)).ids == ["a", "b", "c", "d"]


async def test_no_map_is_cached_after_a_change_that_failed(
    inner: SpyStore, counting: CountingMaps, mapped: str
) -> None:
    store = cached(counting)
    inner.failure = lambda call: ChromaFailed("failed")
    with pytest.raises(ChromaFailed):
        await store.delete(mapped, EVERYTHING)
    inner.failure = lambda call: None

    for _ in range(2):
        await store.map_collection(mapped, ALL)

    assert counting.made == 2


@pytest.mark.parametrize(("is_exclusive", "seconds"), [(True, MAX_AGE_SECONDS), (False, MAX_AGE_SHARED_SECONDS)])
async def test_a_map_is_used_for_a_time(
    counting: CountingMaps, mapped: str, is_exclusive: bool, seconds: float
) -> None:
    clock = Clock()
    store = cached(counting, clock, is_exclusive=is_exclusive)
    await store.map_collection(mapped, ALL)
    clock.now = seconds
    await store.map_collection(mapped, ALL)
    assert counting.made == 1

    clock.now = seconds + 1
    await store.map_collection(mapped, ALL)
    assert counting.made == 2


async def test_a_second_map_is_rejected_while_one_is_made_also_in_another_database(
    counting: CountingMaps, mapped: str
) -> None:
    maps = Maps()
    store, other = cached(counting, maps=maps), cached(counting, maps=maps)
    counting.gate.clear()
    making = asyncio.create_task(store.map_collection(mapped, ALL))
    await counting.started.wait()

    with pytest.raises(Overloaded) as raised:
        await other.map_collection(mapped, MapParameters(1))
    assert raised.value.headers == {"Retry-After": "1"}

    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    counting.gate.set()
    assert (await other.map_collection(mapped, MapParameters(1))).ids == ["b"]


async def test_a_cached_map_is_hidden_with_its_collection(counting: CountingMaps, mapped: str) -> None:
    store = cached(counting)
    await store.map_collection(mapped, ALL)

    with pytest.raises(CollectionNotFound):
        await ScopedStore(store, NameScope(["another-*"])).map_collection(mapped, ALL)


async def test_a_collection_that_another_client_created_again_has_another_map(
    counting: CountingMaps, mapped: str
) -> None:
    store = cached(counting, is_exclusive=False)
    await store.map_collection(mapped, ALL)
    await counting.inner.delete_collection(mapped)
    with pytest.raises(CollectionNotFound):
        await store.map_collection(mapped, ALL)
    await counting.inner.create_collection(mapped, {}, "l2")

    assert (await store.map_collection(mapped, ALL)).ids == []


async def test_cached_maps_have_a_maximum_size(
    counting: CountingMaps, mapped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps = Maps()
    store = cached(counting, maps=maps)
    size = (await store.map_collection(mapped, ALL)).size
    monkeypatch.setattr(map_cache, "MAX_BYTES", 2 * size)
    for points in (2001, 2002, 2000):
        await store.map_collection(mapped, MapParameters(points))
        assert maps.size <= 2 * size
    assert counting.made == 4

    monkeypatch.setattr(map_cache, "MAX_BYTES", size - 1)
    await store.map_collection(mapped, MapParameters(2003))
    assert maps.size <= 2 * size
    await store.map_collection(mapped, MapParameters(2003))
    assert counting.made == 6


async def test_fewer_points_are_taken_of_long_embeddings(
    store: Store, store_collection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapping, "MAX_NUMBERS", 850)
    await add_documents(store, store_collection, batch(*map(str, range(50)), dimension=20))

    found = await store.map_collection(store_collection, ALL)

    assert len(found.ids) == 850 // 20
    assert found.total == 50


async def test_a_map_waits_for_room_for_its_embeddings(store: Store, store_collection: str) -> None:
    await add_documents(store, store_collection, batch(*map(str, range(500)), dimension=50))
    budget = ByteBudget(10**6, 0.1, Counter("refusals", "Test.", ["reason"], registry=CollectorRegistry()))
    holder = Share()
    await budget.take(holder, 900_000)
    with request_shares(budget, Share(), Share()):
        with pytest.raises(Overloaded, match="bytes"):
            await store.map_collection(store_collection, ALL)
        budget.release(holder)
        assert len((await store.map_collection(store_collection, ALL)).ids) == 500
        # All of it is given back.
        await budget.take(Share(), 10**6)
