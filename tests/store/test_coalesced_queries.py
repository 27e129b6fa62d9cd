"""Queries that wait at the same time leave as one call with many vectors, and each gets its own answer."""

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
from ragstore.model.queries import Found, Query
from ragstore.store.batching.queue import MERGED
from ragstore.store.batching.store import MERGED_QUERIES, QUERIES_UNDER_WAY, WORTH_A_QUERY, BatchingStore
from ragstore.store.protocol import Store
from tests.support.factories import add_documents, asked, batch_of, upsert_documents
from tests.support.spies import Call, Recording, SpyBackend, kinds, together, turn

METADATAS: list[Metadata] = [{"shelf": place % 2} for place in range(20)]


@pytest.fixture
async def store(inner: Recording) -> AsyncIterator[BatchingStore]:
    """A coalescing store, which keeps nothing of a line that ended."""
    store = BatchingStore(inner, 1000, 1000, 2**28)
    yield store
    assert not store._query_lines


@pytest.fixture
async def points(store: BatchingStore, inner: Recording, collection: str) -> str:
    """A collection of twenty points in a row: document `n` is at n + 1, and on shelf 0 or 1."""
    await add_documents(store, collection, batch_of(METADATAS))
    inner.calls.clear()
    return collection


@asynccontextmanager
async def under_way(store: Store, inner: Recording, points: str) -> AsyncIterator[None]:
    """As many plain queries as may be are under way as long as the block lasts."""
    inner.before.clear()
    first = []
    for count in range(1, QUERIES_UNDER_WAY + 1):
        first.append(asyncio.create_task(store.query(points, [asked(0, 1)])))
        await inner.asked(count)
    yield
    inner.before.set()
    await asyncio.gather(*first)


def later_calls(inner: Recording) -> list[Call]:
    """The calls after those that `under_way` made."""
    return inner.calls[QUERIES_UNDER_WAY:]


async def _ask_twice(store: Store, points: str) -> None:
    for _ in range(2):
        await store.query(points, [asked(0, 1)])


def ids(answer: Found | BaseException) -> list[str]:
    """What one query found."""
    assert isinstance(answer, Found)
    (hits,) = answer.hits
    return hits.ids


def _at(place: float, top_k: int = 1) -> Query:
    return asked(place + 1, 1, top_k=top_k)


async def test_callers_who_are_answered_and_ask_again_leave_with_those_who_waited(
    store: BatchingStore, inner: Recording, points: str
) -> None:
    inner.before.clear()
    ahead = [asyncio.create_task(_ask_twice(store, points))]
    await inner.asked(1)
    ahead.append(asyncio.create_task(_ask_twice(store, points)))
    await inner.asked(QUERIES_UNDER_WAY)
    behind = together(*(store.query(points, [asked(0, 1)]) for _ in range(3)))
    await turn()
    inner.before.set()
    await asyncio.gather(*ahead, behind)
    assert len(later_calls(inner)[0].parts) > 3


async def test_what_is_measured_of_a_query_is_told_to_the_metrics_after_it(store: BatchingStore, points: str) -> None:
    flush()
    before = MERGED.labels("query")._sum.get()
    await store.query(points, [asked(0, 1)])
    assert MERGED.labels("query")._sum.get() == before
    assert REGISTRY.get_sample_value("ragstore_coalesced_calls_sum", {"kind": "query"}) == before + 1


async def test_queries_that_are_worth_a_call_wait_for_no_caller_to_ask_again(
    store: BatchingStore, inner: Recording, points: str
) -> None:
    inner.before.clear()
    first = asyncio.create_task(_ask_twice(store, points))
    await inner.asked(1)
    second = asyncio.create_task(store.query(points, [asked(0, 1)]))
    await inner.asked(QUERIES_UNDER_WAY)
    behind = together(*(store.query(points, [asked(0, 1)]) for _ in range(WORTH_A_QUERY)))
    await turn()
    inner.before.set()
    await asyncio.gather(first, second, behind)
    assert [len(call.parts) for call in later_calls(inner)] == [WORTH_A_QUERY, 1]


async def test_a_lone_query_leaves_at_once_and_alone(store: BatchingStore, inner: Recording, points: str) -> None:
    for place in range(3):
        assert ids(await store.query(points, [_at(place)])) == [str(place)]
    assert [len(call.parts) for call in inner.calls] == [1, 1, 1]


