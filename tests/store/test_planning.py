"""Filtered queries are asked in the way that pays."""

from __future__ import annotations

import pytest

from ragstore.errors import ChromaUnavailable, CollectionNotFound, DimensionMismatch
from ragstore.model.documents import Batch
from ragstore.model.filters.condition import KEY_BYTES
from ragstore.model.metadata import Metadata
from ragstore.model.queries import Query
from ragstore.store.filter_planning import EXPLORE_EVERY, MAX_FETCH, MAX_FILTERS, FilterPlanningStore
from ragstore.store.protocol import Store
from tests.support.factories import add_documents, asked, batch_of, upsert_documents
from tests.support.fake_clock_store import Priced, hits_of

MANY = {"many": True}
FEW = {"few": True}
NONE = {"few": 1}


@pytest.fixture
def inner(bare: Store) -> Priced:
    """What the planning store asks."""
    return Priced(bare)


@pytest.fixture
def store(inner: Priced) -> FilterPlanningStore:
    """A planning store that knows nothing yet."""
    return FilterPlanningStore(inner, lambda: inner.now)


def _points() -> Batch:
    """300 points in a row: 60 % of them `many`, 1 % `few`."""
    return batch_of([{"n": n, "many": n % 10 < 6, "few": n % 100 == 50} for n in range(300)])


@pytest.fixture
async def points(store: FilterPlanningStore, inner: Priced, collection: str) -> str:
    """A collection of the points."""
    await add_documents(store, collection, _points())
    inner.calls.clear()
    return collection


def near(place: float, where_given: object, top_k: int = 5, *, with_embeddings: bool = False) -> Query:
    """A query for the documents next to one."""
    return asked(place + 0.9, 1, top_k=top_k, where_given=where_given, with_embeddings=with_embeddings)


async def _ask_often(store: Store, name: str, query: Query, times: int) -> None:
    for _ in range(times):
        await store.query(name, [query])


# -- how Chroma is asked ------------------------------------------------------------------------


async def test_a_filter_that_many_match_is_asked_without_it_and_applied_here(
    store: FilterPlanningStore, inner: Priced, points: str
) -> None:
    hits = await hits_of(store, points, near(103, MANY))
    assert hits.ids == ["103", "102", "104", "101", "105"]
    assert hits.texts[0] == "text of 103"
    assert hits.metadatas[0] == {"n": 103, "many": True, "few": False}
    assert hits.distances == sorted(hits.distances)
    assert inner.asks() == ["20"]


async def test_the_number_asked_for_follows_the_share_that_matches(
    store: FilterPlanningStore, inner: Priced, points: str
) -> None:
    await _ask_often(store, points, near(150, {"n": {"$gte": 0}}), 2)
    first, second = inner.asks()
    assert (first, second) == ("20", "10")  # all match: 5 and two standard deviations


async def test_a_selective_filter_falls_back_to_chromas_and_stays_there(
    store: FilterPlanningStore, inner: Priced, points: str
) -> None:
    inner.filtered = 0.5
    for place in (200, 151, 10):
        assert sorted((await hits_of(store, points, near(place, FEW))).ids) == ["150", "250", "50"]
    assert inner.asks() == ["20", "filter", "filter", "filter"]


async def test_when_too_few_came_more_are_asked_for(store: FilterPlanningStore, inner: Priced, points: str) -> None:
    hits = await hits_of(store, points, near(150, {"n": {"$gte": 160}}, top_k=3))
    assert hits.ids == ["160", "161", "162"]
    first, *rest = inner.asks()
    assert first == "12"
    assert rest == ["filter"]  # none came of which to tell how many would
    hits = await hits_of(store, points, near(150, {"n": {"$in": [149, *range(158, 300)]}}, top_k=3))
    assert hits.ids == ["149", "158", "159"]
    assert inner.asks() == ["12", "78"]


async def test_only_the_queries_that_got_too_few_are_asked_again(
    store: FilterPlanningStore, inner: Priced, points: str
) -> None:
    low = {"n": {"$lt": 100}}
    found = await store.query(points, [near(20, low), near(98, low, top_k=30), near(200, low)])
    assert [len(hits.ids) for hits in found.hits] == [5, 30, 5]
    assert found.hits[2].ids == ["99", "98", "97", "96", "95"]
    assert [len(call.parts) for call in inner.calls] == [3, 1]
    assert inner.asks() == ["120", "filter"]


async def test_never_more_are_asked_for_than_pays(store: FilterPlanningStore, inner: Priced, points: str) -> None:
    await _ask_often(store, points, near(150, MANY, top_k=100), 3)
    await _ask_often(store, points, near(150, FEW, top_k=100), 1)
    assert [ask for ask in inner.asks() if ask != "filter" and int(ask) > MAX_FETCH] == []


