"""Planned queries return the same results as Chroma's filter, and no fewer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstore import settings as service_settings
from ragstore.app import create_store
from ragstore.chroma.chroma_store import ChromaStore
from ragstore.filters import where
from ragstore.model.documents import Batch
from ragstore.model.filters.condition import Condition
from ragstore.model.metadata import Metadata
from ragstore.model.queries import Matches, Query
from ragstore.model.vectors import Matrix
from ragstore.store import filter_planning
from ragstore.store.batching.store import BatchingStore
from ragstore.store.filter_planning import FilterPlanningStore
from ragstore.store.layer import StoreLayer
from ragstore.store.protocol import Store
from tests.support.factories import add_documents
from tests.support.fake_clock_store import FakeClockStore

# -- results ------------------------------------------------------------------------------------


def clustered(count: int, dimension: int, clusters: int, seed: int) -> tuple[Matrix, np.ndarray]:
    """Vectors around a few centres, and the index of each vector's centre."""
    generator = np.random.default_rng(seed)
    of = generator.integers(0, clusters, count)
    centres = generator.normal(size=(clusters, dimension)) * 3
    return (centres[of] + generator.normal(size=(count, dimension))).astype(np.float32), of


CLUSTERS = 6
VECTORS, OF_CLUSTER = clustered(600, 8, CLUSTERS, seed=1)
CLUSTERED: list[Metadata] = [{"n": n, "cluster": int(OF_CLUSTER[n]), "tags": [f"t{n % 7}"]} for n in range(600)]

COMPARISONS = st.one_of(
    st.builds(lambda bound: {"n": {"$lt": bound}}, st.integers(0, 600)),
    st.builds(lambda bound: {"n": {"$gte": bound}}, st.floats(0, 600).map(lambda bound: round(bound, 3))),
    st.builds(lambda of: {"cluster": of}, st.integers(0, CLUSTERS)),
    st.builds(
        lambda of: {"cluster": {"$nin": of}}, st.lists(st.integers(0, CLUSTERS - 1), min_size=1, max_size=CLUSTERS)
    ),
    st.builds(lambda tag: {"tags": {"$contains": f"t{tag}"}}, st.integers(0, 7)),
)
FILTERS = COMPARISONS | st.builds(
    lambda operator, clauses: {operator: clauses},
    st.sampled_from(("$and", "$or")),
    st.lists(COMPARISONS, min_size=1, max_size=3),
)
QUERIES = st.tuples(st.integers(0, 599), st.sampled_from((1, 2, 5, 10, 30, 100, 300)))


@pytest.fixture(scope="module")
async def clusters(bare: Store) -> str:
    """A collection of clustered vectors."""
    await bare.create_collection("clusters", {}, "l2")
    ids = [str(index) for index in range(len(VECTORS))]
    await add_documents(bare, "clusters", Batch(ids, ids, CLUSTERED, VECTORS))
    return "clusters"


@pytest.fixture(scope="module", params=["by filter", "by ids"])
def experienced(request: pytest.FixtureRequest, bare: Store) -> Iterator[tuple[FilterPlanningStore, FakeClockStore]]:
    """A planning store that is kept from example to example, so that it has statistics.

    It compares nothing exactly. The matches of a new filter are searched by the filter, or by their ids.
    """
    inner = FakeClockStore(bare)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filter_planning, "MAX_EXACT_VALUES", 0)
        yield FilterPlanningStore(inner, lambda: inner.now, is_exact=request.param == "by ids"), inner


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(filtered=FILTERS, queries=st.lists(QUERIES, min_size=1, max_size=4), filter_cost=st.sampled_from((0.1, 100.0)))
async def test_results_are_complete_match_the_filter_and_are_sorted(
    clusters: str,
    experienced: tuple[FilterPlanningStore, FakeClockStore],
    filtered: dict[str, object],
    queries: list[tuple[int, int]],
    filter_cost: float,
) -> None:
    store, inner = experienced
    inner.filtered_seconds = filter_cost
    parsed = where.parse(filtered)
    matching = {str(n) for n, metadata in enumerate(CLUSTERED) if where.matches(parsed, metadata)}
    found = await store.query(clusters, [Query(VECTORS[index], top_k, Condition(parsed)) for index, top_k in queries])
    for hits, (index, top_k) in zip(found.matches, queries, strict=True):
        assert len(hits.ids) == len(set(hits.ids)) == min(top_k, len(matching))
        assert set(hits.ids) <= matching
        assert hits.distances == sorted(hits.distances)
        distances = ((VECTORS[[int(name) for name in hits.ids]] - VECTORS[index]) ** 2).sum(axis=1)
        assert hits.distances == pytest.approx(distances.tolist(), rel=1e-4, abs=1e-3)


