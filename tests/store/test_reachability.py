"""Every stored document is found, also where Chroma's index has lost it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from uuid import uuid4

import numpy as np
import pytest

from ragstore.chroma.chroma_store import ChromaStore
from ragstore.chroma.operations import CountRecords, GetRecords, QueryRecords
from ragstore.model.collections import Distance
from ragstore.model.distances import distances_to
from ragstore.model.documents import Batch, Selection
from ragstore.model.filters.condition import Condition
from ragstore.model.queries import CollectionMatches, Query
from ragstore.model.vectors import Matrix
from ragstore.store import new_filters
from ragstore.store.filter_planning import (
    MAX_EXACT_VALUES,
    MAX_MATCHING_IDS,
    SMALL_COLLECTION_VALUES,
    FilterPlanningStore,
)
from ragstore.store.layer import StoreLayer
from ragstore.store.new_filters import COUNT_EVERY, EXPECT_FEW_AFTER
from ragstore.store.protocol import Store
from tests.support.factories import add_documents, of_ids, upsert_documents
from tests.support.spies import SpyBackend
from tests.support.stores import with_retries

pytestmark = pytest.mark.process

DIMENSION = 384
COUNT = 250
SAMPLE = range(0, COUNT, 5)


def varying_lengths(count: int, seed: int) -> Matrix:
    """Random directions with lengths that vary by 30 %, of which Chroma's index loses half with `l2`."""
    generator = np.random.default_rng(seed)
    directions = generator.normal(size=(count, DIMENSION))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return (directions * generator.lognormal(0, 0.3, (count, 1))).astype(np.float32)


def many_equal(count: int, seed: int) -> Matrix:
    """Random embeddings of which seven in eight are equal."""
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(count, DIMENSION)).astype(np.float32)
    rows[generator.random(count) < 7 / 8] = rows[0]
    return rows


def documents_of(rows: Matrix) -> Batch:
    """Documents with these embeddings; `one` is unique, `few` selects a twentieth, `half` a half."""
    ids = [str(row) for row in range(len(rows))]
    return Batch(
        ids,
        [f"text of {key}" for key in ids],
        [{"one": key, "few": row % 20 == 0, "half": row % 2 == 0} for row, key in enumerate(ids)],
        rows,
    )


LOST: dict[str, tuple[Distance, list[Matrix]]] = {
    "l2, lengths vary": ("l2", [varying_lengths(COUNT, 1)]),
    "l2, replaced": ("l2", [varying_lengths(COUNT, seed) for seed in (2, 3)]),
    "ip, replaced": ("ip", [varying_lengths(COUNT, seed) for seed in (5, 6)]),
    "cosine, many equal": ("cosine", [many_equal(COUNT, 8)]),
}


@pytest.fixture(scope="module", params=LOST)
async def lost(request: pytest.FixtureRequest, store: Store) -> AsyncIterator[tuple[str, Distance, Matrix]]:
    """A collection of which Chroma's index loses documents, its distance, and its embeddings."""
    distance, rounds = LOST[request.param]
    name = f"t-{uuid4().hex}"
    await store.create_collection(name, {}, distance)
    for rows in rounds:
        await upsert_documents(store, name, documents_of(rows))
    yield name, distance, rounds[-1]
    await store.delete_collection(name)


async def test_every_document_is_found_by_its_own_embedding_and_a_filter_on_it(
    store: Store, lost: tuple[str, Distance, Matrix]
) -> None:
    name, _, rows = lost
    for row in SAMPLE:
        found = await store.query(name, [Query(rows[row], 1, Condition.parse({"one": str(row)}))])
        assert found.matches[0].ids == [str(row)]