async def test_top_k_beyond_that_bound_is_answered(store: FilterPlanningStore, points: str) -> None:
    assert len((await hits_of(store, points, near(0, {"n": {"$gte": 0}}, top_k=280))).ids) == 280
    assert len((await hits_of(store, points, near(0, MANY, top_k=280))).ids) == 180


async def test_what_is_not_filtered_is_passed_on_as_it_is(
    store: FilterPlanningStore, inner: Priced, points: str
) -> None:
    queries = [near(1, None), near(2, {}), near(3, None, top_k=7)]
    await store.query(points, queries)
    assert [call.queries for call in inner.calls] == [queries]


@pytest.mark.parametrize(
    "query",
    [
        asked(1, 1, where_given=MANY, text_given={"$contains": "text"}),
        asked(1, 1, text_given={"$contains": "text"}),
        asked(1, 1, where_given={"n": {"$lt": 0.1 + 0.2}}),
        asked(1, 1, where_given={"n": {"$nin": [1.5, 1234567.890123456]}}),
        asked(1, 1, where_given={"$or": [MANY, {"$and": [FEW, {"n": {"$ne": 1.0000000000000002}}]}]}),
    ],
    ids=lambda query: str(query.condition.where),
)
async def test_text_filters_and_floats_of_many_digits_are_chromas_alone(
    store: FilterPlanningStore, inner: Priced, points: str, query: Query
) -> None:
    await _ask_often(store, points, query, EXPLORE_EVERY + 1)
    assert all(call.queries == [query] for call in inner.calls)


async def test_floats_of_few_digits_are_planned(store: FilterPlanningStore, inner: Priced, points: str) -> None:
    await store.query(points, [near(1, {"n": {"$gt": 0.123456789012345}}), near(1, {"n": {"$lt": 1e300}})])
    assert inner.asks() == ["20", "20"]


async def test_embeddings_stay_with_their_documents(store: FilterPlanningStore, inner: Priced, points: str) -> None:
    for where_given in (MANY, FEW):
        hits = await hits_of(store, points, near(140, where_given, with_embeddings=True))
        assert hits.embeddings is not None
        assert hits.embeddings.tolist() == [[int(name) + 1, 1] for name in hits.ids]
        assert (await hits_of(store, points, near(140, where_given))).embeddings is None
    assert inner.asks()[:2] == ["20", "20"]


async def test_mixed_queries_in_one_call_each_get_their_own_answer(
    store: FilterPlanningStore, bare: Store, points: str
) -> None:
    queries = [
        near(10, MANY),
        near(20, None),
        near(30, FEW, top_k=2),
        near(40, MANY, top_k=9),
        asked(41, 1, where_given=MANY, text_given={"$contains": "4"}),
        near(50, MANY, with_embeddings=True),
        near(60, NONE),
        near(70, FEW, top_k=1),
    ]
    planned, plain = await store.query(points, queries), await bare.query(points, queries)
    assert planned.collection == plain.collection
    for one, other in zip(planned.hits, plain.hits, strict=True):
        assert (one.ids, one.texts, one.metadatas, one.distances) == (
            *(other.ids, other.texts),
            *(other.metadatas, other.distances),
        )
        assert (one.embeddings is None) == (other.embeddings is None)


@pytest.mark.parametrize("where_given", [MANY, FEW, None])
async def test_errors_are_passed_on(
    store: FilterPlanningStore, inner: Priced, points: str, where_given: dict[str, object] | None
) -> None:
    with pytest.raises(CollectionNotFound):
        await store.query("nowhere", [near(1, where_given)])
    with pytest.raises(DimensionMismatch):
        await store.query(points, [asked(1, 2, 3, where_given=where_given)])
    inner.failure = lambda call: ChromaUnavailable("gone")
    with pytest.raises(ChromaUnavailable):
        await store.query(points, [near(1, where_given)])
    inner.failure = lambda call: None
    assert (await hits_of(store, points, near(150, where_given, top_k=1))).ids == ["150"]


# -- what is learned ----------------------------------------------------------------------------


async def test_what_pays_is_learned_for_each_filter_and_collection(
    store: FilterPlanningStore, inner: Priced, points: str
) -> None:
    other = f"{points}-other"
    await store.create_collection(other, {}, "l2")
    await add_documents(store, other, batch_of([{"few": True}] * 40))
    inner.filtered = 0.5
    await _ask_often(store, points, near(200, FEW), 2)
    assert inner.asks() == ["20", "filter", "filter"]
    await _ask_often(store, points, near(150, MANY), 2)
    await _ask_often(store, other, near(10, FEW), 2)
    assert "filter" not in inner.asks()
    await store.query(points, [near(150, FEW)])
    assert inner.asks() == ["filter"]
    await store.delete_collection(other)