async def test_queries_that_arrive_while_others_are_under_way_leave_together(
    store: BatchingStore, inner: Recording, points: str
) -> None:
    async with under_way(store, inner, points):
        later = together(*(store.query(points, [_at(place)]) for place in range(10)))
        await turn()
        assert not later_calls(inner)
    assert [ids(answer) for answer in await later] == [[str(place)] for place in range(10)]
    assert [len(call.parts) for call in later_calls(inner)] == [10]


async def test_chroma_is_asked_once_for_the_most_neighbours_and_each_answer_is_trimmed(
    store: BatchingStore, inner: Recording, spy_backend: SpyBackend, points: str
) -> None:
    async with under_way(store, inner, points):
        spy_backend.operations.clear()
        later = together(*(store.query(points, [_at(10, top_k)]) for top_k in (1, 7, 3)))
    assert [len(ids(answer)) for answer in await later] == [1, 7, 3]
    calls = [call for call in spy_backend.operations if isinstance(call, QueryRecords)]
    assert [(call.size, call.n_results) for call in calls[QUERIES_UNDER_WAY:]] == [(3, 7)]


async def test_what_leaves_together_has_a_bound(store: BatchingStore, inner: Recording, points: str) -> None:
    async with under_way(store, inner, points):
        later = together(*(store.query(points, [_at(place % 20)]) for place in range(2 * MERGED_QUERIES + 1)))
    assert [ids(answer) for answer in await later] == [[str(place % 20)] for place in range(2 * MERGED_QUERIES + 1)]
    assert [len(call.parts) for call in later_calls(inner)] == [MERGED_QUERIES, MERGED_QUERIES, 1]


async def test_queries_with_the_same_filter_leave_together(store: BatchingStore, inner: Recording, points: str) -> None:
    filtered = [asked(place + 1, 1, top_k=1, where_given={"shelf": 1}) for place in (1, 3, 5, 7)]
    inner.before.clear()
    answers = together(*(store.query(points, [query]) for query in filtered))
    await inner.asked(1)
    inner.before.set()
    assert [ids(answer) for answer in await answers] == [["1"], ["3"], ["5"], ["7"]]
    assert [len(call.parts) for call in inner.calls] == [4]


OTHERS = {
    "where": asked(1, 1, where_given={"shelf": 1}),
    "where of another type": asked(1, 1, where_given={"shelf": 1.0}),
    "where of another value": asked(1, 1, where_given={"shelf": True}),
    "where_document": asked(1, 1, text_given={"$contains": "1"}),
    "embeddings": asked(1, 1, with_embeddings=True),
}


async def test_queries_of_different_filters_or_columns_neither_merge_nor_wait_for_each_other(
    store: BatchingStore, inner: Recording, points: str
) -> None:
    async with under_way(store, inner, points):
        later = together(*(store.query(points, [query]) for query in OTHERS.values()))
        await inner.asked(QUERIES_UNDER_WAY + len(OTHERS))
        assert [call.queries for call in later_calls(inner)] == [[query] for query in OTHERS.values()]
    for answer, query in zip(await later, OTHERS.values(), strict=True):
        assert isinstance(answer, Found)
        assert (answer.hits[0].embeddings is not None) == query.with_embeddings


async def test_queries_of_another_dimension_are_refused_and_the_others_answered(
    store: BatchingStore, inner: Recording, points: str
) -> None:
    async with under_way(store, inner, points):
        later = together(
            *(store.query(points, [query]) for query in (_at(1), asked(1, 2, 3), _at(2), asked(3, 2, 1), asked(1)))
        )
    answers = await later
    assert kinds([answers[place] for place in (1, 3, 4)]) == [DimensionMismatch] * 3
    assert [ids(answers[place]) for place in (0, 2)] == [["1"], ["2"]]
    assert sorted(len(call.parts) for call in later_calls(inner)) == [1, 2, 2]


async def test_collections_do_not_wait_for_each_other(store: BatchingStore, inner: Recording, points: str) -> None:
    other = f"{points}-other"
    await store.create_collection(other, {}, "l2")
    async with under_way(store, inner, points):
        elsewhere = together(store.query(other, [_at(1)]))
        await inner.asked(QUERIES_UNDER_WAY + 1)
    assert [ids(answer) for answer in await elsewhere] == [[]]
    await store.delete_collection(other)


