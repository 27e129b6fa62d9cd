"""Writes that wait at the same time leave as one, and nobody can tell but by how long it takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Literal
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstore.errors import (
    ChromaFailed,
    ChromaTimeout,
    ChromaUnavailable,
    CollectionNotFound,
    DimensionMismatch,
    DocumentsExist,
    InvalidDocuments,
    Overloaded,
    RagstoreError,
)
from ragstore.store.base import EVERYTHING, Store, Write
from ragstore.store.coalescing import CoalescingStore
from ragstore.store.lines import MERGED_BYTES
from store.making import asked, batch, of_ids, rows
from store.recording import Call, Recording, kinds, together, turn

MAX_BATCH_SIZE = 20


@pytest.fixture
def inner(bare: Store) -> Recording:
    """What the coalescing store asks."""
    return Recording(bare)


def coalescing(inner: Recording, queued_writes: int = 1000, queued_bytes: int = 2**28) -> CoalescingStore:
    return CoalescingStore(inner, MAX_BATCH_SIZE, queued_writes, queued_bytes)


@pytest.fixture
async def store(inner: Recording) -> AsyncIterator[CoalescingStore]:
    """A coalescing store, which keeps nothing of a line that ended."""
    store = coalescing(inner)
    yield store
    assert not store._change_lines
    assert not store._query_lines
    assert (store._writes, store._bytes) == (0, 0)


@asynccontextmanager
async def under_way(store: Store, inner: Recording, collection: str) -> AsyncIterator[None]:
    """A write of the document `first` is under way as long as the block lasts."""
    inner.before.clear()
    first = asyncio.create_task(store.upsert(collection, batch("first")))
    await inner.asked(1)
    yield
    inner.before.set()
    await first


def _of_several(call: Call) -> BaseException | None:
    return ChromaFailed("Chroma failed") if len(call.parts) > 1 else None


async def _ids(store: Store, collection: str) -> list[str]:
    return (await store.get(collection, EVERYTHING)).ids


# -- who leaves with whom -----------------------------------------------------------------------


async def test_a_lone_write_leaves_at_once_and_alone(store: CoalescingStore, inner: Recording, collection: str) -> None:
    for name in "abc":
        await store.add(collection, batch(name))
    assert [call.ids for call in inner.calls] == [["a"], ["b"], ["c"]]


async def test_a_write_that_nothing_is_ahead_of_does_not_wait_for_those_behind_it(
    store: CoalescingStore, inner: Recording, collection: str
) -> None:
    async with under_way(store, inner, collection):
        later = together(store.add(collection, batch("a")))
        await turn()
        assert [call.ids for call in inner.calls] == [["first"]]
    await later


async def test_writes_that_arrive_while_one_is_under_way_leave_together(
    store: CoalescingStore, inner: Recording, collection: str
) -> None:
    async with under_way(store, inner, collection):
        later = together(
            store.add(collection, batch("a", "b")),
            store.add(collection, batch("c")),
            store.add(collection, batch("d")),
        )
    assert await later == [None, None, None]
    assert [call.ids for call in inner.calls] == [["first"], ["a b", "c", "d"]]
    assert await _ids(store, collection) == ["first", "a", "b", "c", "d"]


async def test_adds_and_upserts_leave_apart_in_their_order(
    store: CoalescingStore, inner: Recording, collection: str
) -> None:
    async with under_way(store, inner, collection):
        later = together(
            store.add(collection, batch("a")),
            store.upsert(collection, batch("b")),
            store.upsert(collection, batch("c")),
            store.add(collection, batch("d")),
        )
    assert await later == [None, None, None, None]
    assert [call.ids for call in inner.calls] == [["first"], ["a"], ["b", "c"], ["d"]]


async def test_an_add_is_not_tried_again_because_an_upsert_behind_it_fails(
    store: CoalescingStore, inner: Recording, collection: str
) -> None:
    inner.failure = lambda call: ChromaFailed("no room") if call.ids == ["b"] else None
    async with under_way(store, inner, collection):
        later = together(store.add(collection, batch("a")), store.upsert(collection, batch("b")))
    assert kinds(await later) == [None, ChromaFailed]


async def test_what_leaves_together_has_at_most_as_many_documents_as_one_write(
    store: CoalescingStore, inner: Recording, collection: str
) -> None:
    batches = [batch(*(f"{place}-{row}" for row in range(size))) for place, size in enumerate((9, 11, 1, 19, 20, 2))]
    async with under_way(store, inner, collection):
        later = together(*(store.add(collection, documents) for documents in batches))
    assert kinds(await later) == [None] * 6
    assert [[len(ids.split()) for ids in call.ids] for call in inner.calls[1:]] == [[9, 11], [1, 19], [20], [2]]


async def test_what_leaves_together_has_a_bound_in_bytes(
    store: CoalescingStore, inner: Recording, collection: str
) -> None:
    inner.failure = lambda call: ChromaUnavailable("Nothing of this size need be stored") if call.ids != ["z"] else None
    texts = ["x" * (MERGED_BYTES * 2 // 5)] * 3 + ["x" * (MERGED_BYTES + 1), "small"]
    inner.before.clear()
    first = together(store.add(collection, batch("z")))
    await inner.asked(1)
    later = together(*(store.add(collection, batch(str(place), text=text)) for place, text in enumerate(texts)))
    inner.before.set()
    await first
    assert kinds(await later) == [ChromaUnavailable] * 5
    assert [call.ids for call in inner.calls[1:]] == [["0", "1"], ["2"], ["3"], ["4"]]


async def test_a_batch_too_large_for_one_write_is_refused_and_its_neighbours_are_not(
    store: CoalescingStore, bare: Store, collection: str
) -> None:
    large = batch(*(str(place) for place in range(1001)))
    answers = await together(
        store.add(collection, batch("a")), store.add(collection, large), store.add(collection, batch("b"))
    )
    assert kinds(answers) == [None, InvalidDocuments, None]
    assert await _ids(bare, collection) == ["a", "b"]


async def test_collections_do_not_wait_for_each_other(
    store: CoalescingStore, inner: Recording, collection: str
) -> None:
    names = [f"{collection}-{place}" for place in range(5)]
    for name in names:
        await store.create_collection(name, {}, "l2")
    async with under_way(store, inner, collection):
        others = together(*(store.add(name, batch("a")) for name in names))
        await inner.asked(6)
        assert [call.name for call in inner.calls] == [collection, *names]
    await others
    for name in names:
        assert await _ids(store, name) == ["a"]
        await store.delete_collection(name)


# -- what each is told --------------------------------------------------------------------------


async def test_each_caller_is_told_its_own_error_and_the_others_are_written(
    store: CoalescingStore, inner: Recording, collection: str
) -> None:
    async with under_way(store, inner, collection):
        later = together(
            store.add(collection, batch("a")),
            store.add(collection, batch("new", "first")),
            store.add(collection, batch("b", dimension=3)),
            store.upsert(collection, batch("first", text="again")),
            store.add(collection, batch("a")),
            store.add(collection, batch("c")),
        )
    assert kinds(answers := await later) == [None, DocumentsExist, DimensionMismatch, None, DocumentsExist, None]
    assert [answers[place].ids for place in (1, 4)] == [("first",), ("a",)]  # type: ignore[union-attr]
    assert [call.ids for call in inner.calls] == [["first"], ["a", "new first", "b"], ["first"], ["a", "c"]]
    assert rows(await store.get(collection, EVERYTHING)) == [
        ("first", "again", {}),
        ("a", "text of a", {}),
        ("c", "text of c", {}),
    ]


async def test_success_is_told_only_after_the_inner_store_told_it(
    store: CoalescingStore, inner: Recording, collection: str
) -> None:
    inner.after.clear()
    first = asyncio.create_task(store.add(collection, batch("first")))
    await inner.asked(1)
    later = [asyncio.create_task(store.add(collection, batch(name))) for name in "ab"]
    while not await store.count(collection):  # it is written, and not yet told
        assert not first.done()
    inner.after.set()
    inner.before.clear()
    await first
    await inner.asked(2)
    assert not any(task.done() for task in later)
    inner.before.set()
    await asyncio.gather(*later)


async def test_when_what_left_together_fails_its_parts_are_tried_apart(
    store: CoalescingStore, inner: Recording, collection: str
) -> None:
    inner.failure = _of_several
    async with under_way(store, inner, collection):
        later = together(*(store.add(collection, batch(name)) for name in ("a", "first", "b")))
    assert kinds(await later) == [None, DocumentsExist, None]
    assert [call.ids for call in inner.calls] == [["first"], ["a", "first", "b"], ["a"], ["first"], ["b"]]
    assert await _ids(store, collection) == ["first", "a", "b"]


@pytest.mark.parametrize("error", [ChromaFailed("Chroma failed"), ValueError("a defect")], ids=repr)
async def test_nobody_pays_for_a_neighbour_who_cannot_be_written(
    store: CoalescingStore, inner: Recording, collection: str, error: Exception
) -> None:
    inner.failure = lambda call: error if "bad" in call.ids else None
    async with under_way(store, inner, collection):
        later = together(*(store.add(collection, batch(name)) for name in ("a", "bad", "b")))
    assert kinds(await later) == [None, type(error), None]
    assert await _ids(store, collection) == ["first", "a", "b"]


SHARED: list[RagstoreError] = [ChromaUnavailable("gone"), ChromaTimeout("late"), CollectionNotFound("c")]


@pytest.mark.parametrize("error", SHARED, ids=repr)
async def test_an_error_that_is_nobodys_own_is_told_to_all_and_nothing_is_tried_apart(
    store: CoalescingStore, inner: Recording, collection: str, error: RagstoreError
) -> None:
    inner.failure = lambda call: error if len(call.parts) > 1 else None
    async with under_way(store, inner, collection):
        later = together(*(store.add(collection, batch(name)) for name in "abc"))
    assert await later == [error] * 3
    assert len(inner.calls) == 2
    assert await _ids(store, collection) == ["first"]


@pytest.mark.parametrize("error", SHARED, ids=repr)
async def test_parts_tried_apart_end_with_an_error_that_is_nobodys_own(
    store: CoalescingStore, inner: Recording, collection: str, error: RagstoreError
) -> None:
    inner.failure = lambda call: error if call.ids == ["b"] else _of_several(call)
    async with under_way(store, inner, collection):
        later = together(*(store.add(collection, batch(name)) for name in "abc"))
    assert await later == [None, error, error]
    assert [call.ids for call in inner.calls] == [["first"], ["a", "b", "c"], ["a"], ["b"]]


async def test_a_collection_that_is_not_there_is_told_to_each(store: CoalescingStore) -> None:
    answers = await together(
        *(store.add("nowhere", batch(name)) for name in "abc"), store.delete("nowhere", EVERYTHING)
    )
    assert kinds(answers) == [CollectionNotFound] * 4


@pytest.mark.parametrize("kind", ["write", "delete"])
async def test_after_a_defect_the_line_goes_on(
    store: CoalescingStore, inner: Recording, collection: str, kind: Literal["write", "delete"]
) -> None:
    inner.failure = lambda call: ValueError("a defect") if call.kind == kind and call.ids == ["bad"] else None
    async with under_way(store, inner, collection):
        bad = store.add(collection, batch("bad")) if kind == "write" else store.delete(collection, of_ids("bad"))
        later = together(bad, store.delete(collection, of_ids("first")), store.add(collection, batch("a")))
    assert kinds(await later) == [ValueError, 1, None]
    assert await _ids(store, collection) == ["a"]


async def test_after_a_call_that_was_given_up_the_line_goes_on(
    store: CoalescingStore, inner: Recording, collection: str
) -> None:
    inner.failure = lambda call: asyncio.CancelledError() if "a" in call.ids else None
    async with under_way(store, inner, collection):
        later = together(
            store.add(collection, batch("a")), store.delete(collection, of_ids()), store.add(collection, batch("b"))
        )
    assert kinds(await later) == [ChromaUnavailable, 0, None]


async def test_several_batches_of_one_caller_have_an_outcome_each(
    store: CoalescingStore, inner: Recording, collection: str
) -> None:
    await store.add(collection, batch("taken"))
    names = ("a", "taken", "b")
    outcomes = await store.write(collection, [Write("add", batch(name)) for name in names])
    assert kinds(outcomes) == [None, DocumentsExist, None]
    assert [call.ids for call in inner.calls] == [["taken"], ["a", "taken", "b"]]
    assert await store.write(collection, []) == []


# -- callers who leave --------------------------------------------------------------------------


async def test_a_caller_who_left_before_its_turn_is_not_written_and_not_kept(
    store: CoalescingStore, inner: Recording, collection: str
) -> None:
    async with under_way(store, inner, collection):
        leaving = asyncio.create_task(store.add(collection, batch("gone")))
        later = together(store.add(collection, batch("a")))
        await turn()
        leaving.cancel()
        await turn()
        assert [waiter.count for waiter in store._change_lines[collection]._waiting] == [1]
        assert store._writes == 2
    assert await later == [None]
    assert [call.ids for call in inner.calls] == [["first"], ["a"]]
    assert await _ids(store, collection) == ["first", "a"]


async def test_a_caller_who_leaves_just_before_its_turn_is_not_written(
    store: CoalescingStore, inner: Recording, collection: str
) -> None:
    async with under_way(store, inner, collection):
        leaving = asyncio.create_task(store.add(collection, batch("gone")))
        await turn()
        leaving.cancel()
    assert len(inner.calls) == 1
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert await _ids(store, collection) == ["first"]


async def test_a_caller_who_left_during_its_turn_disturbs_nobody(
    store: CoalescingStore, inner: Recording, collection: str
) -> None:
    inner.before.clear()
    first = together(store.add(collection, batch("first")))
    await inner.asked(1)
    leaving = asyncio.create_task(store.add(collection, batch("gone")))
    later = together(*(store.add(collection, batch(name)) for name in ("a", "first")))
    inner.let_go()
    await inner.asked(2)
    assert inner.calls[1].ids == ["gone", "a", "first"]
    leaving.cancel()
    inner.before.set()
    assert kinds([*await first, *await later]) == [None, None, DocumentsExist]
    assert await _ids(store, collection) == ["first", "gone", "a"]


async def test_a_caller_who_left_is_not_tried_apart(store: CoalescingStore, inner: Recording, collection: str) -> None:
    inner.failure = _of_several
    inner.before.clear()
    first = together(store.add(collection, batch("first")))
    await inner.asked(1)
    leaving = asyncio.create_task(store.add(collection, batch("gone")))
    later = together(*(store.add(collection, batch(name)) for name in "ab"))
    inner.let_go()
    await inner.asked(2)
    leaving.cancel()
    inner.before.set()
    assert [*await first, *await later] == [None, None, None]
    assert [call.ids for call in inner.calls[2:]] == [["a"], ["b"]]


async def test_a_write_whose_only_caller_left_ends_before_the_next_begins(
    store: CoalescingStore, inner: Recording, collection: str
) -> None:
    inner.before.clear()
    leaving = asyncio.create_task(store.add(collection, batch("a")))
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
    callers = together(*(store.add(collection, batch(name)) for name in "ab"), store.query(collection, [asked(1, 1)]))
    await inner.asked(2)
    closing = asyncio.create_task(store.close())
    await turn()
    assert not inner.closed
    inner.before.set()
    await closing
    assert inner.closed
    assert kinds(await callers)[:2] == [None, None]
    assert await _ids(bare, collection) == ["a", "b"]


async def test_closing_gives_up_a_call_that_nobody_waits_for(inner: Recording, collection: str, bare: Store) -> None:
    store = coalescing(inner)
    inner.before.clear()
    leaving = asyncio.create_task(store.add(collection, batch("a")))
    await inner.asked(1)
    leaving.cancel()
    await store.close()
    assert inner.closed
    assert await _ids(bare, collection) == []


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
            calls.append(store.upsert(name, batch(key, text=str(place))))
            expected[key] = str(place)
            outcomes.append(None)
        else:
            calls.append(store.add(name, batch(key, text=str(place))))
            outcomes.append(DocumentsExist if key in expected else None)
            expected.setdefault(key, str(place))
    async with under_way(store, inner, name):
        later = together(*calls)
    assert kinds(await later) == outcomes
    found = await store.get(name, EVERYTHING)
    assert dict(zip(found.ids, found.texts, strict=True)) == expected
    await store.delete_collection(name)


async def test_a_delete_leaves_alone_and_in_its_place(
    store: CoalescingStore, inner: Recording, collection: str
) -> None:
    async with under_way(store, inner, collection):
        later = together(
            store.add(collection, batch("a")),
            store.add(collection, batch("b")),
            store.delete(collection, of_ids("a", "first")),
            store.add(collection, batch("a")),
            store.add(collection, batch("c")),
        )
    assert kinds(await later) == [None, None, 2, None, None]
    assert [(call.kind, call.ids) for call in inner.calls[1:]] == [
        ("write", ["a", "b"]),
        ("delete", ["a first"]),
        ("write", ["a", "c"]),
    ]


async def test_a_write_keeps_its_place_before_a_delete_that_is_asked_after_it(
    store: CoalescingStore, inner: Recording, collection: str
) -> None:
    assert kinds(await together(store.add(collection, batch("a")), store.delete(collection, of_ids("a")))) == [None, 1]
    assert [call.kind for call in inner.calls] == ["write", "delete"]


async def test_the_order_of_one_caller_is_kept(store: CoalescingStore, inner: Recording, collection: str) -> None:
    async def caller(key: str) -> None:
        for place in range(5):
            await store.upsert(collection, batch(key, text=f"{key} {place}"))

    await asyncio.gather(*(caller(key) for key in "abc"))
    written = [part.batch for call in inner.calls for part in call.parts if isinstance(part, Write)]
    for key in "abc":
        assert [part.texts[0] for part in written if part.ids == [key]] == [f"{key} {place}" for place in range(5)]


async def test_a_caller_reads_what_it_was_told_is_written(store: CoalescingStore, collection: str) -> None:
    async def caller(key: str) -> None:
        await store.add(collection, batch(key))
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
        later = together(store.add(collection, batch("a")), store.delete(collection, of_ids("first")))
        await turn()
        with pytest.raises(Overloaded):
            await store.add(collection, batch("b"))
        with pytest.raises(Overloaded):
            await store.delete(collection, of_ids("a"))
        with pytest.raises(Overloaded):
            await store.add(f"{collection}-other", batch("b"))
        assert kinds(await store.write(collection, [Write("add", batch(name)) for name in "bc"])) == [Overloaded] * 2
    assert await later == [None, 1]
    await store.add(collection, batch("b"))
    assert await _ids(store, collection) == ["a", "b"]


async def test_more_bytes_than_may_wait_are_refused_at_once_until_there_is_room(
    inner: Recording, collection: str
) -> None:
    store = coalescing(inner, queued_bytes=300)
    async with under_way(store, inner, collection):
        later = together(*(store.add(collection, batch(name, text="x" * 100)) for name in "ab"))
        await turn()
        with pytest.raises(Overloaded):
            await store.add(collection, batch("c", text="x" * 100))
        small = together(store.add(collection, batch("small", text="x")))
        await turn()
    assert [*await later, *await small] == [None, None, None]
    await store.add(collection, batch("c", text="x" * 100))
    assert await _ids(store, collection) == ["first", "a", "b", "small", "c"]


async def test_a_write_larger_than_what_may_wait_is_taken_when_nothing_waits(inner: Recording, collection: str) -> None:
    store = coalescing(inner, queued_bytes=50)
    await store.add(collection, batch("a", text="x" * 100))
    assert await _ids(store, collection) == ["a"]


async def test_a_caller_who_left_makes_room(inner: Recording, collection: str) -> None:
    store = coalescing(inner, queued_writes=2)
    async with under_way(store, inner, collection):
        leaving = asyncio.create_task(store.add(collection, batch("gone")))
        await turn()
        leaving.cancel()
        await turn()
        later = together(store.add(collection, batch("a")))
    assert await later == [None]


async def test_writes_that_failed_make_room(inner: Recording, collection: str) -> None:
    store = coalescing(inner, queued_writes=1)
    for error in (ChromaFailed("Chroma failed"), ValueError("a defect")):
        inner.failure = lambda call, error=error: error  # type: ignore[misc]
        with pytest.raises(type(error)):
            await store.add(collection, batch("a"))
    inner.failure = lambda call: None
    await store.add(collection, batch("a"))
