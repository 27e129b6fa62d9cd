"""Queued writes keep their order and their limits, also when clients disconnect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstore.errors import ChromaFailed, DocumentsExist
from ragstore.kit.errors import Overloaded
from ragstore.model.documents import EVERYTHING, Write
from ragstore.store.batching.store import BatchingStore
from ragstore.store.protocol import Store
from tests.support.batching import assert_idle, batching_store, fail_batches, ids_in, write_in_flight
from tests.support.factories import add_documents, batch, make_query, of_ids, upsert_documents
from tests.support.spies import SpyStore, errors_as_types, submit_all, turn

pytestmark = pytest.mark.process


@pytest.fixture
async def store(inner: SpyStore) -> AsyncIterator[BatchingStore]:
    """A batching store, which is idle in the end."""
    store = batching_store(inner)
    yield store
    assert_idle(store)


# -- clients that disconnect --------------------------------------------------------------------


async def test_a_queued_write_whose_client_disconnects_is_dropped(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    async with write_in_flight(store, inner, store_collection):
        leaving = asyncio.create_task(add_documents(store, store_collection, batch("gone")))
        later = submit_all(add_documents(store, store_collection, batch("a")))
        await turn()
        leaving.cancel()
        await turn()
        assert store.queued == 1
        assert store.load.writes == 2
    assert await later == [None]
    assert [call.ids for call in inner.calls] == [["first"], ["a"]]
    assert await ids_in(store, store_collection) == ["first", "a"]


async def test_a_write_whose_client_disconnects_just_before_its_batch_is_sent_is_dropped(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    async with write_in_flight(store, inner, store_collection):
        leaving = asyncio.create_task(add_documents(store, store_collection, batch("gone")))
        await turn()
        leaving.cancel()
    assert len(inner.calls) == 1
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert await ids_in(store, store_collection) == ["first"]


async def test_a_client_that_disconnects_while_its_batch_is_in_flight_does_not_affect_the_others(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    inner.entry_gate.clear()
    first = submit_all(add_documents(store, store_collection, batch("first")))
    await inner.wait_for_calls(1)
    leaving = asyncio.create_task(add_documents(store, store_collection, batch("gone")))
    later = submit_all(*(add_documents(store, store_collection, batch(name)) for name in ("a", "first")))
    inner.release_waiting()
    await inner.wait_for_calls(2)
    assert inner.calls[1].ids == ["gone", "a", "first"]
    leaving.cancel()
    inner.entry_gate.set()
    assert errors_as_types([*await first, *await later]) == [None, None, DocumentsExist]
    assert await ids_in(store, store_collection) == ["first", "gone", "a"]


async def test_a_write_whose_client_disconnected_is_left_out_when_its_batch_is_sent_one_by_one(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    inner.failure = fail_batches
    inner.entry_gate.clear()
    first = submit_all(add_documents(store, store_collection, batch("first")))
    await inner.wait_for_calls(1)
    leaving = asyncio.create_task(add_documents(store, store_collection, batch("gone")))
    later = submit_all(*(add_documents(store, store_collection, batch(name)) for name in "ab"))
    inner.release_waiting()
    await inner.wait_for_calls(2)
    leaving.cancel()
    inner.entry_gate.set()
    assert [*await first, *await later] == [None, None, None]
    assert [call.ids for call in inner.calls[2:]] == [["a"], ["b"]]


async def test_a_write_in_flight_whose_client_disconnected_ends_before_the_next_one_starts(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    inner.entry_gate.clear()
    leaving = asyncio.create_task(add_documents(store, store_collection, batch("a")))
    await inner.wait_for_calls(1)
    leaving.cancel()
    later = submit_all(store.delete(store_collection, of_ids("a")))
    await turn()
    assert len(inner.calls) == 1
    inner.entry_gate.set()
    assert await later == [1]


async def test_closing_waits_for_queued_requests(inner: SpyStore, store_collection: str, bare: Store) -> None:
    store = batching_store(inner)
    inner.entry_gate.clear()
    clients = submit_all(
        *(add_documents(store, store_collection, batch(name)) for name in "ab"),
        store.query(store_collection, [make_query(1, 1)]),
    )
    await inner.wait_for_calls(2)
    closing = asyncio.create_task(store.close())
    await turn()
    assert not inner.closed
    inner.entry_gate.set()
    await closing
    assert inner.closed
    assert errors_as_types(await clients)[:2] == [None, None]
    assert await ids_in(bare, store_collection) == ["a", "b"]


async def test_closing_cancels_a_call_whose_clients_have_disconnected(
    inner: SpyStore, store_collection: str, bare: Store
) -> None:
    store = batching_store(inner)
    inner.entry_gate.clear()
    leaving = asyncio.create_task(add_documents(store, store_collection, batch("a")))
    await inner.wait_for_calls(1)
    leaving.cancel()
    await store.close()
    assert inner.closed
    assert await ids_in(bare, store_collection) == []


# -- order --------------------------------------------------------------------------------------

OPERATIONS = st.lists(st.tuples(st.sampled_from(("add", "upsert", "delete")), st.sampled_from("abc")), max_size=12)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(operations=OPERATIONS)
async def test_add_upsert_and_delete_never_overtake_one_another(bare: Store, operations: list[tuple[str, str]]) -> None:
    name = f"t-{uuid4().hex}"
    inner = SpyStore(bare)
    store = batching_store(inner)
    await store.create_collection(name, {}, "l2")
    expected: dict[str, str] = {"first": "text of first"}
    outcomes: list[object] = []
    calls: list[Coroutine[Any, Any, int | None]] = []
    for index, (operation, key) in enumerate(operations):
        if operation == "delete":
            calls.append(store.delete(name, of_ids(key)))
            outcomes.append(0 if expected.pop(key, None) is None else 1)
        elif operation == "upsert":
            calls.append(upsert_documents(store, name, batch(key, text=str(index))))
            expected[key] = str(index)
            outcomes.append(None)
        else:
            calls.append(add_documents(store, name, batch(key, text=str(index))))
            outcomes.append(DocumentsExist if key in expected else None)
            expected.setdefault(key, str(index))
    async with write_in_flight(store, inner, name):
        later = submit_all(*calls)
    assert errors_as_types(await later) == outcomes
    found = await store.get(name, EVERYTHING)
    assert dict(zip(found.ids, found.texts, strict=True)) == expected
    await store.delete_collection(name)


async def test_a_delete_is_a_batch_of_its_own_and_keeps_its_position(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    async with write_in_flight(store, inner, store_collection):
        later = submit_all(
            add_documents(store, store_collection, batch("a")),
            add_documents(store, store_collection, batch("b")),
            store.delete(store_collection, of_ids("a", "first")),
            add_documents(store, store_collection, batch("a")),
            add_documents(store, store_collection, batch("c")),
        )
    assert errors_as_types(await later) == [None, None, 2, None, None]
    assert [(call.kind, call.ids) for call in inner.calls[1:]] == [
        ("write", ["a", "b"]),
        ("delete", ["a first"]),
        ("write", ["a", "c"]),
    ]


async def test_a_write_precedes_a_delete_that_arrives_after_it(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    assert errors_as_types(
        await submit_all(
            add_documents(store, store_collection, batch("a")), store.delete(store_collection, of_ids("a"))
        ),
    ) == [None, 1]
    assert [call.kind for call in inner.calls] == ["write", "delete"]


async def test_the_order_of_one_clients_writes_is_kept(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    async def client(key: str) -> None:
        for index in range(5):
            await upsert_documents(store, store_collection, batch(key, text=f"{key} {index}"))

    await asyncio.gather(*(client(key) for key in "abc"))
    written = [part.batch for call in inner.calls for part in call.parts if isinstance(part, Write)]
    for key in "abc":
        assert [part.texts[0] for part in written if part.ids == [key]] == [f"{key} {index}" for index in range(5)]


async def test_a_client_reads_its_own_writes(store: BatchingStore, store_collection: str) -> None:
    async def client(key: str) -> None:
        await add_documents(store, store_collection, batch(key))
        assert await store.count(store_collection, of_ids(key)) == 1
        assert await store.delete(store_collection, of_ids(key)) == 1
        assert await store.count(store_collection, of_ids(key)) == 0

    await asyncio.gather(*(client(str(index)) for index in range(20)))


# -- limits -------------------------------------------------------------------------------------


async def test_writes_beyond_max_queued_writes_are_rejected_until_there_is_room(
    inner: SpyStore, store_collection: str
) -> None:
    store = batching_store(inner, max_queued_writes=3)
    async with write_in_flight(store, inner, store_collection):
        later = submit_all(
            add_documents(store, store_collection, batch("a")), store.delete(store_collection, of_ids("first"))
        )
        await turn()
        with pytest.raises(Overloaded):
            await add_documents(store, store_collection, batch("b"))
        with pytest.raises(Overloaded):
            await store.delete(store_collection, of_ids("a"))
        with pytest.raises(Overloaded):
            await add_documents(store, f"{store_collection}-other", batch("b"))
        assert (
            errors_as_types(await store.write(store_collection, [Write("add", batch(name)) for name in "bc"]))
            == [Overloaded] * 2
        )
    assert await later == [None, 1]
    await add_documents(store, store_collection, batch("b"))
    assert await ids_in(store, store_collection) == ["a", "b"]


async def test_writes_beyond_max_queued_bytes_are_rejected_until_there_is_room(
    inner: SpyStore, store_collection: str
) -> None:
    store = batching_store(inner, max_queued_bytes=300)
    async with write_in_flight(store, inner, store_collection):
        later = submit_all(*(add_documents(store, store_collection, batch(name, text="x" * 100)) for name in "ab"))
        await turn()
        with pytest.raises(Overloaded):
            await add_documents(store, store_collection, batch("c", text="x" * 100))
        small = submit_all(add_documents(store, store_collection, batch("small", text="x")))
        await turn()
    assert [*await later, *await small] == [None, None, None]
    await add_documents(store, store_collection, batch("c", text="x" * 100))
    assert await ids_in(store, store_collection) == ["first", "a", "b", "small", "c"]


async def test_a_write_larger_than_max_queued_bytes_is_accepted_when_nothing_is_queued(
    inner: SpyStore, store_collection: str
) -> None:
    store = batching_store(inner, max_queued_bytes=50)
    await add_documents(store, store_collection, batch("a", text="x" * 100))
    assert await ids_in(store, store_collection) == ["a"]


async def test_a_client_that_disconnects_makes_room(inner: SpyStore, store_collection: str) -> None:
    store = batching_store(inner, max_queued_writes=2)
    async with write_in_flight(store, inner, store_collection):
        leaving = asyncio.create_task(add_documents(store, store_collection, batch("gone")))
        await turn()
        leaving.cancel()
        await turn()
        later = submit_all(add_documents(store, store_collection, batch("a")))
    assert await later == [None]


async def test_writes_that_failed_make_room(inner: SpyStore, store_collection: str) -> None:
    store = batching_store(inner, max_queued_writes=1)
    for error in (ChromaFailed("Chroma failed"), ValueError("a defect")):
        inner.failure = lambda call, error=error: error  # type: ignore[misc]  # bound now, not later
        with pytest.raises(type(error)):
            await add_documents(store, store_collection, batch("a"))
    inner.failure = lambda call: None
    await add_documents(store, store_collection, batch("a"))
