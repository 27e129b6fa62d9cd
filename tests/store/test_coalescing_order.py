"""Writes that wait keep their order and their bounds, whoever of their callers leaves."""

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
from tests.support.batching import assert_empty, coalescing, ids_in, of_several, under_way
from tests.support.factories import add_documents, asked, batch, of_ids, upsert_documents
from tests.support.spies import Recording, kinds, together, turn


@pytest.fixture
async def store(inner: Recording) -> AsyncIterator[BatchingStore]:
    """A coalescing store, which is empty in the end."""
    store = coalescing(inner)
    yield store
    assert_empty(store)


# -- callers who leave --------------------------------------------------------------------------


async def test_a_caller_who_left_before_its_turn_is_not_written_and_not_kept(
    store: BatchingStore, inner: Recording, collection: str
) -> None:
    async with under_way(store, inner, collection):
        leaving = asyncio.create_task(add_documents(store, collection, batch("gone")))
        later = together(add_documents(store, collection, batch("a")))
        await turn()
        leaving.cancel()
        await turn()
        assert [waiter.count for waiter in store._change_lines[collection]._waiting] == [1]
        assert store._writes == 2
    assert await later == [None]
    assert [call.ids for call in inner.calls] == [["first"], ["a"]]
    assert await ids_in(store, collection) == ["first", "a"]


async def test_a_caller_who_leaves_just_before_its_turn_is_not_written(
    store: BatchingStore, inner: Recording, collection: str
) -> None:
    async with under_way(store, inner, collection):
        leaving = asyncio.create_task(add_documents(store, collection, batch("gone")))
        await turn()
        leaving.cancel()
    assert len(inner.calls) == 1
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert await ids_in(store, collection) == ["first"]


async def test_a_caller_who_left_during_its_turn_disturbs_nobody(
    store: BatchingStore, inner: Recording, collection: str
) -> None:
    inner.before.clear()
    first = together(add_documents(store, collection, batch("first")))
    await inner.asked(1)
    leaving = asyncio.create_task(add_documents(store, collection, batch("gone")))
    later = together(*(add_documents(store, collection, batch(name)) for name in ("a", "first")))
    inner.let_go()
    await inner.asked(2)
    assert inner.calls[1].ids == ["gone", "a", "first"]
    leaving.cancel()
    inner.before.set()
    assert kinds([*await first, *await later]) == [None, None, DocumentsExist]
    assert await ids_in(store, collection) == ["first", "gone", "a"]


async def test_a_caller_who_left_is_not_tried_apart(store: BatchingStore, inner: Recording, collection: str) -> None:
    inner.failure = of_several
    inner.before.clear()
    first = together(add_documents(store, collection, batch("first")))
    await inner.asked(1)
    leaving = asyncio.create_task(add_documents(store, collection, batch("gone")))
    later = together(*(add_documents(store, collection, batch(name)) for name in "ab"))
    inner.let_go()
    await inner.asked(2)
    leaving.cancel()
    inner.before.set()
    assert [*await first, *await later] == [None, None, None]
    assert [call.ids for call in inner.calls[2:]] == [["a"], ["b"]]


async def test_a_write_whose_only_caller_left_ends_before_the_next_begins(
    store: BatchingStore, inner: Recording, collection: str
) -> None:
    inner.before.clear()
    leaving = asyncio.create_task(add_documents(store, collection, batch("a")))
    await inner.asked(1)
    leaving.cancel()
    later = together(store.delete(collection, of_ids("a")))
    await turn()
    assert len(inner.calls) == 1
    inner.before.set()
    assert await later == [1]


async def test_closing_serves_those_who_wait(inner: Recording, collection: str, bare: Store) -> None:
    store = coalescing(inner)
    inner.before.clear()
    callers = together(
        *(add_documents(store, collection, batch(name)) for name in "ab"),
        store.query(collection, [asked(1, 1)]),
    )
    await inner.asked(2)
    closing = asyncio.create_task(store.close())
    await turn()
    assert not inner.closed
    inner.before.set()
    await closing
    assert inner.closed
    assert kinds(await callers)[:2] == [None, None]
    assert await ids_in(bare, collection) == ["a", "b"]


async def test_closing_gives_up_a_call_that_nobody_waits_for(inner: Recording, collection: str, bare: Store) -> None:
    store = coalescing(inner)
    inner.before.clear()
    leaving = asyncio.create_task(add_documents(store, collection, batch("a")))
    await inner.asked(1)
    leaving.cancel()
    await store.close()
    assert inner.closed
    assert await ids_in(bare, collection) == []


# -- order --------------------------------------------------------------------------------------

OPERATIONS = st.lists(st.tuples(st.sampled_from(("add", "upsert", "delete")), st.sampled_from("abc")), max_size=12)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(operations=OPERATIONS)
async def test_add_upsert_and_delete_never_overtake_one_another(bare: Store, operations: list[tuple[str, str]]) -> None:
    name = f"t-{uuid4().hex}"
    inner = Recording(bare)
    store = coalescing(inner)
    await store.create_collection(name, {}, "l2")
    expected: dict[str, str] = {"first": "text of first"}
    outcomes: list[object] = []
    calls: list[Coroutine[Any, Any, int | None]] = []
    for place, (operation, key) in enumerate(operations):
        if operation == "delete":
            calls.append(store.delete(name, of_ids(key)))
            outcomes.append(0 if expected.pop(key, None) is None else 1)
        elif operation == "upsert":
            calls.append(upsert_documents(store, name, batch(key, text=str(place))))
            expected[key] = str(place)
            outcomes.append(None)
        else:
            calls.append(add_documents(store, name, batch(key, text=str(place))))
            outcomes.append(DocumentsExist if key in expected else None)
            expected.setdefault(key, str(place))
    async with under_way(store, inner, name):
        later = together(*calls)
    assert kinds(await later) == outcomes
    found = await store.get(name, EVERYTHING)
    assert dict(zip(found.ids, found.texts, strict=True)) == expected
    await store.delete_collection(name)