async def test_a_collection_made_again_is_learned_anew(store: FilterPlanningStore, inner: Priced, points: str) -> None:
    inner.filtered = 0.5
    await _ask_often(store, points, near(150, FEW), 2)
    await store.delete_collection(points)
    await store.create_collection(points, {}, "l2")
    await add_documents(store, points, batch_of([{"few": True}] * 40))
    await store.query(points, [near(10, FEW)])
    inner.asks()
    await store.query(points, [near(10, FEW)])
    assert "20" in inner.asks()


async def test_a_filter_that_becomes_selective_is_left_to_chroma(
    store: FilterPlanningStore, inner: Priced, points: str
) -> None:
    await _ask_often(store, points, near(150, MANY), 3)
    assert "filter" not in inner.asks()
    inner.filtered = 0.5
    documents = _points()
    changed: list[Metadata] = [{"many": n % 100 == 50} for n in range(300)]
    await upsert_documents(store, points, Batch(documents.ids, documents.texts, changed, documents.embeddings))
    await store.query(points, [near(150, MANY)])
    inner.asks()
    await _ask_often(store, points, near(150, MANY), 5)
    assert inner.asks() == ["filter"] * 5


async def test_a_filter_that_many_come_to_match_is_applied_here(
    store: FilterPlanningStore, inner: Priced, points: str
) -> None:
    inner.filtered = 0.5
    await _ask_often(store, points, near(150, FEW), 3)
    documents = _points()
    changed: list[Metadata] = [{"few": True} for _ in range(300)]
    await upsert_documents(store, points, Batch(documents.ids, documents.texts, changed, documents.embeddings))
    inner.filtered = 10.0
    await _ask_often(store, points, near(150, FEW), EXPLORE_EVERY)
    inner.asks()
    await _ask_often(store, points, near(150, FEW), 5)
    assert "filter" not in inner.asks()


async def test_the_way_that_became_dear_is_left(store: FilterPlanningStore, inner: Priced, points: str) -> None:
    await _ask_often(store, points, near(150, MANY), 3)
    inner.plain = 100.0
    await _ask_often(store, points, near(150, MANY), 2 * EXPLORE_EVERY)
    inner.asks()
    await _ask_often(store, points, near(150, MANY), 5)
    assert inner.asks() == ["filter"] * 5


async def test_the_other_way_is_tried_now_and_then(store: FilterPlanningStore, inner: Priced, points: str) -> None:
    await _ask_often(store, points, near(150, MANY), 2 * EXPLORE_EVERY + 1)
    assert inner.asks().count("filter") == 2
    inner.filtered = 0.5
    await _ask_often(store, points, near(200, FEW), 2 * EXPLORE_EVERY + 1)
    assert [ask for ask in inner.asks() if ask != "filter"] == ["20", str(MAX_FETCH), str(MAX_FETCH)]


async def test_one_stall_does_not_change_the_way(store: FilterPlanningStore, inner: Priced, points: str) -> None:
    await _ask_often(store, points, near(150, MANY), EXPLORE_EVERY + 1)
    inner.asks()
    inner.plain = 1000.0
    await store.query(points, [near(150, MANY)])
    inner.plain = 1.0
    await _ask_often(store, points, near(150, MANY), 5)
    assert "filter" not in inner.asks()


async def test_a_first_query_that_stalled_is_made_up_for(
    store: FilterPlanningStore, inner: Priced, points: str
) -> None:
    inner.plain = 1000.0
    low = {"n": {"$lt": 100}}
    await store.query(points, [near(200, low)])
    assert inner.asks()[-1] == "filter"
    inner.plain = 1.0
    await _ask_often(store, points, near(50, low), EXPLORE_EVERY)
    inner.asks()
    await _ask_often(store, points, near(50, low), 5)
    assert "filter" not in inner.asks()


async def test_a_query_that_failed_teaches_nothing(store: FilterPlanningStore, inner: Priced, points: str) -> None:
    inner.failure = lambda call: ChromaUnavailable("gone")
    with pytest.raises(ChromaUnavailable):
        await store.query(points, [near(150, MANY)])
    assert not store._learned


async def test_what_is_kept_has_a_bound_however_long_the_filters_are(store: FilterPlanningStore, points: str) -> None:
    await store.query(points, [near(1, {"n": {"$in": [*range(5000)]}})])
    assert [len(key) for _, (key, _) in store._learned] == [KEY_BYTES]
    for number in range(MAX_FILTERS + 5):
        store._remembered(points, (str(number).encode(), False), "an id")
    assert len(store._learned) == MAX_FILTERS