async def test_a_query_returns_as_many_documents_as_match_up_to_top_k(
    store: Store, lost: tuple[str, Distance, Matrix]
) -> None:
    name, _, rows = lost
    everything = (await store.query(name, [Query(rows[0], 1000)])).matches[0]
    assert sorted(everything.ids, key=int) == [str(row) for row in range(COUNT)]
    half = (await store.query(name, [Query(rows[0], 1000, Condition.parse({"half": True}))])).matches[0]
    assert sorted(half.ids, key=int) == [str(row) for row in range(0, COUNT, 2)]
    text = Condition.parse(None, {"$contains": "text"})
    assert len((await store.query(name, [Query(rows[0], 200, text)])).matches[0].ids) == 200


async def test_completed_results_are_those_of_numpy(store: Store, lost: tuple[str, Distance, Matrix]) -> None:
    name, distance, rows = lost
    queries = [Query(varying_lengths(1, seed)[0], COUNT, with_embeddings=True) for seed in (20, 21)]
    found = await store.query(name, queries)
    for query, hits in zip(queries, found.matches, strict=True):
        expected = distances_to(rows, query.embedding, distance)
        assert hits.distances == pytest.approx(np.sort(expected).tolist(), rel=1e-4, abs=1e-5)
        assert [float(expected[int(key)]) for key in hits.ids] == pytest.approx(hits.distances, rel=1e-4, abs=1e-5)
        assert hits.texts == [f"text of {key}" for key in hits.ids]
        assert hits.metadatas == [documents_of(rows).metadatas[int(key)] for key in hits.ids]
        assert hits.embeddings is not None
        assert hits.embeddings.shape == rows.shape


@pytest.mark.parametrize("text_given", [None, {"$contains": "text"}])
async def test_a_filter_that_few_documents_match_returns_the_nearest_of_them(
    store: Store, lost: tuple[str, Distance, Matrix], text_given: dict[str, object] | None
) -> None:
    """The stores without a planner complete short results only."""
    name, distance, rows = lost
    condition = Condition.parse({"few": True}, text_given)
    planned = FilterPlanningStore(store)
    for seed in range(30, 40):
        embedding = varying_lengths(1, seed)[0]
        expected = np.sort(distances_to(rows[::20], embedding, distance))[:5]
        hits = (await planned.query(name, [Query(embedding, 5, condition)])).matches[0]
        assert hits.distances == pytest.approx(expected.tolist(), rel=1e-5, abs=1e-6)


# -- plans ----------------------------------------------------------------------------------------


@pytest.fixture
async def bare_collection(bare: Store) -> AsyncIterator[str]:
    """A new, empty collection of the innermost store, with the distance l2."""
    name = f"t-{uuid4().hex}"
    await bare.create_collection(name, {}, "l2")
    yield name
    await bare.delete_collection(name)


@pytest.fixture(params=["embedded", "remote"])
async def any_bare(request: pytest.FixtureRequest, started: Callable[[str], Awaitable[Store]]) -> Store:
    """The innermost store over each kind of Chroma."""
    return await started(request.param)


def _reads(backend: SpyBackend) -> list[GetRecords | QueryRecords]:
    """The reads and queries so far."""
    return [operation for operation in backend.operations if isinstance(operation, (GetRecords, QueryRecords))]


async def test_the_usual_query_costs_no_further_call(
    bare: Store, spy_backend: SpyBackend, bare_collection: str
) -> None:
    rows = varying_lengths(60, 9)
    await add_documents(bare, bare_collection, documents_of(rows))
    spy_backend.operations.clear()
    await bare.query(bare_collection, [Query(rows[0], 1), Query(rows[1], 3)])
    assert [type(operation) for operation in _reads(spy_backend)] == [QueryRecords]


async def test_a_large_match_is_compared_in_chunks(bare: Store, spy_backend: SpyBackend, bare_collection: str) -> None:
    rows = np.tile(varying_lengths(250, 10), (1, 8))
    rows[:, 0] += np.arange(250)
    await add_documents(bare, bare_collection, documents_of(rows))
    spy_backend.operations.clear()
    hits = (await bare.query(bare_collection, [Query(rows[0], 250)])).matches[0]
    assert len(hits.ids) == 250
    sizes = [operation.size for operation in _reads(spy_backend) if isinstance(operation, GetRecords)]
    assert sizes in ([], [None, 83, 83, 83, 1, 250])