@pytest.fixture
def store(bare: Store) -> FilterPlanningStore:
    """A planning store without statistics."""
    inner = FakeClockStore(bare)
    return FilterPlanningStore(inner, lambda: inner.now, is_exact=False)


@pytest.fixture(scope="module")
async def corpus(bare: Store) -> AsyncIterator[tuple[str, Matrix, list[Metadata]]]:
    """2,000 clustered vectors, with metadata that match 60, 20 and 1 %, at random and by cluster."""
    vectors, of = clustered(2000, 32, 20, seed=2)
    draws = np.random.default_rng(3).random(2000)
    metadatas: list[Metadata] = [
        {"draw": round(float(draw), 6), "cluster": int(cluster)} for draw, cluster in zip(draws, of, strict=True)
    ]
    await bare.create_collection("corpus", {}, "cosine")
    for start in range(0, 2000, 1000):
        rows = range(start, start + 1000)
        ids = [str(row) for row in rows]
        await add_documents(
            bare,
            "corpus",
            Batch(ids, ids, [metadatas[row] for row in rows], vectors[start : start + 1000]),
        )
    yield "corpus", vectors, metadatas
    await bare.delete_collection("corpus")


def _recall(found: list[Matches], embeddings: Matrix, vectors: Matrix, matching: np.ndarray) -> float:
    """Fraction of the five nearest matching documents that was found."""
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    closeness = embeddings @ units[matching].T
    nearest = matching[np.argsort(-closeness, axis=1)[:, :5]]
    return float(
        np.mean([len({*hits.ids} & {str(row) for row in best}) / 5 for hits, best in zip(found, nearest, strict=True)])
    )


@pytest.mark.parametrize(
    "where_given",
    [
        {"draw": {"$lt": 0.6}},
        {"draw": {"$lt": 0.2}},
        {"draw": {"$lt": 0.01}},
        {"cluster": {"$lt": 12}},
        {"cluster": {"$in": [1, 5, 9, 13]}},
        {"$and": [{"cluster": 3}, {"draw": {"$lt": 0.2}}]},
    ],
    ids=str,
)
async def test_recall_is_no_worse_than_with_chromas_filter(
    store: FilterPlanningStore, bare: Store, corpus: tuple[str, Matrix, list[Metadata]], where_given: dict[str, object]
) -> None:
    name, vectors, metadatas = corpus
    parsed = where.parse(where_given)
    matching = np.array([row for row, metadata in enumerate(metadatas) if where.matches(parsed, metadata)])
    generator = np.random.default_rng(4)
    noise = generator.normal(size=(200, 32)).astype(np.float32)
    embeddings = vectors[generator.integers(0, 2000, 200)] + noise
    queries = [Query(embedding, 5, Condition(parsed)) for embedding in embeddings]
    planned: list[Matches] = []
    plain: list[Matches] = []
    for start in range(0, 200, 20):
        planned += (await store.query(name, queries[start : start + 20])).matches
        plain += (await bare.query(name, queries[start : start + 20])).matches
    assert all(len(hits.ids) == 5 for hits in planned)
    assert _recall(planned, embeddings, vectors, matching) >= _recall(plain, embeddings, vectors, matching) - 0.005


# -- settings -----------------------------------------------------------------------------------


def _stack(folder: Path, **environ: str) -> list[type]:
    """The stores that plan, batch and call Chroma, as the service stacks them, from the outermost."""
    store: object = create_store(service_settings.load({"RAGSTORE_DATA_PATH": str(folder), **environ}))
    stack = [type(store)]
    while isinstance(store, StoreLayer):
        store = store.inner
        stack.append(type(store))
    return [kind for kind in stack if kind in (BatchingStore, FilterPlanningStore, ChromaStore)]


def test_settings_turn_planning_and_coalescing_off(tmp_path: Path) -> None:
    assert _stack(tmp_path) == [BatchingStore, FilterPlanningStore, ChromaStore]
    assert _stack(tmp_path, RAGSTORE_PLANNING="false") == [BatchingStore, ChromaStore]
    assert _stack(tmp_path, RAGSTORE_COALESCING="false") == [FilterPlanningStore, ChromaStore]
    assert _stack(tmp_path, RAGSTORE_COALESCING="false", RAGSTORE_PLANNING="false") == [ChromaStore]
