"""Concurrent writes become one batch. Apart from the time that they take, they have the results of single writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Literal

import pytest

from ragstore.errors import (
    BatchTooLarge,
    ChromaFailed,
    ChromaTimeout,
    ChromaUnavailable,
    CollectionNotFound,
    DimensionMismatch,
    DocumentsExist,
)
from ragstore.kit.errors import ServiceError
from ragstore.model.documents import EVERYTHING, Write
from ragstore.store.batching.queue import MAX_BATCH_BYTES
from ragstore.store.batching.store import BatchingStore
from ragstore.store.protocol import Store
from tests.support.batching import MAX_BATCH_SIZE, assert_idle, batching_store, fail_batches, ids_in, write_in_flight
from tests.support.factories import add_documents, batch, of_ids, rows, upsert_documents
from tests.support.spies import SpyStore, errors_as_types, submit_all, turn

pytestmark = pytest.mark.process


@pytest.fixture
async def store(inner: SpyStore) -> AsyncIterator[BatchingStore]:
    """A batching store, which is idle in the end."""
    store = batching_store(inner)
    yield store
    assert_idle(store)


# -- which requests share a batch ---------------------------------------------------------------


async def test_a_lone_write_never_waits(store: BatchingStore, inner: SpyStore, store_collection: str) -> None:
    for name in "abc":
        await add_documents(store, store_collection, batch(name))
    assert [call.ids for call in inner.calls] == [["a"], ["b"], ["c"]]


async def test_the_first_write_does_not_wait_for_later_ones(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    async with write_in_flight(store, inner, store_collection):
        later = submit_all(add_documents(store, store_collection, batch("a")))
        await turn()
        assert [call.ids for call in inner.calls] == [["first"]]
    await later


async def test_writes_that_arrive_while_one_is_in_flight_become_one_batch(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    async with write_in_flight(store, inner, store_collection):
        later = submit_all(
            add_documents(store, store_collection, batch("a", "b")),
            add_documents(store, store_collection, batch("c")),
            add_documents(store, store_collection, batch("d")),
        )
    assert await later == [None, None, None]
    assert [call.ids for call in inner.calls] == [["first"], ["a b", "c", "d"]]
    assert await ids_in(store, store_collection) == ["first", "a", "b", "c", "d"]


async def test_clients_that_write_again_immediately_join_the_writes_that_are_queued(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    async def write_three_times(client: str) -> None:
        for number in range(3):
            await add_documents(store, store_collection, batch(f"{client}{number}"))

    inner.entry_gate.clear()
    ahead = submit_all(*map(write_three_times, "abcd"))
    await inner.wait_for_calls(1)
    behind = submit_all(*map(write_three_times, "efgh"))
    await turn()
    inner.entry_gate.set()
    assert [*await ahead, *await behind] == [None] * 8
    assert [len(call.parts) for call in inner.calls] == [4, 8, 8, 4]


async def test_a_queue_with_enough_documents_is_sent_without_waiting_for_more(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    async def write_twice() -> None:
        await add_documents(store, store_collection, batch("a"))
        await add_documents(store, store_collection, batch("b"))

    inner.entry_gate.clear()
    twice = submit_all(write_twice())
    await inner.wait_for_calls(1)
    large = submit_all(add_documents(store, store_collection, batch(*map(str, range(MAX_BATCH_SIZE)))))
    await turn()
    inner.entry_gate.set()
    assert [await twice, await large] == [[None], [None]]
    assert [len(call.parts[0].batch) for call in inner.calls if isinstance(call.parts[0], Write)] == [
        1,
        MAX_BATCH_SIZE,
        1,
    ]


async def test_a_steady_stream_of_deletes_does_not_delay_the_deletes_that_are_queued(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    deletes: list[asyncio.Task[int]] = []

    async def delete_at_every_turn() -> None:
        while len(inner.calls) < 2 and len(deletes) < 900:
            deletes.append(asyncio.create_task(store.delete(store_collection, of_ids("none"))))
            await asyncio.sleep(0)

    async with write_in_flight(store, inner, store_collection):
        deleting = asyncio.create_task(delete_at_every_turn())
        await turn()
    await deleting
    assert [call.kind for call in inner.calls] == ["write", "delete"]
    assert await asyncio.gather(*deletes) == [0] * len(deletes)


async def test_adds_and_upserts_are_separate_batches_in_their_order(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    async with write_in_flight(store, inner, store_collection):
        later = submit_all(
            add_documents(store, store_collection, batch("a")),
            upsert_documents(store, store_collection, batch("b")),
            upsert_documents(store, store_collection, batch("c")),
            add_documents(store, store_collection, batch("d")),
        )
    assert await later == [None, None, None, None]
    assert [call.ids for call in inner.calls] == [["first"], ["a"], ["b", "c"], ["d"]]


async def test_an_add_is_not_repeated_when_a_later_upsert_fails(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    inner.failure = lambda call: ChromaFailed("no room") if call.ids == ["b"] else None
    async with write_in_flight(store, inner, store_collection):
        later = submit_all(
            add_documents(store, store_collection, batch("a")), upsert_documents(store, store_collection, batch("b"))
        )
    assert errors_as_types(await later) == [None, ChromaFailed]


async def test_a_batch_has_at_most_max_batch_size_documents(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    batches = [batch(*(f"{index}-{row}" for row in range(size))) for index, size in enumerate((9, 11, 1, 19, 20, 2))]
    async with write_in_flight(store, inner, store_collection):
        later = submit_all(*(add_documents(store, store_collection, documents) for documents in batches))
    assert errors_as_types(await later) == [None] * 6
    assert [[len(ids.split()) for ids in call.ids] for call in inner.calls[1:]] == [[9, 11], [1, 19], [20], [2]]


async def test_a_batch_has_at_most_max_batch_bytes(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    inner.failure = lambda call: ChromaUnavailable("Nothing of this size need be stored") if call.ids != ["z"] else None
    texts = ["x" * (MAX_BATCH_BYTES * 2 // 5)] * 3 + ["x" * (MAX_BATCH_BYTES + 1), "small"]
    inner.entry_gate.clear()
    first = submit_all(add_documents(store, store_collection, batch("z")))
    await inner.wait_for_calls(1)
    later = submit_all(
        *(add_documents(store, store_collection, batch(str(index), text=text)) for index, text in enumerate(texts)),
    )
    inner.entry_gate.set()
    await first
    assert errors_as_types(await later) == [ChromaUnavailable] * 5
    assert [call.ids for call in inner.calls[1:]] == [["0", "1"], ["2"], ["3"], ["4"]]


async def test_a_write_that_is_too_large_fails_and_the_others_of_its_batch_succeed(
    store: BatchingStore, bare: Store, store_collection: str
) -> None:
    large = batch(*(str(index) for index in range(1001)))
    responses = await submit_all(
        add_documents(store, store_collection, batch("a")),
        add_documents(store, store_collection, large),
        add_documents(store, store_collection, batch("b")),
    )
    assert errors_as_types(responses) == [None, BatchTooLarge, None]
    assert await ids_in(bare, store_collection) == ["a", "b"]


async def test_collections_do_not_wait_for_each_other(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    names = [f"{store_collection}-{index}" for index in range(5)]
    for name in names:
        await store.create_collection(name, {}, "l2")
    async with write_in_flight(store, inner, store_collection):
        others = submit_all(*(add_documents(store, name, batch("a")) for name in names))
        await inner.wait_for_calls(6)
        assert [call.name for call in inner.calls] == [store_collection, *names]
    await others
    for name in names:
        assert await ids_in(store, name) == ["a"]
        await store.delete_collection(name)


# -- responses and errors -----------------------------------------------------------------------


async def test_each_request_gets_its_own_error_and_the_others_are_written(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    async with write_in_flight(store, inner, store_collection):
        later = submit_all(
            add_documents(store, store_collection, batch("a")),
            add_documents(store, store_collection, batch("new", "first")),
            add_documents(store, store_collection, batch("b", dimension=3)),
            upsert_documents(store, store_collection, batch("first", text="again")),
            add_documents(store, store_collection, batch("a")),
            add_documents(store, store_collection, batch("c")),
        )
    assert errors_as_types(responses := await later) == [
        None,
        DocumentsExist,
        DimensionMismatch,
        None,
        DocumentsExist,
        None,
    ]
    assert [responses[index].ids for index in (1, 4)] == [("first",), ("a",)]  # type: ignore[union-attr]  # kinds above
    assert [call.ids for call in inner.calls] == [["first"], ["a", "new first", "b"], ["first"], ["a", "c"]]
    assert rows(await store.get(store_collection, EVERYTHING)) == [
        ("first", "again", {}),
        ("a", "text of a", {}),
        ("c", "text of c", {}),
    ]


async def test_a_write_succeeds_only_after_the_inner_store_has_responded(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    inner.exit_gate.clear()
    first = asyncio.create_task(add_documents(store, store_collection, batch("first")))
    await inner.wait_for_calls(1)
    later = [asyncio.create_task(add_documents(store, store_collection, batch(name))) for name in "ab"]
    while not await store.count(store_collection):  # it is written, and the response is held back
        assert not first.done()
    inner.exit_gate.set()
    inner.entry_gate.clear()
    await first
    await inner.wait_for_calls(2)
    assert not any(task.done() for task in later)
    inner.entry_gate.set()
    await asyncio.gather(*later)


async def test_the_requests_of_a_failed_batch_are_sent_one_by_one(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    inner.failure = fail_batches
    async with write_in_flight(store, inner, store_collection):
        later = submit_all(*(add_documents(store, store_collection, batch(name)) for name in ("a", "first", "b")))
    assert errors_as_types(await later) == [None, DocumentsExist, None]
    assert [call.ids for call in inner.calls] == [["first"], ["a", "first", "b"], ["a"], ["first"], ["b"]]
    assert await ids_in(store, store_collection) == ["first", "a", "b"]


@pytest.mark.parametrize("error", [ChromaFailed("Chroma failed"), ValueError("a defect")], ids=repr)
async def test_a_request_does_not_fail_because_of_another_one_in_its_batch(
    store: BatchingStore, inner: SpyStore, store_collection: str, error: Exception
) -> None:
    inner.failure = lambda call: error if "bad" in call.ids else None
    async with write_in_flight(store, inner, store_collection):
        later = submit_all(*(add_documents(store, store_collection, batch(name)) for name in ("a", "bad", "b")))
    assert errors_as_types(await later) == [None, type(error), None]
    assert await ids_in(store, store_collection) == ["first", "a", "b"]


SHARED_ERRORS: list[ServiceError] = [ChromaUnavailable("gone"), ChromaTimeout("late"), CollectionNotFound("c")]


@pytest.mark.parametrize("error", SHARED_ERRORS, ids=repr)
async def test_a_shared_error_fails_the_whole_batch_without_a_repetition(
    store: BatchingStore, inner: SpyStore, store_collection: str, error: ServiceError
) -> None:
    inner.failure = lambda call: error if len(call.parts) > 1 else None
    async with write_in_flight(store, inner, store_collection):
        later = submit_all(*(add_documents(store, store_collection, batch(name)) for name in "abc"))
    assert await later == [error] * 3
    assert len(inner.calls) == 2
    assert await ids_in(store, store_collection) == ["first"]


@pytest.mark.parametrize("error", SHARED_ERRORS, ids=repr)
async def test_a_shared_error_ends_the_sending_one_by_one(
    store: BatchingStore, inner: SpyStore, store_collection: str, error: ServiceError
) -> None:
    inner.failure = lambda call: error if call.ids == ["b"] else fail_batches(call)
    async with write_in_flight(store, inner, store_collection):
        later = submit_all(*(add_documents(store, store_collection, batch(name)) for name in "abc"))
    assert await later == [None, error, error]
    assert [call.ids for call in inner.calls] == [["first"], ["a", "b", "c"], ["a"], ["b"]]


async def test_each_write_to_a_missing_collection_fails(store: BatchingStore) -> None:
    responses = await submit_all(
        *(add_documents(store, "nowhere", batch(name)) for name in "abc"),
        store.delete("nowhere", EVERYTHING),
    )
    assert errors_as_types(responses) == [CollectionNotFound] * 4


@pytest.mark.parametrize("kind", ["write", "delete"])
async def test_the_queue_continues_after_an_unexpected_error(
    store: BatchingStore, inner: SpyStore, store_collection: str, kind: Literal["write", "delete"]
) -> None:
    inner.failure = lambda call: ValueError("a defect") if call.kind == kind and call.ids == ["bad"] else None
    async with write_in_flight(store, inner, store_collection):
        bad = (
            add_documents(store, store_collection, batch("bad"))
            if kind == "write"
            else store.delete(store_collection, of_ids("bad"))
        )
        later = submit_all(
            bad, store.delete(store_collection, of_ids("first")), add_documents(store, store_collection, batch("a"))
        )
    assert errors_as_types(await later) == [ValueError, 1, None]
    assert await ids_in(store, store_collection) == ["a"]


async def test_the_queue_continues_after_a_cancelled_call(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    inner.failure = lambda call: asyncio.CancelledError() if "a" in call.ids else None
    async with write_in_flight(store, inner, store_collection):
        later = submit_all(
            add_documents(store, store_collection, batch("a")),
            store.delete(store_collection, of_ids()),
            add_documents(store, store_collection, batch("b")),
        )
    assert errors_as_types(await later) == [ChromaUnavailable, 0, None]


async def test_each_write_of_one_request_has_its_own_outcome(
    store: BatchingStore, inner: SpyStore, store_collection: str
) -> None:
    await add_documents(store, store_collection, batch("taken"))
    names = ("a", "taken", "b")
    outcomes = await store.write(store_collection, [Write("add", batch(name)) for name in names])
    assert errors_as_types(outcomes) == [None, DocumentsExist, None]
    assert [call.ids for call in inner.calls] == [["taken"], ["a", "taken", "b"]]
    assert await store.write(store_collection, []) == []