async def test_several_queries_of_one_caller_are_answered_in_their_order(
    store: BatchingStore, inner: Recording, points: str
) -> None:
    queries = [
        _at(2.8, 2),
        asked(1, 1, top_k=1, where_given={"shelf": 1}),
        _at(5),
        asked(9, 1, where_given={"shelf": 9}),
    ]
    found = await store.query(points, queries)
    assert [hits.ids for hits in found.hits] == [["3", "2"], ["1"], ["5"], []]
    assert found.collection.name == points
    assert sorted(len(call.parts) for call in inner.calls) == [1, 1, 2]


@pytest.mark.parametrize("error", [ChromaFailed("Chroma failed"), ValueError("a defect")], ids=repr)
async def test_nobody_pays_for_a_neighbour_who_cannot_be_answered(
    store: BatchingStore, inner: Recording, points: str, error: Exception
) -> None:
    inner.failure = lambda call: error if any(query.top_k == 19 for query in call.queries) else None
    async with under_way(store, inner, points):
        later = together(*(store.query(points, [_at(2.8, top_k)]) for top_k in (1, 19, 2)))
    answers = await later
    assert answers[1] is error
    assert [ids(answers[place]) for place in (0, 2)] == [["3"], ["3", "2"]]
    assert [len(call.parts) for call in later_calls(inner)] == [3, 1, 1, 1]


SHARED: list[ServiceError] = [
    *(ChromaUnavailable("gone"), ChromaTimeout("late")),
    *(CollectionNotFound("c"), DimensionMismatch("Another dimension")),
]


@pytest.mark.parametrize("error", SHARED, ids=repr)
async def test_an_error_that_is_nobodys_own_is_told_to_all_and_nothing_is_tried_apart(
    store: BatchingStore, inner: Recording, points: str, error: ServiceError
) -> None:
    inner.failure = lambda call: error if len(call.parts) > 1 else None
    async with under_way(store, inner, points):
        later = together(*(store.query(points, [_at(place)]) for place in range(3)))
    assert await later == [error] * 3
    assert len(later_calls(inner)) == 1


async def test_a_collection_that_is_not_there_is_told_to_each(store: BatchingStore) -> None:
    answers = await together(*(store.query("nowhere", [_at(place)]) for place in range(5)))
    assert kinds(answers) == [CollectionNotFound] * 5


async def test_after_a_defect_the_line_goes_on(store: BatchingStore, inner: Recording, points: str) -> None:
    inner.failure = lambda call: ValueError("a defect") if len(call.parts) == 1 else None
    inner.before.clear()
    failing = []
    for count in range(1, QUERIES_UNDER_WAY + 1):
        failing.append(asyncio.create_task(store.query(points, [_at(0)])))
        await inner.asked(count)
    later = together(store.query(points, [_at(1)]), store.query(points, [_at(2)]))
    inner.before.set()
    assert kinds(await asyncio.gather(*failing, return_exceptions=True)) == [ValueError] * QUERIES_UNDER_WAY
    assert [ids(answer) for answer in await later] == [["1"], ["2"]]


async def test_a_caller_who_left_before_its_turn_is_not_asked_for(
    store: BatchingStore, inner: Recording, points: str
) -> None:
    async with under_way(store, inner, points):
        leaving = asyncio.create_task(store.query(points, [_at(9, 20)]))
        later = together(store.query(points, [_at(1)]))
        await turn()
        leaving.cancel()
    assert [ids(answer) for answer in await later] == [["1"]]
    assert [[query.top_k for query in call.queries] for call in later_calls(inner)] == [[1]]


async def test_a_caller_who_left_during_its_turn_disturbs_nobody(
    store: BatchingStore, inner: Recording, points: str
) -> None:
    inner.before.clear()
    leaving = asyncio.create_task(store.query(points, [_at(0)]))
    later = together(store.query(points, [_at(1)]))
    await inner.asked(1)
    assert len(inner.calls[0].parts) == 2
    leaving.cancel()
    inner.before.set()
    assert [ids(answer) for answer in await later] == [["1"]]


async def test_a_caller_reads_its_own_writes(store: BatchingStore, collection: str) -> None:
    async def caller(place: int) -> None:
        made = batch_of([{}] * (place + 1))
        await upsert_documents(store, collection, made)
        assert str(place) in ids(await store.query(collection, [_at(place, 30)]))

    await asyncio.gather(*(caller(place) for place in range(20)))
