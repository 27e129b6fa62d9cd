"""Writes that wait at the same time leave as one, and nobody can tell but by how long it takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Literal

import pytest

from ragstore.errors import (
    ChromaFailed,
    ChromaTimeout,
    ChromaUnavailable,
    CollectionNotFound,
    DimensionMismatch,
    DocumentsExist,
    InvalidDocuments,
)
from ragstore.kit.errors import ServiceError
from ragstore.model.documents import EVERYTHING, Write
from ragstore.store.batching.queue import MERGED_BYTES
from ragstore.store.batching.store import BatchingStore
from ragstore.store.protocol import Store
from tests.support.batching import MAX_BATCH_SIZE, assert_empty, coalescing, ids_in, of_several, under_way
from tests.support.factories import add_documents, batch, of_ids, rows, upsert_documents
from tests.support.spies import Recording, kinds, together, turn


@pytest.fixture
async def store(inner: Recording) -> AsyncIterator[BatchingStore]:
    """A coalescing store, which is empty in the end."""
    store = coalescing(inner)
    yield store
    assert_empty(store)


# -- who leaves with whom -----------------------------------------------------------------------


async def test_a_lone_write_leaves_at_once_and_alone(store: BatchingStore, inner: Recording, collection: str) -> None:
    for name in "abc":
        await add_documents(store, collection, batch(name))
    assert [call.ids for call in inner.calls] == [["a"], ["b"], ["c"]]


async def test_a_write_that_nothing_is_ahead_of_does_not_wait_for_those_behind_it(
    store: BatchingStore, inner: Recording, collection: str
) -> None:
    async with under_way(store, inner, collection):
        later = together(add_documents(store, collection, batch("a")))
        await turn()
        assert [call.ids for call in inner.calls] == [["first"]]
    await later


async def test_writes_that_arrive_while_one_is_under_way_leave_together(
    store: BatchingStore, inner: Recording, collection: str
) -> None:
    async with under_way(store, inner, collection):
        later = together(
            add_documents(store, collection, batch("a", "b")),
            add_documents(store, collection, batch("c")),
            add_documents(store, collection, batch("d")),
        )
    assert await later == [None, None, None]
    assert [call.ids for call in inner.calls] == [["first"], ["a b", "c", "d"]]
    assert await ids_in(store, collection) == ["first", "a", "b", "c", "d"]


async def test_callers_who_all_ask_again_leave_together_with_those_who_waited(
    store: BatchingStore, inner: Recording, collection: str
) -> None:
    async def ask_often(caller: str) -> None:
        for number in range(3):
            await add_documents(store, collection, batch(f"{caller}{number}"))

    inner.before.clear()
    ahead = together(*map(ask_often, "abcd"))
    await inner.asked(1)
    behind = together(*map(ask_often, "efgh"))
    await turn()
    inner.before.set()
    assert [*await ahead, *await behind] == [None] * 8
    assert [len(call.parts) for call in inner.calls] == [4, 8, 8, 4]


async def test_writes_that_are_worth_a_call_wait_for_no_caller_to_ask_again(
    store: BatchingStore, inner: Recording, collection: str
) -> None:
    async def ask_twice() -> None:
        await add_documents(store, collection, batch("a"))
        await add_documents(store, collection, batch("b"))

    inner.before.clear()
    twice = together(ask_twice())
    await inner.asked(1)
    large = together(add_documents(store, collection, batch(*map(str, range(MAX_BATCH_SIZE)))))
    await turn()
    inner.before.set()
    assert [await twice, await large] == [[None], [None]]
    assert [len(call.parts[0].batch) for call in inner.calls if isinstance(call.parts[0], Write)] == [
        1,
        MAX_BATCH_SIZE,
        1,
    ]


async def test_deletes_that_keep_coming_do_not_keep_one_another_waiting(
    store: BatchingStore, inner: Recording, collection: str
) -> None:
    asked: list[asyncio.Task[int]] = []

    async def ask_at_every_turn() -> None:
        while len(inner.calls) < 2 and len(asked) < 900:
            asked.append(asyncio.create_task(store.delete(collection, of_ids("none"))))
            await asyncio.sleep(0)

    async with under_way(store, inner, collection):
        asking = asyncio.create_task(ask_at_every_turn())
        await turn()
    await asking
    assert [call.kind for call in inner.calls] == ["write", "delete"]
    assert await asyncio.gather(*asked) == [0] * len(asked)


async def test_adds_and_upserts_leave_apart_in_their_order(
    store: BatchingStore, inner: Recording, collection: str
) -> None:
    async with under_way(store, inner, collection):
        later = together(
            add_documents(store, collection, batch("a")),
            upsert_documents(store, collection, batch("b")),
            upsert_documents(store, collection, batch("c")),
            add_documents(store, collection, batch("d")),
        )
    assert await later == [None, None, None, None]
    assert [call.ids for call in inner.calls] == [["first"], ["a"], ["b", "c"], ["d"]]


async def test_an_add_is_not_tried_again_because_an_upsert_behind_it_fails(
    store: BatchingStore, inner: Recording, collection: str
) -> None:
    inner.failure = lambda call: ChromaFailed("no room") if call.ids == ["b"] else None
    async with under_way(store, inner, collection):
        later = together(add_documents(store, collection, batch("a")), upsert_documents(store, collection, batch("b")))
    assert kinds(await later) == [None, ChromaFailed]


async def test_what_leaves_together_has_at_most_as_many_documents_as_one_write(
    store: BatchingStore, inner: Recording, collection: str
) -> None:
    batches = [batch(*(f"{place}-{row}" for row in range(size))) for place, size in enumerate((9, 11, 1, 19, 20, 2))]
    async with under_way(store, inner, collection):
        later = together(*(add_documents(store, collection, documents) for documents in batches))
    assert kinds(await later) == [None] * 6
    assert [[len(ids.split()) for ids in call.ids] for call in inner.calls[1:]] == [[9, 11], [1, 19], [20], [2]]


async def test_what_leaves_together_has_a_bound_in_bytes(
    store: BatchingStore, inner: Recording, collection: str
) -> None:
    inner.failure = lambda call: ChromaUnavailable("Nothing of this size need be stored") if call.ids != ["z"] else None
    texts = ["x" * (MERGED_BYTES * 2 // 5)] * 3 + ["x" * (MERGED_BYTES + 1), "small"]
    inner.before.clear()
    first = together(add_documents(store, collection, batch("z")))
    await inner.asked(1)
    later = together(
        *(add_documents(store, collection, batch(str(place), text=text)) for place, text in enumerate(texts)),
    )
    inner.before.set()
    await first
    assert kinds(await later) == [ChromaUnavailable] * 5
    assert [call.ids for call in inner.calls[1:]] == [["0", "1"], ["2"], ["3"], ["4"]]


async def test_a_batch_too_large_for_one_write_is_refused_and_its_neighbours_are_not(
    store: BatchingStore, bare: Store, collection: str
) -> None:
    large = batch(*(str(place) for place in range(1001)))
    answers = await together(
        add_documents(store, collection, batch("a")),
        add_documents(store, collection, large),
        add_documents(store, collection, batch("b")),
    )
    assert kinds(answers) == [None, InvalidDocuments, None]
    assert await ids_in(bare, collection) == ["a", "b"]


async def test_collections_do_not_wait_for_each_other(store: BatchingStore, inner: Recording, collection: str) -> None:
    names = [f"{collection}-{place}" for place in range(5)]
    for name in names:
        await store.create_collection(name, {}, "l2")
    async with under_way(store, inner, collection):
        others = together(*(add_documents(store, name, batch("a")) for name in names))
        await inner.asked(6)
        assert [call.name for call in inner.calls] == [collection, *names]
    await others
    for name in names:
        assert await ids_in(store, name) == ["a"]
        await store.delete_collection(name)


# -- what each is told --------------------------------------------------------------------------


async def test_each_caller_is_told_its_own_error_and_the_others_are_written(
    store: BatchingStore, inner: Recording, collection: str
) -> None:
    async with under_way(store, inner, collection):
        later = together(
            add_documents(store, collection, batch("a")),
            add_documents(store, collection, batch("new", "first")),
            add_documents(store, collection, batch("b", dimension=3)),
            upsert_documents(store, collection, batch("first", text="again")),
            add_documents(store, collection, batch("a")),
            add_documents(store, collection, batch("c")),
        )
    assert kinds(answers := await later) == [None, DocumentsExist, DimensionMismatch, None, DocumentsExist, None]
    assert [answers[place].ids for place in (1, 4)] == [("first",), ("a",)]  # type: ignore[union-attr]  # kinds above
    assert [call.ids for call in inner.calls] == [["first"], ["a", "new first", "b"], ["first"], ["a", "c"]]
    assert rows(await store.get(collection, EVERYTHING)) == [
        ("first", "again", {}),
        ("a", "text of a", {}),
        ("c", "text of c", {}),
    ]


async def test_success_is_told_only_after_the_inner_store_told_it(
    store: BatchingStore, inner: Recording, collection: str
) -> None:
    inner.after.clear()
    first = asyncio.create_task(add_documents(store, collection, batch("first")))
    await inner.asked(1)
    later = [asyncio.create_task(add_documents(store, collection, batch(name))) for name in "ab"]
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
    store: BatchingStore, inner: Recording, collection: str
) -> None:
    inner.failure = of_several
    async with under_way(store, inner, collection):
        later = together(*(add_documents(store, collection, batch(name)) for name in ("a", "first", "b")))
    assert kinds(await later) == [None, DocumentsExist, None]
    assert [call.ids for call in inner.calls] == [["first"], ["a", "first", "b"], ["a"], ["first"], ["b"]]
    assert await ids_in(store, collection) == ["first", "a", "b"]


@pytest.mark.parametrize("error", [ChromaFailed("Chroma failed"), ValueError("a defect")], ids=repr)
async def test_nobody_pays_for_a_neighbour_who_cannot_be_written(
    store: BatchingStore, inner: Recording, collection: str, error: Exception
) -> None:
    inner.failure = lambda call: error if "bad" in call.ids else None
    async with under_way(store, inner, collection):
        later = together(*(add_documents(store, collection, batch(name)) for name in ("a", "bad", "b")))
    assert kinds(await later) == [None, type(error), None]
    assert await ids_in(store, collection) == ["first", "a", "b"]


SHARED: list[ServiceError] = [ChromaUnavailable("gone"), ChromaTimeout("late"), CollectionNotFound("c")]


@pytest.mark.parametrize("error", SHARED, ids=repr)
async def test_an_error_that_is_nobodys_own_is_told_to_all_and_nothing_is_tried_apart(
    store: BatchingStore, inner: Recording, collection: str, error: ServiceError
) -> None:
    inner.failure = lambda call: error if len(call.parts) > 1 else None
    async with under_way(store, inner, collection):
        later = together(*(add_documents(store, collection, batch(name)) for name in "abc"))
    assert await later == [error] * 3
    assert len(inner.calls) == 2
    assert await ids_in(store, collection) == ["first"]


@pytest.mark.parametrize("error", SHARED, ids=repr)
async def test_parts_tried_apart_end_with_an_error_that_is_nobodys_own(
    store: BatchingStore, inner: Recording, collection: str, error: ServiceError
) -> None:
    inner.failure = lambda call: error if call.ids == ["b"] else of_several(call)
    async with under_way(store, inner, collection):
        later = together(*(add_documents(store, collection, batch(name)) for name in "abc"))
    assert await later == [None, error, error]
    assert [call.ids for call in inner.calls] == [["first"], ["a", "b", "c"], ["a"], ["b"]]


async def test_a_collection_that_is_not_there_is_told_to_each(store: BatchingStore) -> None:
    answers = await together(
        *(add_documents(store, "nowhere", batch(name)) for name in "abc"),
        store.delete("nowhere", EVERYTHING),
    )
    assert kinds(answers) == [CollectionNotFound] * 4


@pytest.mark.parametrize("kind", ["write", "delete"])
async def test_after_a_defect_the_line_goes_on(
    store: BatchingStore, inner: Recording, collection: str, kind: Literal["write", "delete"]
) -> None:
    inner.failure = lambda call: ValueError("a defect") if call.kind == kind and call.ids == ["bad"] else None
    async with under_way(store, inner, collection):
        bad = (
            add_documents(store, collection, batch("bad"))
            if kind == "write"
            else store.delete(collection, of_ids("bad"))
        )
        later = together(bad, store.delete(collection, of_ids("first")), add_documents(store, collection, batch("a")))
    assert kinds(await later) == [ValueError, 1, None]
    assert await ids_in(store, collection) == ["a"]


async def test_after_a_call_that_was_given_up_the_line_goes_on(
    store: BatchingStore, inner: Recording, collection: str
) -> None:
    inner.failure = lambda call: asyncio.CancelledError() if "a" in call.ids else None
    async with under_way(store, inner, collection):
        later = together(
            add_documents(store, collection, batch("a")),
            store.delete(collection, of_ids()),
            add_documents(store, collection, batch("b")),
        )
    assert kinds(await later) == [ChromaUnavailable, 0, None]


async def test_several_batches_of_one_caller_have_an_outcome_each(
    store: BatchingStore, inner: Recording, collection: str
) -> None:
    await add_documents(store, collection, batch("taken"))
    names = ("a", "taken", "b")
    outcomes = await store.write(collection, [Write("add", batch(name)) for name in names])
    assert kinds(outcomes) == [None, DocumentsExist, None]
    assert [call.ids for call in inner.calls] == [["taken"], ["a", "taken", "b"]]
    assert await store.write(collection, []) == []
