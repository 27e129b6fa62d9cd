"""Filtered queries use the faster filter strategy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ragstore.errors import ChromaUnavailable, CollectionNotFound, DimensionMismatch
from ragstore.model.collections import Collection
from ragstore.model.documents import Batch
from ragstore.model.filters.condition import KEY_BYTES
from ragstore.model.metadata import Metadata
from ragstore.model.queries import CollectionMatches, Matches, Query
from ragstore.store.filter_planning import MAX_FILTERS, FilterPlanningStore
from ragstore.store.filter_stats import EXPLORE_EVERY, MAX_NEIGHBOURS
from ragstore.store.layer import StoreLayer
from ragstore.store.protocol import Store
from tests.support.factories import add_documents, batch_of, make_query, upsert_documents
from tests.support.fake_clock_store import FakeClockStore, hits_of

pytestmark = pytest.mark.process

MANY = {"many": True}
FEW = {"few": True}
NONE = {"few": 1}


@pytest.fixture
def inner(bare: Store) -> FakeClockStore:
    """The store that the planning store wraps."""
    return FakeClockStore(bare)


@pytest.fixture
def store(inner: FakeClockStore) -> FilterPlanningStore:
    """A planning store without statistics."""
    return FilterPlanningStore(inner, lambda: inner.now, is_exact=False)


def _points() -> Batch:
    """300 points in a row: 60 % of them `many`, 1 % `few`."""
    return batch_of([{"n": n, "many": n % 10 < 6, "few": n % 100 == 50} for n in range(300)])


@pytest.fixture
async def points(store: FilterPlanningStore, inner: FakeClockStore, store_collection: str) -> str:
    """A collection of the points."""
    await add_documents(store, store_collection, _points())
    inner.calls.clear()
    return store_collection


def near(position: float, where_given: object, top_k: int = 5, *, with_embeddings: bool = False) -> Query:
    """A query for the documents next to a position."""
    return make_query(position + 0.9, 1, top_k=top_k, where_given=where_given, with_embeddings=with_embeddings)


async def _repeat(store: Store, name: str, query: Query, times: int) -> None:
    for _ in range(times):
        await store.query(name, [query])


# -- strategies ---------------------------------------------------------------------------------


async def test_a_filter_that_many_documents_match_is_post_filtered(
    store: FilterPlanningStore, inner: FakeClockStore, points: str
) -> None:
    hits = await hits_of(store, points, near(103, MANY))
    assert hits.ids == ["103", "102", "104", "101", "105"]
    assert hits.texts[0] == "text of 103"
    assert hits.metadatas[0] == {"n": 103, "many": True, "few": False}
    assert hits.distances == sorted(hits.distances)
    assert inner.new_calls() == ["20"]


async def test_the_number_of_neighbours_follows_the_match_rate(
    store: FilterPlanningStore, inner: FakeClockStore, points: str
) -> None:
    await _repeat(store, points, near(150, {"n": {"$gte": 0}}), 2)
    first, second = inner.new_calls()
    assert (first, second) == ("20", "10")  # all match: 5 and two standard deviations


async def test_a_selective_filter_falls_back_to_the_pre_filter_and_keeps_it(
    store: FilterPlanningStore, inner: FakeClockStore, points: str
) -> None:
    inner.filtered_seconds = 0.5
    for position in (200, 151, 10):
        assert sorted((await hits_of(store, points, near(position, FEW))).ids) == ["150", "250", "50"]
    assert inner.new_calls() == ["20", "pre_filter", "pre_filter", "pre_filter"]


async def test_a_query_with_too_few_results_is_repeated_with_more_neighbours(
    store: FilterPlanningStore, inner: FakeClockStore, points: str
) -> None:
    hits = await hits_of(store, points, near(150, {"n": {"$gte": 160}}, top_k=3))
    assert hits.ids == ["160", "161", "162"]
    first, *rest = inner.new_calls()
    assert first == "12"
    assert rest == ["pre_filter"]  # no result, so that the match rate cannot be estimated
    hits = await hits_of(store, points, near(150, {"n": {"$in": [149, *range(158, 300)]}}, top_k=3))
    assert hits.ids == ["149", "158", "159"]
    assert inner.new_calls() == ["12", "78"]


async def test_only_the_queries_with_too_few_results_are_repeated(
    store: FilterPlanningStore, inner: FakeClockStore, points: str
) -> None:
    low = {"n": {"$lt": 100}}
    found = await store.query(points, [near(20, low), near(98, low, top_k=30), near(200, low)])
    assert [len(hits.ids) for hits in found.matches] == [5, 30, 5]
    assert found.matches[2].ids == ["99", "98", "97", "96", "95"]
    assert [len(call.parts) for call in inner.calls] == [3, 1]
    assert inner.new_calls() == ["120", "pre_filter"]


async def test_a_query_requests_at_most_max_neighbours(
    store: FilterPlanningStore, inner: FakeClockStore, points: str
) -> None:
    await _repeat(store, points, near(150, MANY, top_k=100), 3)
    await _repeat(store, points, near(150, FEW, top_k=100), 1)
    assert [call for call in inner.new_calls() if call != "pre_filter" and int(call) > MAX_NEIGHBOURS] == []


async def test_top_k_may_exceed_max_neighbours(store: FilterPlanningStore, points: str) -> None:
    assert len((await hits_of(store, points, near(0, {"n": {"$gte": 0}}, top_k=280))).ids) == 280
    assert len((await hits_of(store, points, near(0, MANY, top_k=280))).ids) == 180


async def test_queries_without_a_filter_are_passed_on_unchanged(
    store: FilterPlanningStore, inner: FakeClockStore, points: str
) -> None:
    queries = [near(1, None), near(2, {}), near(3, None, top_k=7)]
    await store.query(points, queries)
    assert [call.queries for call in inner.calls] == [queries]


@pytest.mark.parametrize(
    "query",
    [
        make_query(1, 1, where_given=MANY, text_given={"$contains": "text"}),
        make_query(1, 1, text_given={"$contains": "text"}),
        make_query(1, 1, where_given={"n": {"$lt": 0.1 + 0.2}}),
        make_query(1, 1, where_given={"n": {"$nin": [1.5, 1234567.890123456]}}),
        make_query(1, 1, where_given={"$or": [MANY, {"$and": [FEW, {"n": {"$ne": 1.0000000000000002}}]}]}),
    ],
    ids=lambda query: str(query.condition.where),
)
async def test_text_filters_and_floats_of_many_digits_are_always_pre_filtered(
    store: FilterPlanningStore, inner: FakeClockStore, points: str, query: Query
) -> None:
    await _repeat(store, points, query, EXPLORE_EVERY + 1)
    assert all(call.queries == [query] for call in inner.calls)


async def test_floats_of_few_digits_are_post_filtered(
    store: FilterPlanningStore, inner: FakeClockStore, points: str
) -> None:
    await store.query(points, [near(1, {"n": {"$gt": 0.123456789012345}}), near(1, {"n": {"$lt": 1e300}})])
    assert inner.new_calls() == ["20", "20"]


async def test_embeddings_stay_with_their_documents(
    store: FilterPlanningStore, inner: FakeClockStore, points: str
) -> None:
    for where_given in (MANY, FEW):
        hits = await hits_of(store, points, near(140, where_given, with_embeddings=True))
        assert hits.embeddings is not None
        assert hits.embeddings.tolist() == [[int(name) + 1, 1] for name in hits.ids]
        assert (await hits_of(store, points, near(140, where_given))).embeddings is None
    assert inner.new_calls()[:2] == ["20", "20"]


async def test_mixed_queries_in_one_call_each_get_their_own_hits(
    store: FilterPlanningStore, bare: Store, points: str
) -> None:
    queries = [
        near(10, MANY),
        near(20, None),
        near(30, FEW, top_k=2),
        near(40, MANY, top_k=9),
        make_query(41, 1, where_given=MANY, text_given={"$contains": "4"}),
        near(50, MANY, with_embeddings=True),
        near(60, NONE),
        near(70, FEW, top_k=1),
    ]
    planned, plain = await store.query(points, queries), await bare.query(points, queries)
    assert planned.collection == plain.collection
    for one, other in zip(planned.matches, plain.matches, strict=True):
        assert (one.ids, one.texts, one.metadatas, one.distances) == (
            *(other.ids, other.texts),
            *(other.metadatas, other.distances),
        )
        assert (one.embeddings is None) == (other.embeddings is None)


@pytest.mark.parametrize("where_given", [MANY, FEW, None])
async def test_errors_are_passed_on(
    store: FilterPlanningStore, inner: FakeClockStore, points: str, where_given: dict[str, object] | None
) -> None:
    with pytest.raises(CollectionNotFound):
        await store.query("nowhere", [near(1, where_given)])
    with pytest.raises(DimensionMismatch):
        await store.query(points, [make_query(1, 2, 3, where_given=where_given)])
    inner.failure = lambda call: ChromaUnavailable("gone")
    with pytest.raises(ChromaUnavailable):
        await store.query(points, [near(1, where_given)])
    inner.failure = lambda call: None
    assert (await hits_of(store, points, near(150, where_given, top_k=1))).ids == ["150"]


# -- statistics ---------------------------------------------------------------------------------


async def test_the_faster_strategy_is_learned_for_each_filter_and_collection(
    store: FilterPlanningStore, inner: FakeClockStore, points: str
) -> None:
    other = f"{points}-other"
    await store.create_collection(other, {}, "l2")
    await add_documents(store, other, batch_of([{"few": True}] * 40))
    inner.filtered_seconds = 0.5
    await _repeat(store, points, near(200, FEW), 2)
    assert inner.new_calls() == ["20", "pre_filter", "pre_filter"]
    await _repeat(store, points, near(150, MANY), 2)
    await _repeat(store, other, near(10, FEW), 2)
    assert "pre_filter" not in inner.new_calls()
    await store.query(points, [near(150, FEW)])
    assert inner.new_calls() == ["pre_filter"]
    await store.delete_collection(other)


async def test_a_collection_that_is_created_again_has_new_statistics(
    store: FilterPlanningStore, inner: FakeClockStore, points: str
) -> None:
    inner.filtered_seconds = 0.5
    await _repeat(store, points, near(150, FEW), 2)
    await store.delete_collection(points)
    await store.create_collection(points, {}, "l2")
    await add_documents(store, points, batch_of([{"few": True}] * 40))
    await store.query(points, [near(10, FEW)])
    inner.new_calls()
    await store.query(points, [near(10, FEW)])
    assert "20" in inner.new_calls()


async def test_a_filter_that_becomes_selective_is_pre_filtered(
    store: FilterPlanningStore, inner: FakeClockStore, points: str
) -> None:
    await _repeat(store, points, near(150, MANY), 3)
    assert "pre_filter" not in inner.new_calls()
    inner.filtered_seconds = 0.5
    documents = _points()
    changed: list[Metadata] = [{"many": n % 100 == 50} for n in range(300)]
    await upsert_documents(store, points, Batch(documents.ids, documents.texts, changed, documents.embeddings))
    await store.query(points, [near(150, MANY)])
    inner.new_calls()
    await _repeat(store, points, near(150, MANY), 5)
    assert inner.new_calls() == ["pre_filter"] * 5


async def test_a_filter_that_more_documents_come_to_match_is_post_filtered(
    store: FilterPlanningStore, inner: FakeClockStore, points: str
) -> None:
    inner.filtered_seconds = 0.5
    await _repeat(store, points, near(150, FEW), 3)
    documents = _points()
    changed: list[Metadata] = [{"few": True} for _ in range(300)]
    await upsert_documents(store, points, Batch(documents.ids, documents.texts, changed, documents.embeddings))
    inner.filtered_seconds = 10.0
    await _repeat(store, points, near(150, FEW), EXPLORE_EVERY)
    inner.new_calls()
    await _repeat(store, points, near(150, FEW), 5)
    assert "pre_filter" not in inner.new_calls()


async def test_a_strategy_that_becomes_slower_is_given_up(
    store: FilterPlanningStore, inner: FakeClockStore, points: str
) -> None:
    await _repeat(store, points, near(150, MANY), 3)
    inner.plain_seconds = 100.0
    await _repeat(store, points, near(150, MANY), 2 * EXPLORE_EVERY)
    inner.new_calls()
    await _repeat(store, points, near(150, MANY), 5)
    assert inner.new_calls() == ["pre_filter"] * 5


async def test_the_slower_strategy_is_tried_now_and_then(
    store: FilterPlanningStore, inner: FakeClockStore, points: str
) -> None:
    await _repeat(store, points, near(150, MANY), 2 * EXPLORE_EVERY + 1)
    assert inner.new_calls().count("pre_filter") == 2
    inner.filtered_seconds = 0.5
    await _repeat(store, points, near(200, FEW), 2 * EXPLORE_EVERY + 1)
    assert [call for call in inner.new_calls() if call != "pre_filter"] == [
        "20",
        str(MAX_NEIGHBOURS),
        str(MAX_NEIGHBOURS),
    ]


async def test_one_stall_does_not_change_the_strategy(
    store: FilterPlanningStore, inner: FakeClockStore, points: str
) -> None:
    await _repeat(store, points, near(150, MANY), EXPLORE_EVERY + 1)
    inner.new_calls()
    inner.plain_seconds = 1000.0
    await store.query(points, [near(150, MANY)])
    inner.plain_seconds = 1.0
    await _repeat(store, points, near(150, MANY), 5)
    assert "pre_filter" not in inner.new_calls()


async def test_a_stall_of_the_first_query_is_forgotten(
    store: FilterPlanningStore, inner: FakeClockStore, points: str
) -> None:
    inner.plain_seconds = 1000.0
    low = {"n": {"$lt": 100}}
    await store.query(points, [near(200, low)])
    assert inner.new_calls()[-1] == "pre_filter"
    inner.plain_seconds = 1.0
    await _repeat(store, points, near(50, low), EXPLORE_EVERY)
    inner.new_calls()
    await _repeat(store, points, near(50, low), 5)
    assert "pre_filter" not in inner.new_calls()


async def test_a_failed_query_leaves_no_statistics(
    store: FilterPlanningStore, inner: FakeClockStore, points: str
) -> None:
    inner.failure = lambda call: ChromaUnavailable("gone")
    with pytest.raises(ChromaUnavailable):
        await store.query(points, [near(150, MANY)])
    assert not store.stats


class EmptyStore(StoreLayer):
    """A store whose queries find nothing, without a call to Chroma."""

    async def query(self, name: str, queries: Sequence[Query]) -> CollectionMatches:
        return CollectionMatches(
            Collection("an id", name, {}, 2, "l2"), [Matches([], [], [], [], None) for _ in queries]
        )


async def test_statistics_are_kept_of_the_most_recent_filters_only(bare: Store) -> None:
    store = FilterPlanningStore(EmptyStore(bare), is_exact=False)
    conditions = [near(1, {"n": number}).condition for number in range(MAX_FILTERS + 5)]
    for condition in conditions:
        await store.query("points", [replace(near(1, None), condition=condition)])
    assert [key for _, (key, _) in store.stats] == [condition.key for condition in conditions[5:]]


async def test_the_size_of_the_statistics_does_not_depend_on_the_size_of_the_filter(bare: Store) -> None:
    store = FilterPlanningStore(EmptyStore(bare), is_exact=False)
    await store.query("points", [near(1, {"n": {"$in": [*range(5000)]}})])
    assert [len(key) for _, (key, _) in store.stats] == [KEY_BYTES]