async def test_more_matches_than_the_limit_are_not_compared(
    bare: Store, spy_backend: SpyBackend, bare_collection: str
) -> None:
    few = MAX_EXACT_VALUES // DIMENSION
    rows = varying_lengths(few + 1, 11)
    await add_documents(bare, bare_collection, documents_of(rows))
    planned = FilterPlanningStore(bare)
    exact = {"one": {"$ne": "0"}}
    too_many = {"one": {"$ne": "none"}}
    spy_backend.operations.clear()
    for _ in range(2):
        await planned.query(bare_collection, [Query(rows[0], 3, Condition.parse(exact))])
    assert {type(operation) for operation in _reads(spy_backend)} == {GetRecords}
    await planned.query(bare_collection, [Query(rows[0], 3, Condition.parse(too_many))])
    spy_backend.operations.clear()
    await planned.query(bare_collection, [Query(rows[0], 3, Condition.parse(too_many))])
    assert [type(operation) for operation in _reads(spy_backend)] == [QueryRecords]


def _filters(backend: SpyBackend) -> int:
    """How often Chroma has evaluated a filter."""
    return sum(
        (read.where is not None or read.where_document is not None)
        and not (isinstance(read, QueryRecords) and read.matching_ids is not None)
        for read in _reads(backend)
    )


