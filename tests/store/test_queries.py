"""Similarity queries, over every store."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

from ragstore.errors import DimensionMismatch
from ragstore.model.collections import Distance
from ragstore.model.documents import EVERYTHING, Batch
from ragstore.model.filters import chroma_where, where_document
from ragstore.model.metadata import Metadata
from ragstore.store.protocol import Store
from tests.support.factories import add_documents, batch, batch_of, make_query, matrix, upsert_documents

pytestmark = pytest.mark.process

POINTS = matrix([1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [-1.0, 0.0], [2.0, 2.0])
SHELVES: list[Metadata] = [{"shelf": index % 2} for index in range(5)]
TEXTS = ["red", "green", "red green", "blue", "green blue"]


def _measured(distance: Distance, one: np.ndarray, other: np.ndarray) -> float:
    if distance == "l2":
        return float(((one - other) ** 2).sum())
    product = float(one @ other)
    if distance == "ip":
        return 1.0 - product
    return 1.0 - product / float(np.linalg.norm(one) * np.linalg.norm(other))


@pytest.fixture
async def points(store: Store, store_collection: str) -> str:
    """A collection of five points in the plane."""
    await add_documents(
        store, store_collection, Batch([str(index) for index in range(5)], TEXTS, list(SHELVES), POINTS)
    )
    return store_collection


@pytest.mark.parametrize("distance", ["cosine", "l2", "ip"])
async def test_hits_are_the_nearest_first_with_their_distances(store: Store, name: str, distance: Distance) -> None:
    await store.create_collection(name, {"a": 1}, distance)
    await add_documents(store, name, Batch([str(index) for index in range(5)], TEXTS, list(SHELVES), POINTS))
    question = np.array([0.8, 0.3], dtype=np.float32)
    found = await store.query(name, [make_query(0.8, 0.3, top_k=5)])
    expected = sorted((_measured(distance, question, point), str(index)) for index, point in enumerate(POINTS))
    hits = found.matches[0]
    assert hits.ids == [index for _, index in expected]
    assert hits.distances == pytest.approx([far for far, _ in expected], abs=1e-5)
    assert hits.texts == [TEXTS[int(index)] for index in hits.ids]
    assert hits.metadatas == [SHELVES[int(index)] for index in hits.ids]
    assert hits.embeddings is None
    assert (found.collection.name, found.collection.metadata, found.collection.distance) == (name, {"a": 1}, distance)


@pytest.mark.parametrize(("top_k", "count"), [(1, 1), (4, 4), (5, 5), (6, 5), (1000, 5)])
async def test_there_are_top_k_hits_or_as_many_as_there_are(store: Store, points: str, top_k: int, count: int) -> None:
    assert len((await store.query(points, [make_query(1, 1, top_k=top_k)])).matches[0].ids) == count


async def test_hits_carry_their_embeddings_when_asked_for(store: Store, points: str) -> None:
    hits = (await store.query(points, [make_query(0, 1, top_k=3, with_embeddings=True)])).matches[0]
    assert hits.embeddings is not None
    assert np.array_equal(hits.embeddings, POINTS[[int(index) for index in hits.ids]])


async def test_a_query_of_another_dimension_is_refused(store: Store, points: str) -> None:
    with pytest.raises(DimensionMismatch, match="dimension 3 does not match the collection's dimension 2"):
        await store.query(points, [make_query(1, 2, 3)])


async def test_an_empty_collection_has_no_hits(store: Store, store_collection: str) -> None:
    found = await store.query(
        store_collection, [make_query(1, 2, 3), make_query(1), make_query(1, where_given={"a": 1})]
    )
    assert [hits.ids for hits in found.matches] == [[], [], []]


async def test_an_emptied_collection_has_no_hits_and_keeps_its_dimension(store: Store, points: str) -> None:
    await store.delete(points, EVERYTHING)
    assert [hits.ids for hits in (await store.query(points, [make_query(1, 2)])).matches] == [[]]
    with pytest.raises(DimensionMismatch):
        await store.query(points, [make_query(1, 2, 3)])


async def test_only_what_the_filters_select_is_found(store: Store, points: str) -> None:
    async def ids(**given: object) -> list[str]:
        return (await store.query(points, [make_query(1, 0, **given)])).matches[0].ids  # type: ignore[arg-type]

    assert await ids(where_given={"shelf": 0}) == ["0", "2", "4"]
    assert await ids(text_given={"$contains": "green"}) == ["2", "1", "4"]
    assert await ids(where_given={"shelf": 0}, text_given={"$contains": "green"}) == ["2", "4"]
    assert await ids(where_given={"shelf": 0}, top_k=1) == ["0"]
    assert await ids(where_given={"shelf": 9}) == []
    assert await ids(where_given={"missing": {"$ne": 1}}, top_k=2) == ["0", "2"]


async def test_each_of_several_queries_gets_its_own_answer(store: Store, points: str) -> None:
    queries = [
        make_query(1, 0, top_k=1),
        make_query(1, 0, top_k=3, where_given={"shelf": 0}),
        make_query(0, 1, top_k=2),
        make_query(0, 1, top_k=5, where_given={"shelf": 0}),
        make_query(-1, 0, top_k=1, where_given={"shelf": 1}, text_given={"$contains": "green"}),
        make_query(-1, 0, top_k=2, with_embeddings=True),
        make_query(1, 0, where_given={"shelf": 9}),
    ]
    together = (await store.query(points, queries)).matches
    alone = [(await store.query(points, [query])).matches[0] for query in queries]
    for hits, single in zip(together, alone, strict=True):
        assert (hits.ids, hits.distances) == (single.ids, single.distances)
        assert (hits.embeddings is None) == (single.embeddings is None)
    assert [hits.ids for hits in together][:4] == [["0"], ["0", "2", "4"], ["1", "2"], ["2", "0", "4"]]
    assert [len(hits.ids) for hits in together[4:]] == [1, 2, 0]


async def test_concurrent_queries_get_their_own_answers(store: Store, store_collection: str) -> None:
    await add_documents(store, store_collection, batch(*(str(index) for index in range(1, 51))))
    asks = [store.query(store_collection, [make_query(index, 1, top_k=1 + index % 3)]) for index in range(1, 51)]
    for index, found in enumerate(await asyncio.gather(*asks), start=1):
        assert found.matches[0].ids[0] == str(index)
        assert len(found.matches[0].ids) == 1 + index % 3


@pytest.mark.parametrize("distance", ["l2", "ip"])
async def test_distances_too_large_for_float32_are_large_numbers(store: Store, name: str, distance: Distance) -> None:
    await store.create_collection(name, {}, distance)
    await add_documents(store, name, Batch(["far", "near"], ["", ""], [{}, {}], matrix([3e38, 3e38], [1.0, 1.0])))
    for sign in (1, -1):
        hits = (await store.query(name, [make_query(sign * 3e38, sign * 3e38)])).matches[0]
        assert set(hits.ids) <= {"far", "near"}
        assert hits.ids
        assert all(math.isfinite(far) for far in hits.distances)
        assert hits.distances == sorted(hits.distances)


async def test_what_was_just_written_is_found_and_what_was_just_deleted_is_not(store: Store, points: str) -> None:
    await upsert_documents(store, points, Batch(["new"], ["new"], [{}], matrix([1.0, 0.01])))
    assert (await store.query(points, [make_query(1, 0, top_k=2)])).matches[0].ids == ["0", "new"]
    await upsert_documents(store, points, Batch(["0"], ["moved"], [{}], matrix([-5.0, 0.0])))
    hits = (await store.query(points, [make_query(1, 0, top_k=1)])).matches[0]
    assert (hits.ids, hits.texts) == (["new"], ["new"])


async def test_the_zero_vector_is_answered_under_cosine(store: Store, name: str) -> None:
    await store.create_collection(name, {}, "cosine")
    await add_documents(store, name, batch_of([{}, {}]))
    hits = (await store.query(name, [make_query(0, 0)])).matches[0]
    assert len(hits.ids) == 2
    assert all(math.isfinite(far) for far in hits.distances)


async def test_a_filter_is_put_in_chroma_s_form_once_on_its_way_down(
    store: Store, points: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []

    def note(module: ModuleType) -> None:
        to_chroma: Callable[[object], dict[str, object]] = module.to_chroma

        def noted(parsed: object) -> dict[str, object]:
            made.append(parsed)
            return to_chroma(parsed)

        monkeypatch.setattr(module, "to_chroma", noted)

    note(chroma_where)
    note(where_document)
    query = make_query(1.0, 0.0, where_given={"shelf": 1}, text_given={"$contains": "green"})
    assert [hits.ids for hits in (await store.query(points, [query])).matches] == [["1"]]
    assert made == [query.condition.where, query.condition.where_document]


async def test_queries_that_leave_together_may_want_more_results_than_chroma_gives_in_a_call(
    store: Store, store_collection: str
) -> None:
    """33 queries of 1,000 results each fail in one call of Chroma's."""
    await add_documents(store, store_collection, batch(*(f"d{number}" for number in range(1000))))
    found = await store.query(store_collection, [make_query(number, 1, top_k=1000) for number in range(40)])
    assert [len(hits.ids) > 900 for hits in found.matches] == [True] * 40
