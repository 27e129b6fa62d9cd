"""Concurrent queries become one call with many vectors, and each gets its own response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import REGISTRY

from ragstore.chroma.operations import QueryRecords
from ragstore.errors import ChromaFailed, ChromaTimeout, ChromaUnavailable, CollectionNotFound, DimensionMismatch
from ragstore.kit.deferred_metrics import flush
from ragstore.kit.errors import ServiceError
from ragstore.model.metadata import Metadata
from ragstore.model.queries import CollectionMatches, Query
from ragstore.store.batching.queue import BATCH_REQUESTS
from ragstore.store.batching.store import MAX_QUERY_BATCH, MIN_QUERY_BATCH, QUERY_CONCURRENCY, BatchingStore
from ragstore.store.protocol import Store
from tests.support.batching import assert_idle
from tests.support.factories import add_documents, batch_of, make_query, upsert_documents
from tests.support.spies import Call, SpyBackend, SpyStore, errors_as_types, submit_all, turn

pytestmark = pytest.mark.process

METADATAS: list[Metadata] = [{"shelf": index % 2} for index in range(20)]


@pytest.fixture
async def store(inner: SpyStore) -> AsyncIterator[BatchingStore]:
    """A batching store, which is idle in the end."""
    store = BatchingStore(inner, 1000, 1000, 2**28)
    yield store
    assert_idle(store)


@pytest.fixture
async def points(store: BatchingStore, inner: SpyStore, store_collection: str) -> str:
    """A collection of twenty points in a row: document `n` is at n + 1, and on shelf 0 or 1."""
    await add_documents(store, store_collection, batch_of(METADATAS))
    inner.calls.clear()
    return store_collection


@asynccontextmanager
async def queries_in_flight(store: Store, inner: SpyStore, points: str) -> AsyncIterator[None]:
    """As many plain queries are in flight as possible while the block runs."""
    inner.entry_gate.clear()
    first = []
    for count in range(1, QUERY_CONCURRENCY + 1):
        first.append(asyncio.create_task(store.query(points, [make_query(0, 1)])))
        await inner.wait_for_calls(count)
    yield
    inner.entry_gate.set()
    await asyncio.gather(*first)


def later_calls(inner: SpyStore) -> list[Call]:
    """The calls after the calls of `queries_in_flight`."""
    return inner.calls[QUERY_CONCURRENCY:]


async def _query_twice(store: Store, points: str) -> None:
    for _ in range(2):
        await store.query(points, [make_query(0, 1)])


def ids(response: CollectionMatches | BaseException) -> list[str]:
    """The ids that one query found."""
    assert isinstance(response, CollectionMatches)
    (hits,) = response.matches
    return hits.ids


def _at(position: float, top_k: int = 1) -> Query:
    return make_query(position + 1, 1, top_k=top_k)


async def test_clients_that_query_again_immediately_join_the_queries_that_are_queued(
    store: BatchingStore, inner: SpyStore, points: str
) -> None:
    inner.entry_gate.clear()
    ahead = [asyncio.create_task(_query_twice(store, points))]
    await inner.wait_for_calls(1)
    ahead.append(asyncio.create_task(_query_twice(store, points)))
    await inner.wait_for_calls(QUERY_CONCURRENCY)
    behind = submit_all(*(store.query(points, [make_query(0, 1)]) for _ in range(3)))
    await turn()
    inner.entry_gate.set()
    await asyncio.gather(*ahead, behind)
    assert len(later_calls(inner)[0].parts) > 3


def recorded_queries() -> float:
    """The number of queries in batches that are recorded already; recording may be deferred."""
    (metric,) = BATCH_REQUESTS.labels("query").collect()
    (total,) = (sample.value for sample in metric.samples if sample.name.endswith("_sum"))
    return total


async def test_metrics_of_a_query_are_recorded_after_it(store: BatchingStore, points: str) -> None:
    flush()
    before = recorded_queries()
    await store.query(points, [make_query(0, 1)])
    assert recorded_queries() == before
    assert REGISTRY.get_sample_value("ragstore_coalesced_calls_sum", {"kind": "query"}) == before + 1


async def test_a_queue_with_enough_queries_is_sent_without_waiting_for_more(
    store: BatchingStore, inner: SpyStore, points: str
) -> None:
    inner.entry_gate.clear()
    first = asyncio.create_task(_query_twice(store, points))
    await inner.wait_for_calls(1)
    second = asyncio.create_task(store.query(points, [make_query(0, 1)]))
    await inner.wait_for_calls(QUERY_CONCURRENCY)
    behind = submit_all(*(store.query(points, [make_query(0, 1)]) for _ in range(MIN_QUERY_BATCH)))
    await turn()
    inner.entry_gate.set()
    await asyncio.gather(first, second, behind)
    assert [len(call.parts) for call in later_calls(inner)] == [MIN_QUERY_BATCH, 1]


async def test_a_lone_query_never_waits(store: BatchingStore, inner: SpyStore, points: str) -> None:
    for index in range(3):
        assert ids(await store.query(points, [_at(index)])) == [str(index)]
    assert [len(call.parts) for call in inner.calls] == [1, 1, 1]


async def test_queries_that_arrive_while_others_are_in_flight_become_one_batch(
    store: BatchingStore, inner: SpyStore, points: str
) -> None:
    async with queries_in_flight(store, inner, points):
        later = submit_all(*(store.query(points, [_at(index)]) for index in range(10)))
        await turn()
        assert not later_calls(inner)
    assert [ids(response) for response in await later] == [[str(index)] for index in range(10)]
    assert [len(call.parts) for call in later_calls(inner)] == [10]


async def test_a_batch_requests_the_largest_top_k_and_each_response_is_trimmed(
    store: BatchingStore, inner: SpyStore, spy_backend: SpyBackend, points: str
) -> None:
    async with queries_in_flight(store, inner, points):
        spy_backend.operations.clear()
        later = submit_all(*(store.query(points, [_at(10, top_k)]) for top_k in (1, 7, 3)))
    assert [len(ids(response)) for response in await later] == [1, 7, 3]
    calls = [call for call in spy_backend.operations if isinstance(call, QueryRecords)]
    assert [(call.size, call.n_results) for call in calls[QUERY_CONCURRENCY:]] == [(3, 7)]


async def test_a_batch_has_at_most_max_query_batch_queries(store: BatchingStore, inner: SpyStore, points: str) -> None:
    async with queries_in_flight(store, inner, points):
        later = submit_all(*(store.query(points, [_at(index % 20)]) for index in range(2 * MAX_QUERY_BATCH + 1)))
    assert [ids(response) for response in await later] == [
        [str(index % 20)] for index in range(2 * MAX_QUERY_BATCH + 1)
    ]
    assert [len(call.parts) for call in later_calls(inner)] == [MAX_QUERY_BATCH, MAX_QUERY_BATCH, 1]


async def test_queries_with_the_same_filter_share_a_batch(store: BatchingStore, inner: SpyStore, points: str) -> None:
    filtered = [make_query(index + 1, 1, top_k=1, where_given={"shelf": 1}) for index in (1, 3, 5, 7)]
    inner.entry_gate.clear()
    responses = submit_all(*(store.query(points, [query]) for query in filtered))
    await inner.wait_for_calls(1)
    inner.entry_gate.set()
    assert [ids(response) for response in await responses] == [["1"], ["3"], ["5"], ["7"]]
    assert [len(call.parts) for call in inner.calls] == [4]


OTHERS = {
    "where": make_query(1, 1, where_given={"shelf": 1}),
    "where of another type": make_query(1, 1, where_given={"shelf": 1.0}),
    "where of another value": make_query(1, 1, where_given={"shelf": True}),
    "where_document": make_query(1, 1, text_given={"$contains": "1"}),
    "embeddings": make_query(1, 1, with_embeddings=True),
}


async def test_queries_of_different_filters_or_columns_neither_share_a_batch_nor_wait_for_each_other(
    store: BatchingStore, inner: SpyStore, points: str
) -> None:
    async with queries_in_flight(store, inner, points):
        later = submit_all(*(store.query(points, [query]) for query in OTHERS.values()))
        await inner.wait_for_calls(QUERY_CONCURRENCY + len(OTHERS))
        assert [call.queries for call in later_calls(inner)] == [[query] for query in OTHERS.values()]
    for response, query in zip(await later, OTHERS.values(), strict=True):
        assert isinstance(response, CollectionMatches)
        assert (response.matches[0].embeddings is not None) == query.with_embeddings


async def test_queries_of_another_dimension_fail_and_the_others_succeed(
    store: BatchingStore, inner: SpyStore, points: str
) -> None:
    async with queries_in_flight(store, inner, points):
        later = submit_all(
            *(
                store.query(points, [query])
                for query in (_at(1), make_query(1, 2, 3), _at(2), make_query(3, 2, 1), make_query(1))
            )
        )
    responses = await later
    assert errors_as_types([responses[index] for index in (1, 3, 4)]) == [DimensionMismatch] * 3
    assert [ids(responses[index]) for index in (0, 2)] == [["1"], ["2"]]
    assert sorted(len(call.parts) for call in later_calls(inner)) == [1, 2, 2]


async def test_collections_do_not_wait_for_each_other(store: BatchingStore, inner: SpyStore, points: str) -> None:
    other = f"{points}-other"
    await store.create_collection(other, {}, "l2")
    async with queries_in_flight(store, inner, points):
        elsewhere = submit_all(store.query(other, [_at(1)]))
        await inner.wait_for_calls(QUERY_CONCURRENCY + 1)
    assert [ids(response) for response in await elsewhere] == [[]]
    await store.delete_collection(other)


async def test_the_queries_of_one_request_keep_their_order(store: BatchingStore, inner: SpyStore, points: str) -> None:
    queries = [
        _at(2.8, 2),
        make_query(1, 1, top_k=1, where_given={"shelf": 1}),
        _at(5),
        make_query(9, 1, where_given={"shelf": 9}),
    ]
    found = await store.query(points, queries)
    assert [hits.ids for hits in found.matches] == [["3", "2"], ["1"], ["5"], []]
    assert found.collection.name == points
    assert sorted(len(call.parts) for call in inner.calls) == [1, 1, 2]


@pytest.mark.parametrize("error", [ChromaFailed("Chroma failed"), ValueError("a defect")], ids=repr)
async def test_a_query_does_not_fail_because_of_another_one_in_its_batch(
    store: BatchingStore, inner: SpyStore, points: str, error: Exception
) -> None:
    inner.failure = lambda call: error if any(query.top_k == 19 for query in call.queries) else None
    async with queries_in_flight(store, inner, points):
        later = submit_all(*(store.query(points, [_at(2.8, top_k)]) for top_k in (1, 19, 2)))
    responses = await later
    assert responses[1] is error
    assert [ids(responses[index]) for index in (0, 2)] == [["3"], ["3", "2"]]
    assert [len(call.parts) for call in later_calls(inner)] == [3, 1, 1, 1]


SHARED_ERRORS: list[ServiceError] = [
    *(ChromaUnavailable("gone"), ChromaTimeout("late")),
    *(CollectionNotFound("c"), DimensionMismatch("Another dimension")),
]


@pytest.mark.parametrize("error", SHARED_ERRORS, ids=repr)
async def test_a_shared_error_fails_the_whole_batch_without_a_repetition(
    store: BatchingStore, inner: SpyStore, points: str, error: ServiceError
) -> None:
    inner.failure = lambda call: error if len(call.parts) > 1 else None
    async with queries_in_flight(store, inner, points):
        later = submit_all(*(store.query(points, [_at(index)]) for index in range(3)))
    assert await later == [error] * 3
    assert len(later_calls(inner)) == 1


async def test_each_query_of_a_missing_collection_fails(store: BatchingStore) -> None:
    responses = await submit_all(*(store.query("nowhere", [_at(index)]) for index in range(5)))
    assert errors_as_types(responses) == [CollectionNotFound] * 5


async def test_the_queue_continues_after_an_unexpected_error(
    store: BatchingStore, inner: SpyStore, points: str
) -> None:
    inner.failure = lambda call: ValueError("a defect") if len(call.parts) == 1 else None
    inner.entry_gate.clear()
    failing = []
    for count in range(1, QUERY_CONCURRENCY + 1):
        failing.append(asyncio.create_task(store.query(points, [_at(0)])))
        await inner.wait_for_calls(count)
    later = submit_all(store.query(points, [_at(1)]), store.query(points, [_at(2)]))
    inner.entry_gate.set()
    assert errors_as_types(await asyncio.gather(*failing, return_exceptions=True)) == [ValueError] * QUERY_CONCURRENCY
    assert [ids(response) for response in await later] == [["1"], ["2"]]


async def test_a_queued_query_whose_client_disconnects_is_dropped(
    store: BatchingStore, inner: SpyStore, points: str
) -> None:
    async with queries_in_flight(store, inner, points):
        leaving = asyncio.create_task(store.query(points, [_at(9, 20)]))
        later = submit_all(store.query(points, [_at(1)]))
        await turn()
        leaving.cancel()
    assert [ids(response) for response in await later] == [["1"]]
    assert [[query.top_k for query in call.queries] for call in later_calls(inner)] == [[1]]


async def test_a_client_that_disconnects_while_its_batch_is_in_flight_does_not_affect_the_others(
    store: BatchingStore, inner: SpyStore, points: str
) -> None:
    inner.entry_gate.clear()
    leaving = asyncio.create_task(store.query(points, [_at(0)]))
    later = submit_all(store.query(points, [_at(1)]))
    await inner.wait_for_calls(1)
    assert len(inner.calls[0].parts) == 2
    leaving.cancel()
    inner.entry_gate.set()
    assert [ids(response) for response in await later] == [["1"]]


async def test_a_client_reads_its_own_writes(store: BatchingStore, store_collection: str) -> None:
    async def client(index: int) -> None:
        made = batch_of([{}] * (index + 1))
        await upsert_documents(store, store_collection, made)
        assert str(index) in ids(await store.query(store_collection, [_at(index, 30)]))

    await asyncio.gather(*(client(index) for index in range(20)))