@pytest.mark.parametrize("matches", [3, MAX_EXACT_VALUES // DIMENSION, MAX_EXACT_VALUES // DIMENSION + 1])
async def test_the_first_query_of_a_filter_evaluates_it_once(
    bare: Store, spy_backend: SpyBackend, bare_collection: str, matches: int
) -> None:
    rows = varying_lengths(matches, 16)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)  # so that the index loses none
    await add_documents(bare, bare_collection, documents_of(rows))
    planned = FilterPlanningStore(bare)
    query = Query(rows[1], 2, Condition.parse({"one": {"$ne": "none"}}))
    spy_backend.operations.clear()
    assert (await planned.query(bare_collection, [query])).matches[0].ids[0] == "1"
    first, *rest = _reads(spy_backend)
    assert isinstance(first, GetRecords)
    assert (first.columns, first.limit) == ((), MAX_MATCHING_IDS + 1)
    assert _filters(spy_backend) == 1
    exact = matches <= MAX_EXACT_VALUES // DIMENSION
    assert {type(call) for call in rest} == {GetRecords if exact else QueryRecords}
    spy_backend.operations.clear()
    await planned.query(bare_collection, [query])
    assert _filters(spy_backend) == (1 if exact else 0)


@pytest.mark.parametrize(("characters", "calls"), [(600, 1), (5_000, 2)])
async def test_texts_are_read_with_the_embeddings_of_the_matches_unless_they_are_long(
    bare: Store, spy_backend: SpyBackend, bare_collection: str, characters: int, calls: int
) -> None:
    rows = varying_lengths(40, 33)
    await add_documents(bare, bare_collection, replace(documents_of(rows), texts=["x" * characters] * len(rows)))
    planned = FilterPlanningStore(bare)
    query = Query(rows[1], 2, Condition.parse({"one": {"$ne": "none"}}))
    first = (await planned.query(bare_collection, [query])).matches[0]
    spy_backend.operations.clear()
    second = (await planned.query(bare_collection, [query])).matches[0]
    assert (first.ids, first.distances) == (second.ids, second.distances)
    assert [type(read) for read in _reads(spy_backend)] == [GetRecords] * calls


async def test_matches_that_are_too_many_for_an_exact_query_are_searched_by_their_ids(
    bare: Store, spy_backend: SpyBackend, bare_collection: str
) -> None:
    matches = MAX_EXACT_VALUES // DIMENSION + 1
    rows = varying_lengths(3 * matches, 19)
    rows[matches:, 0] += 10  # no neighbour of a query there matches
    documents = documents_of(rows)
    metadatas = [{**metadata, "first": row < matches} for row, metadata in enumerate(documents.metadatas)]
    await add_documents(bare, bare_collection, replace(documents, metadatas=metadatas))
    planned = FilterPlanningStore(bare)
    query = Query(rows[-1], 5, Condition.parse({"first": True}))
    spy_backend.operations.clear()
    hits = (await planned.query(bare_collection, [query])).matches[0]
    assert (len(hits.ids), {metadata["first"] for metadata in hits.metadatas}) == (5, {True})
    ids, by_ids = _reads(spy_backend)
    assert isinstance(ids, GetRecords)
    assert isinstance(by_ids, QueryRecords)
    assert by_ids.matching_ids == documents.ids[:matches]
    assert _filters(spy_backend) == 1
    # A third of all documents match, so post-filtering is tried next. It yields too few results.
    where = query.condition.chroma_where
    for filters in ([None, where], [where]):
        spy_backend.operations.clear()
        assert (await planned.query(bare_collection, [query])).matches[0].ids == hits.ids
        assert [operation.where for operation in _reads(spy_backend)] == filters


@pytest.mark.parametrize(("top_k", "is_tried"), [(5, True), (100, False)])
async def test_post_filtering_is_tried_if_as_many_documents_match_as_it_needs(
    bare: Store, spy_backend: SpyBackend, bare_collection: str, top_k: int, is_tried: bool
) -> None:
    matches = MAX_EXACT_VALUES // DIMENSION + 1
    rows = varying_lengths(3 * matches, 27)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    documents = documents_of(rows)
    metadatas = [{**metadata, "third": row % 3 == 0} for row, metadata in enumerate(documents.metadatas)]
    await add_documents(bare, bare_collection, replace(documents, metadatas=metadatas))
    planned = FilterPlanningStore(bare)
    query = Query(rows[0], top_k, Condition.parse({"third": True}))
    first = (await planned.query(bare_collection, [query])).matches[0]
    spy_backend.operations.clear()
    second = (await planned.query(bare_collection, [query])).matches[0]
    assert (first.ids[0], len(first.ids)) == (second.ids[0], len(second.ids)) == ("0", top_k)
    assert [operation.where is None for operation in _reads(spy_backend)] == [is_tried]


async def test_the_documents_of_a_collection_are_counted_for_one_new_filter_in_a_hundred(
    bare: Store, spy_backend: SpyBackend, bare_collection: str
) -> None:
    await add_documents(bare, bare_collection, documents_of(varying_lengths(40, 28)))
    planned = FilterPlanningStore(bare)
    counts = []
    for number in range(COUNT_EVERY + 2):
        spy_backend.operations.clear()
        where = {"one": {"$nin": ["none", str(100 + number)]}}
        await planned.query(bare_collection, [Query(varying_lengths(1, 29)[0], 2, Condition.parse(where))])
        counts.append(sum(isinstance(operation, CountRecords) for operation in spy_backend.operations))
    assert [number for number, count in enumerate(counts) if count] == [0, COUNT_EVERY]
    assert max(counts) == 1


def matching(rows: Matrix, query: int, first: int, last: int) -> Query:
    """A query for ten of the documents from one number to another."""
    numbers = [str(number) for number in range(first, last)]
    return Query(rows[query], 10, Condition.parse({"one": {"$in": numbers}}))


async def _read_counts(planned: FilterPlanningStore, spy: SpyBackend, name: str, queries: Sequence[Query]) -> list[int]:
    """The number of calls to Chroma that read documents, for each query."""
    counts = []
    for query in queries:
        spy.operations.clear()
        hits = (await planned.query(name, [query])).matches[0]
        assert len(hits.ids) == 10
        counts.append(len(_reads(spy)))
    return counts


async def test_after_new_filters_that_few_documents_match_the_ids_of_the_next_one_are_not_read(
    bare: Store, spy_backend: SpyBackend, bare_collection: str
) -> None:
    rows = varying_lengths(200, 31)
    await add_documents(bare, bare_collection, documents_of(rows))
    planned = FilterPlanningStore(bare)
    queries = [matching(rows, number, number, number + 50) for number in range(EXPECT_FEW_AFTER + 2)]
    counts = await _read_counts(planned, spy_backend, bare_collection, queries)
    # The ids, the embeddings of all matches, the results. Texts turn out to be short, so the results need no call of
    # their own. Finally, the ids are not read.
    assert counts == [3] + [2] * (EXPECT_FEW_AFTER - 1) + [1] * 2
    nearest = (await planned.query(bare_collection, [matching(rows, 120, 100, 150)])).matches[0]
    distances = np.square(rows[100:150] - rows[120]).sum(axis=1)
    assert nearest.ids == [str(100 + index) for index in np.argsort(distances, kind="stable")[:10]]


async def test_a_filter_that_more_documents_match_than_expected_has_its_ids_read(
    bare: Store, spy_backend: SpyBackend, bare_collection: str
) -> None:
    many = MAX_EXACT_VALUES // DIMENSION + 1
    rows = varying_lengths(many + 100, 32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    await add_documents(bare, bare_collection, documents_of(rows))
    planned = FilterPlanningStore(bare)
    few = [matching(rows, number, number, number + 50) for number in range(EXPECT_FEW_AFTER)]
    await _read_counts(planned, spy_backend, bare_collection, few)
    (count,) = await _read_counts(planned, spy_backend, bare_collection, [matching(rows, 9, 0, many + 50)])
    assert count == 3  # embeddings of one match too many, the ids, Chroma's search of these
    await _read_counts(planned, spy_backend, bare_collection, [matching(rows, 60, 55, 105)])
    filtered = [read for read in _reads(spy_backend) if isinstance(read, GetRecords) and read.where is not None]
    assert [read.columns for read in filtered] == [()]  # few are not expected any more


async def test_the_ids_of_a_new_filter_of_a_large_collection_are_read(
    bare: Store, spy_backend: SpyBackend, bare_collection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_filters, "MAX_DOCUMENTS", 199)
    rows = varying_lengths(200, 33)
    await add_documents(bare, bare_collection, documents_of(rows))
    queries = [matching(rows, number, number, number + 50) for number in range(EXPECT_FEW_AFTER + 1)]
    counts = await _read_counts(FilterPlanningStore(bare), spy_backend, bare_collection, queries)
    assert counts == [3] + [2] * EXPECT_FEW_AFTER


class ConcurrentStore(StoreLayer):
    """A store that reads ids only while a query is in flight."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.has_query = asyncio.Event()

    async def get_ids(self, name: str, selection: Selection, *, limit: int | None = None, offset: int = 0) -> list[str]:
        await asyncio.wait_for(self.has_query.wait(), 30)
        return await super().get_ids(name, selection, limit=limit, offset=offset)

    async def query(self, name: str, queries: Sequence[Query]) -> CollectionMatches:
        self.has_query.set()
        return await super().query(name, queries)


async def test_a_new_filter_is_post_filtered_while_its_matches_are_read_if_many_matched_the_last_one(
    bare: Store, spy_backend: SpyBackend, bare_collection: str
) -> None:
    many = MAX_EXACT_VALUES // DIMENSION + 1
    rows = varying_lengths(many + 3, 26)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    await add_documents(bare, bare_collection, documents_of(rows))
    inner = ConcurrentStore(bare)
    planned = FilterPlanningStore(inner)
    inner.has_query.set()
    limits, neighbours = [], []
    for unlike in ("", "0", "1", "2"):
        query = Query(rows[-1], 2, Condition.parse({"one": {"$ne": unlike}}))
        spy_backend.operations.clear()
        hits = (await planned.query(bare_collection, [query])).matches[0]
        assert hits.ids[0] == str(many + 2)
        first, second = sorted(_reads(spy_backend), key=lambda read: isinstance(read, QueryRecords))
        assert isinstance(first, GetRecords)
        assert isinstance(second, QueryRecords)
        limits.append(first.limit)
        neighbours.append(second.n_results)
        inner.has_query.clear()
    assert limits == [MAX_MATCHING_IDS + 1, many, many, many]
    assert neighbours == [2, 5, 5, 5]  # of the ids of the first filter; all match: 2 and two standard deviations
    few = Query(rows[5], 2, Condition.parse({"one": {"$in": ["5", "6"]}}))
    for _ in range(2):
        hits = (await planned.query(bare_collection, [few])).matches[0]
        assert sorted(hits.ids) == ["5", "6"]
    inner.has_query.set()
    spy_backend.operations.clear()
    await planned.query(bare_collection, [replace(few, condition=Condition.parse({"one": {"$in": ["7", "8"]}}))])
    assert QueryRecords not in [type(read) for read in _reads(spy_backend)]


async def test_more_ids_than_one_call_reads_are_not_read_for_a_query(
    bare: Store, spy_backend: SpyBackend, bare_collection: str
) -> None:
    matches = MAX_EXACT_VALUES // DIMENSION + 1
    await add_documents(bare, bare_collection, documents_of(varying_lengths(matches, 22)))
    planned = FilterPlanningStore(bare, max_ids=lambda: 20)
    spy_backend.operations.clear()
    query = Query(varying_lengths(1, 23)[0], 2, Condition.parse({"one": {"$ne": "none"}}))
    await planned.query(bare_collection, [query])
    first, *rest = _reads(spy_backend)
    assert isinstance(first, GetRecords)
    assert first.limit == matches
    assert [operation for operation in rest if isinstance(operation, QueryRecords) and operation.matching_ids] == []


async def test_the_first_query_of_a_text_filter_evaluates_it_once(
    bare: Store, spy_backend: SpyBackend, bare_collection: str
) -> None:
    rows = varying_lengths(60, 17)
    await add_documents(bare, bare_collection, documents_of(rows))
    spy_backend.operations.clear()
    condition = Condition.parse(None, {"$contains": "text of 1"})
    hits = (await FilterPlanningStore(bare).query(bare_collection, [Query(rows[1], 20, condition)])).matches[0]
    assert (len(hits.ids), len(_reads(spy_backend)), _filters(spy_backend)) == (11, 1, 1)


@pytest.mark.parametrize("where", [{"half": True}, {"weight": {"$lt": 0.1 + 0.2}}])
@pytest.mark.parametrize("deleted", [[], ["deleted"]], ids=["no longer matching", "deleted"])
@pytest.mark.parametrize("count", [3, 120])
async def test_ids_that_no_longer_match_are_no_results(
    bare: Store, bare_collection: str, where: dict[str, object], count: int, deleted: list[str]
) -> None:
    """A filter is evaluated first, and the documents are read afterwards."""
    rows = varying_lengths(count, 18)
    documents = documents_of(rows)
    metadatas = [{**metadata, "weight": row % 2} for row, metadata in enumerate(documents.metadatas)]
    await add_documents(bare, bare_collection, replace(documents, metadatas=metadatas))
    query = Query(rows[1], count, Condition.parse(where))
    outdated = [*documents.ids, *deleted]
    found = await bare.query_exact(bare_collection, [query], MAX_EXACT_VALUES // DIMENSION, outdated)
    assert found is not None
    assert sorted(found.matches[0].ids) == sorted(documents.ids[::2])


@pytest.mark.parametrize("deleted", [[], ["deleted"]], ids=["no longer matching", "deleted"])
async def test_ids_that_no_longer_match_are_no_results_of_a_search_by_ids(any_bare: Store, deleted: list[str]) -> None:
    """Chroma fails if it is given an id that is not stored."""
    name = f"t-{uuid4().hex}"
    await any_bare.create_collection(name, {}, "l2")
    rows = varying_lengths(60, 24)
    documents = documents_of(rows)
    await add_documents(any_bare, name, documents)
    condition = Condition.parse({"half": True})
    outdated = [*documents.ids, *deleted]
    query = Query(rows[1], 30, condition, matching_ids=outdated)
    hits = (await any_bare.query(name, [query])).matches[0]
    assert sorted(hits.ids) == sorted(documents.ids[::2])
    current = replace(query, matching_ids=documents.ids[::2], top_k=5)
    by_filter = replace(current, matching_ids=None)
    by_ids, by_filter_hits = [(await any_bare.query(name, [each])).matches[0] for each in (current, by_filter)]
    assert (by_ids.ids, by_ids.distances) == (by_filter_hits.ids, by_filter_hits.distances)
    await any_bare.delete_collection(name)


async def test_a_search_by_ids_of_which_one_is_gone_is_not_repeated_by_ids(
    spy_backend: SpyBackend, bare: Store, bare_collection: str
) -> None:
    rows = varying_lengths(10, 25)
    await add_documents(bare, bare_collection, documents_of(rows))
    retrying = ChromaStore(with_retries(spy_backend), 1000)
    spy_backend.operations.clear()
    query = Query(rows[1], 2, Condition.parse({"half": True}), matching_ids=["0", "gone"])
    hits = (await retrying.query(bare_collection, [query])).matches[0]
    assert len(hits.ids) == 2
    reads = _reads(spy_backend)
    assert [isinstance(read, QueryRecords) and read.matching_ids is not None for read in reads] == [True, False]


async def test_a_filter_is_exact_again_after_a_deletion(
    bare: Store, spy_backend: SpyBackend, bare_collection: str
) -> None:
    rows = varying_lengths(MAX_EXACT_VALUES // DIMENSION + 1, 12)
    await add_documents(bare, bare_collection, documents_of(rows))
    planned = FilterPlanningStore(bare)
    query = Query(rows[0], 3, Condition.parse({"one": {"$ne": "none"}}))
    await planned.query(bare_collection, [query])
    await planned.delete(bare_collection, of_ids("1"))
    spy_backend.operations.clear()
    await planned.query(bare_collection, [query])
    assert QueryRecords not in [type(operation) for operation in _reads(spy_backend)]


async def test_a_small_collection_is_compared_without_a_filter(
    bare: Store, spy_backend: SpyBackend, bare_collection: str
) -> None:
    small = SMALL_COLLECTION_VALUES // DIMENSION
    rows = varying_lengths(small + 1, 13)
    planned = FilterPlanningStore(bare)
    await add_documents(bare, bare_collection, documents_of(rows[:small]))
    spy_backend.operations.clear()
    hits = (await planned.query(bare_collection, [Query(rows[3], 2)])).matches[0]
    assert hits.ids[0] == "3"
    assert [type(operation) for operation in _reads(spy_backend)] == [GetRecords]
    await upsert_documents(bare, bare_collection, documents_of(rows))
    await planned.query(bare_collection, [Query(rows[3], 2)])
    spy_backend.operations.clear()
    await planned.query(bare_collection, [Query(rows[3], 2)])
    assert [type(operation) for operation in _reads(spy_backend)] == [QueryRecords]


@pytest.mark.parametrize("distance", ["cosine", "l2", "ip"])
async def test_exact_distances_are_chromas(store: Store, distance: Distance) -> None:
    name = f"t-{uuid4().hex}"
    await store.create_collection(name, {}, distance)
    rows = np.concatenate([varying_lengths(40, 14), np.zeros((1, DIMENSION), dtype=np.float32)])
    await add_documents(store, name, documents_of(rows))
    condition = Condition.parse({"one": {"$ne": "none"}})
    query = Query(varying_lengths(1, 15)[0], 41, condition)
    exact = await store.query_exact(name, [query], 100)
    assert exact is not None
    approximate = await store.query(name, [Query(query.embedding, 10)])
    of = dict(zip(exact.matches[0].ids, exact.matches[0].distances, strict=True))
    for key, other in zip(approximate.matches[0].ids, approximate.matches[0].distances, strict=True):
        assert of[key] == pytest.approx(other, rel=1e-5, abs=1e-6)
    await store.delete_collection(name)