async def test_a_delete_leaves_alone_and_in_its_place(store: BatchingStore, inner: Recording, collection: str) -> None:
    async with under_way(store, inner, collection):
        later = together(
            add_documents(store, collection, batch("a")),
            add_documents(store, collection, batch("b")),
            store.delete(collection, of_ids("a", "first")),
            add_documents(store, collection, batch("a")),
            add_documents(store, collection, batch("c")),
        )
    assert kinds(await later) == [None, None, 2, None, None]
    assert [(call.kind, call.ids) for call in inner.calls[1:]] == [
        ("write", ["a", "b"]),
        ("delete", ["a first"]),
        ("write", ["a", "c"]),
    ]


async def test_a_write_keeps_its_place_before_a_delete_that_is_asked_after_it(
    store: BatchingStore, inner: Recording, collection: str
) -> None:
    assert kinds(
        await together(add_documents(store, collection, batch("a")), store.delete(collection, of_ids("a"))),
    ) == [None, 1]
    assert [call.kind for call in inner.calls] == ["write", "delete"]


async def test_the_order_of_one_caller_is_kept(store: BatchingStore, inner: Recording, collection: str) -> None:
    async def caller(key: str) -> None:
        for place in range(5):
            await upsert_documents(store, collection, batch(key, text=f"{key} {place}"))

    await asyncio.gather(*(caller(key) for key in "abc"))
    written = [part.batch for call in inner.calls for part in call.parts if isinstance(part, Write)]
    for key in "abc":
        assert [part.texts[0] for part in written if part.ids == [key]] == [f"{key} {place}" for place in range(5)]


async def test_a_caller_reads_what_it_was_told_is_written(store: BatchingStore, collection: str) -> None:
    async def caller(key: str) -> None:
        await add_documents(store, collection, batch(key))
        assert await store.count(collection, of_ids(key)) == 1
        assert await store.delete(collection, of_ids(key)) == 1
        assert await store.count(collection, of_ids(key)) == 0

    await asyncio.gather(*(caller(str(place)) for place in range(20)))


# -- bounds -------------------------------------------------------------------------------------


async def test_more_writes_than_may_wait_are_refused_at_once_until_there_is_room(
    inner: Recording, collection: str
) -> None:
    store = coalescing(inner, queued_writes=3)
    async with under_way(store, inner, collection):
        later = together(add_documents(store, collection, batch("a")), store.delete(collection, of_ids("first")))
        await turn()
        with pytest.raises(Overloaded):
            await add_documents(store, collection, batch("b"))
        with pytest.raises(Overloaded):
            await store.delete(collection, of_ids("a"))
        with pytest.raises(Overloaded):
            await add_documents(store, f"{collection}-other", batch("b"))
        assert kinds(await store.write(collection, [Write("add", batch(name)) for name in "bc"])) == [Overloaded] * 2
    assert await later == [None, 1]
    await add_documents(store, collection, batch("b"))
    assert await ids_in(store, collection) == ["a", "b"]


async def test_more_bytes_than_may_wait_are_refused_at_once_until_there_is_room(
    inner: Recording, collection: str
) -> None:
    store = coalescing(inner, queued_bytes=300)
    async with under_way(store, inner, collection):
        later = together(*(add_documents(store, collection, batch(name, text="x" * 100)) for name in "ab"))
        await turn()
        with pytest.raises(Overloaded):
            await add_documents(store, collection, batch("c", text="x" * 100))
        small = together(add_documents(store, collection, batch("small", text="x")))
        await turn()
    assert [*await later, *await small] == [None, None, None]
    await add_documents(store, collection, batch("c", text="x" * 100))
    assert await ids_in(store, collection) == ["first", "a", "b", "small", "c"]


async def test_a_write_larger_than_what_may_wait_is_taken_when_nothing_waits(inner: Recording, collection: str) -> None:
    store = coalescing(inner, queued_bytes=50)
    await add_documents(store, collection, batch("a", text="x" * 100))
    assert await ids_in(store, collection) == ["a"]


async def test_a_caller_who_left_makes_room(inner: Recording, collection: str) -> None:
    store = coalescing(inner, queued_writes=2)
    async with under_way(store, inner, collection):
        leaving = asyncio.create_task(add_documents(store, collection, batch("gone")))
        await turn()
        leaving.cancel()
        await turn()
        later = together(add_documents(store, collection, batch("a")))
    assert await later == [None]


async def test_writes_that_failed_make_room(inner: Recording, collection: str) -> None:
    store = coalescing(inner, queued_writes=1)
    for error in (ChromaFailed("Chroma failed"), ValueError("a defect")):
        inner.failure = lambda call, error=error: error  # type: ignore[misc]  # bound now, not later
        with pytest.raises(type(error)):
            await add_documents(store, collection, batch("a"))
    inner.failure = lambda call: None
    await add_documents(store, collection, batch("a"))
