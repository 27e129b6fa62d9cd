"""Each vector store behaves in the same way, whatever its engine."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from ragstore.kit.errors import InvalidRequest
from ragstore_client import Where
from ragstore_gateway.errors import CollectionMissing, DimensionMismatch
from ragstore_gateway.vector_stores.vector_store import MAX_BATCH, MAX_HITS, MetadataValue, Record, VectorStore
from tests.gateway.vector_stores.conftest import Engine
from tests.support.vector_records import DIMENSION, QUESTION, numbers, record, record_id, vector

# Creation


async def test_a_collection_can_be_created_twice(store: VectorStore) -> None:
    await store.write([record(1)])
    await store.create()
    assert await store.count() == 1


async def test_creating_an_existing_collection_with_another_dimension_is_an_error(
    engine: Engine, collection: str
) -> None:
    gateway = await engine.start()
    small = gateway.open(engine.store_type, engine.parameters, collection, DIMENSION)
    large = gateway.open(engine.store_type, engine.parameters, collection, DIMENSION + 1)
    await small.create()
    with pytest.raises(DimensionMismatch):
        await large.create()
    await small.write([record(1)])
    with pytest.raises(DimensionMismatch):
        await large.create()
    await small.drop()


async def test_collections_do_not_see_each_other(engine: Engine, store: VectorStore, collection: str) -> None:
    other = await engine.open(f"{collection}-2")
    await other.create()
    await other.write([record(1, 0.9, "other")])
    await store.write([record(1, 0.5, "own")])
    assert [hit.text for hit in await store.search(QUESTION, 10)] == ["own"]
    await other.drop()
    assert await store.count() == 1


# Writing


async def test_a_written_record_is_found_with_its_text_and_its_metadata(store: VectorStore) -> None:
    await store.write([record(1, 0.6, "The boiler.", page=3, ratio=0.5, checked=True, heading="Heating")])
    [hit] = await store.search(QUESTION, 5)
    assert (hit.id, hit.text, hit.score) == (record_id(1), "The boiler.", 0.8)
    assert hit.metadata == {
        "document_id": "d1",
        "revision": "r1",
        "page": 3,
        "ratio": 0.5,
        "checked": True,
        "heading": "Heating",
    }
    assert hit.metadata["checked"] is True


async def test_a_record_replaces_the_one_with_its_id_as_a_whole(store: VectorStore) -> None:
    await store.write([record(1, 0.1, "old", page=3), record(2, 0.5)])
    await store.write([record(1, 0.9, "new", section="a")])
    hits = await store.search(QUESTION, 5)
    assert [(hit.text, hit.score) for hit in hits] == [("new", 0.95), ("text 2", 0.75)]
    assert hits[0].metadata == {"document_id": "d1", "revision": "r1", "section": "a"}
    assert await store.count() == 2


async def test_a_vector_of_another_dimension_stores_nothing(store: VectorStore) -> None:
    wrong = Record(record_id(2), "wrong", np.ones(DIMENSION + 1, dtype=np.float32), {"document_id": "d"})
    with pytest.raises(DimensionMismatch):
        await store.write([record(1), wrong, record(3)])
    assert await store.count() == 0


async def test_a_vector_with_numbers_that_are_not_finite_stores_nothing(store: VectorStore) -> None:
    wrong = Record(record_id(2), "wrong", np.full(DIMENSION, np.nan, dtype=np.float32), {"document_id": "d"})
    with pytest.raises(InvalidRequest):
        await store.write([record(1), wrong])
    assert await store.count() == 0


async def test_a_write_without_records_stores_nothing(store: VectorStore) -> None:
    await store.write([])
    assert await store.count() == 0


async def test_texts_and_metadata_may_have_any_characters(store: VectorStore) -> None:
    text = "Grüße 你好 👩‍👩‍👧 \u202e \n\t\"'\\ %s $1 {}"
    await store.write([record(1, 0.5, text, **{"naïve.key $x": text})])
    [hit] = await store.search(QUESTION, 5, where={"naïve.key $x": text})
    assert hit.text == text
    assert hit.metadata["naïve.key $x"] == text


async def test_a_nul_character_in_one_text_does_not_fail_the_batch(store: VectorStore) -> None:
    await store.write([record(1, 0.9, "a\0b", title="c\0d"), record(2, 0.5)])
    hits = await store.search(QUESTION, 5)
    assert numbers(hits) == [1, 2]
    assert len(hits[0].text) == 3


# The driver of Elasticsearch passes the body as bytes. aiohttp warns from 1 MiB on.
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_the_largest_batch_is_stored(store: VectorStore) -> None:
    texts = "x" * 4000
    await store.write([record(number, number / 1000, texts, n=number) for number in range(MAX_BATCH)])
    assert await store.count() == MAX_BATCH
    assert numbers(await store.search(QUESTION, 3)) == [MAX_BATCH - 1, MAX_BATCH - 2, MAX_BATCH - 3]


async def test_concurrent_writes_are_all_stored(store: VectorStore) -> None:
    batches = [[record(10 * batch + index, index / 10) for index in range(10)] for batch in range(8)]
    await asyncio.gather(*(store.write(batch) for batch in batches))
    assert await store.count() == 80
    assert len(await store.search(QUESTION, 100)) == 80


async def test_concurrent_writes_of_the_same_records_store_each_once(store: VectorStore) -> None:
    rows = [record(number, 0.5) for number in range(20)]
    await asyncio.gather(*(store.write(rows if turn % 2 else rows[::-1]) for turn in range(6)))
    assert await store.count() == 20


async def test_concurrent_creations_create_one_collection(engine: Engine, collection: str) -> None:
    gateway = await engine.start()
    opened = [gateway.open(engine.store_type, engine.parameters, collection, DIMENSION) for _ in range(4)]
    await asyncio.gather(*(each.create() for each in opened))
    await opened[0].write([record(1)])
    assert [await each.count() for each in opened] == [1, 1, 1, 1]
    await opened[0].drop()


# Searching


async def test_scores_are_relevance_from_0_to_1(store: VectorStore) -> None:
    await store.write([record(1, 1.0), record(2, 0.2), record(3, 0.0), record(4, -0.6), record(5, -1.0)])
    assert [hit.score for hit in await store.search(QUESTION, 5)] == [1.0, 0.6, 0.5, 0.2, 0.0]


async def test_lengths_of_vectors_do_not_change_scores(store: VectorStore) -> None:
    long = Record(record_id(1), "long", vector(0.6) * 50, {"document_id": "d"})
    await store.write([long, record(2, 0.5)])
    assert [hit.score for hit in await store.search(QUESTION * 7, 5)] == [0.8, 0.75]


async def test_a_zero_vector_is_unrelated_to_everything(store: VectorStore) -> None:
    zeros = np.zeros(DIMENSION, dtype=np.float32)
    await store.write([Record(record_id(1), "nothing", zeros, {"document_id": "d"}), record(2, 0.2), record(3, -0.2)])
    assert [(hit.id, hit.score) for hit in await store.search(QUESTION, 5)] == [
        (record_id(2), 0.6),
        (record_id(1), 0.5),
        (record_id(3), 0.4),
    ]
    assert [hit.score for hit in await store.search(zeros, 5)] == [0.5, 0.5, 0.5]


async def test_the_order_is_by_score_and_then_by_id(store: VectorStore) -> None:
    cosines = {7: 0.3, 3: 0.8, 9: 0.3, 1: 0.3, 5: -0.4, 2: 0.8}
    await store.write([record(number, cosine) for number, cosine in cosines.items()])
    assert numbers(await store.search(QUESTION, 10)) == [2, 3, 1, 7, 9, 5]


@pytest.mark.parametrize("limit", [1, 2, 7, 20])
async def test_ties_at_the_limit_are_resolved_by_id(store: VectorStore, limit: int) -> None:
    tied = [record(number, 0.5) for number in (17, 4, 30, 2, 25, 9, 11, 28, 1, 14, 22, 6)]
    await store.write([*tied, record(40, 0.9), *(record(number, 0.1) for number in range(50, 60))])
    expected = [40, 1, 2, 4, 6, 9, 11, 14, 17, 22, 25, 28, 30, *range(50, 60)]
    assert numbers(await store.search(QUESTION, limit)) == expected[:limit]


async def test_the_order_is_that_of_the_exact_cosines(store: VectorStore) -> None:
    cosines = np.linspace(-0.99, 0.99, 200)
    await store.write([record(number, cosine) for number, cosine in enumerate(cosines)])
    hits = await store.search(QUESTION, 50)
    assert numbers(hits) == list(range(199, 149, -1))
    assert [hit.score for hit in hits] == pytest.approx((1 + cosines[:149:-1]) / 2, abs=2e-6)


async def test_hits_below_the_minimum_score_are_omitted(store: VectorStore) -> None:
    await store.write([record(1, 0.9), record(2, 0.2), record(3, 0.1999), record(4, -0.5)])
    assert numbers(await store.search(QUESTION, 10, min_score=0.6)) == [1, 2]
    assert numbers(await store.search(QUESTION, 10, min_score=0.95)) == [1]
    assert await store.search(QUESTION, 10, min_score=0.96) == []


async def test_a_limit_above_the_maximum_counts_as_the_maximum(store: VectorStore) -> None:
    await store.write([record(1), record(2)])
    assert numbers(await store.search(QUESTION, MAX_HITS + 5)) == [1, 2]


async def test_a_question_of_another_dimension_is_an_error(store: VectorStore) -> None:
    with pytest.raises(DimensionMismatch):
        await store.search(np.ones(DIMENSION + 1, dtype=np.float32), 5)


async def test_an_empty_collection_has_no_hits(store: VectorStore) -> None:
    assert await store.search(QUESTION, 5) == []
    assert await store.count() == 0


# Filters

VALUES: dict[int, MetadataValue] = {1: 3, 2: 3.0, 3: 3.5, 4: "3", 5: True, 6: -2, 7: "x", 8: False, 9: 2**60}
"""The value of the key `n` of each record. The record 10 has no such key."""

FILTERS: list[tuple[Where, list[int]]] = [
    ({"n": 3}, [1, 2]),
    ({"n": 3.0}, [1, 2]),
    ({"n": {"$eq": 3.5}}, [3]),
    ({"n": "3"}, [4]),
    ({"n": True}, [5]),
    ({"n": False}, [8]),
    ({"n": 1}, []),
    ({"n": 2**60}, [9]),
    ({"n": {"$ne": 3}}, [3, 4, 5, 6, 7, 8, 9, 10]),
    ({"n": {"$ne": "x"}}, [1, 2, 3, 4, 5, 6, 8, 9, 10]),
    ({"n": {"$ne": True}}, [1, 2, 3, 4, 6, 7, 8, 9, 10]),
    ({"n": {"$gt": 3}}, [3, 9]),
    ({"n": {"$gte": 3}}, [1, 2, 3, 9]),
    ({"n": {"$lt": 3}}, [6]),
    ({"n": {"$lte": 3}}, [1, 2, 6]),
    ({"n": {"$gte": -2, "$lt": 3.5}}, [1, 2, 6]),
    ({"n": {"$in": [3, -2]}}, [1, 2, 6]),
    ({"n": {"$in": [3.5, -2.0]}}, [3, 6]),
    ({"n": {"$in": ["3", "x"]}}, [4, 7]),
    ({"n": {"$in": [True]}}, [5]),
    ({"n": {"$nin": [3, 3.5]}}, [4, 5, 6, 7, 8, 9, 10]),
    ({"n": {"$nin": ["3"]}}, [1, 2, 3, 5, 6, 7, 8, 9, 10]),
    ({"n": {"$contains": 3}}, []),
    ({"n": {"$not_contains": 3}}, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
    ({"missing": {"$ne": 1}}, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
    ({"missing": {"$gt": 1}}, []),
    ({"n": 3, "document_id": "d2"}, [2]),
    ({"$or": [{"n": True}, {"n": "3"}]}, [4, 5]),
    ({"$and": [{"n": {"$gt": 0}}, {"$or": [{"document_id": "d1"}, {"document_id": "d9"}]}]}, [1, 9]),
    ({"$or": [{"n": {"$contains": 3}}, {"$and": [{"n": {"$ne": 3}}, {"n": {"$lt": 5}}]}]}, [3, 6]),
    ({"document_id": {"$in": ["d1", "d10"]}, "n": {"$nin": [3]}}, [10]),
    ({}, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
]


async def test_each_filter_selects_the_same_records_in_search_and_count(store: VectorStore) -> None:
    await store.write([*(record(number, number / 100, n=value) for number, value in VALUES.items()), record(10, 0.1)])
    for where, expected in FILTERS:
        assert sorted(numbers(await store.search(QUESTION, 20, where=where))) == expected, where
        assert await store.count(where) == len(expected), where


async def test_a_filter_that_few_records_match_finds_them_all(store: VectorStore) -> None:
    rows = [record(number, 0.9 - number / 1000, rare=number % 50 == 49) for number in range(200)]
    await store.write(rows)
    assert numbers(await store.search(QUESTION, 10, where={"rare": True})) == [49, 99, 149, 199]


async def test_a_filter_finds_values_of_any_length(store: VectorStore) -> None:
    long = "x" * 40_000
    await store.write([record(1, 0.9, a=long), record(2, 0.8, a=f"{long}y"), record(3, 0.7, a="x")])
    for where, expected in (
        ({"a": long}, [1]),
        ({"a": {"$in": [f"{long}y", "x"]}}, [2, 3]),
        ({"a": {"$ne": f"{long}y"}}, [1, 3]),
    ):
        assert numbers(await store.search(QUESTION, 5, where=where)) == expected
        assert await store.count(where) == len(expected)
    assert (await store.search(QUESTION, 1))[0].metadata["a"] == long


# The driver of Elasticsearch passes the body as bytes. aiohttp warns from 1 MiB on.
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_excluded_values_never_hide_the_others_however_many_are_nearer(store: VectorStore) -> None:
    near = [record(number, 0.9, revision="r2") for number in range(1, MAX_HITS + 100)]
    for first in range(0, len(near), MAX_BATCH):
        await store.write(near[first : first + MAX_BATCH])
    no_revision = Record(record_id(9001), "foreign", vector(0.3), {"source": "s"})
    await store.write([record(9000, 0.2), no_revision])
    excluded: Where = {"revision": {"$nin": ["r2", "r3"]}}
    assert numbers(await store.search(QUESTION, 5, where=excluded)) == [9001, 9000]
    assert numbers(await store.search(QUESTION, 5, where={"revision": {"$in": ["r1", "r3"]}})) == [9000]


async def test_filter_and_minimum_score_apply_together(store: VectorStore) -> None:
    await store.write([record(1, 0.9, a=1), record(2, 0.8, a=2), record(3, 0.1, a=1)])
    assert numbers(await store.search(QUESTION, 10, min_score=0.6, where={"a": 1})) == [1]


@pytest.mark.parametrize(
    ("where", "path"),
    [
        ({"n": {"$near": 1}}, "$.where.n.$near"),
        ({"$not": [{"n": 1}]}, "$.where.$not"),
        ({"$or": []}, "$.where.$or"),
        ({"n": {"$gt": "a"}}, "$.where.n.$gt"),
        ({"n": {"$in": []}}, "$.where.n.$in"),
        ({"n": {"$in": [1, "a"]}}, "$.where.n.$in"),
        ({"n": None}, "$.where.n"),
        ({"n": {}}, "$.where.n"),
        ({"$and": [{"n": [1]}]}, "$.where.$and[0].n"),
        ({"n": 2**63}, "$.where.n"),
        ({"#n": 1}, "$.where.#n"),
    ],
)
async def test_an_invalid_filter_is_an_error_that_names_its_path(store: VectorStore, where: Where, path: str) -> None:
    for call in (store.search(QUESTION, 5, where=where), store.count(where), store.delete(where)):
        with pytest.raises(InvalidRequest) as caught:
            await call
        assert [error.path for error in caught.value.field_errors] == [path]


# Comparing


async def test_records_are_compared_by_their_ids_with_the_scores_of_a_search(store: VectorStore) -> None:
    await store.write([record(number, number / 10, f"text {number}", page=number) for number in range(6)])
    searched = {hit.id: hit for hit in await store.search(QUESTION, 10)}
    compared = await store.compare(QUESTION, [record_id(1), record_id(4), record_id(99)])
    assert {hit.id for hit in compared} == {record_id(1), record_id(4)}
    assert len(compared) == 2
    for hit in compared:
        expected = searched[hit.id]
        assert (hit.text, hit.metadata) == (expected.text, expected.metadata)
        assert hit.score == pytest.approx(expected.score, abs=2e-6)


async def test_nothing_is_compared_in_a_collection_that_does_not_exist_or_without_ids(
    engine: Engine, store: VectorStore, collection: str
) -> None:
    await store.write([record(1)])
    assert await store.compare(QUESTION, []) == []
    assert await (await engine.open(f"{collection}-absent")).compare(QUESTION, [record_id(1)]) == []


async def test_a_vector_of_another_dimension_is_not_compared(store: VectorStore) -> None:
    await store.write([record(1)])
    with pytest.raises(DimensionMismatch):
        await store.compare(np.ones(DIMENSION + 1, dtype=np.float32), [record_id(1)])


# Deleting


async def test_records_are_deleted_by_a_filter_and_counted(store: VectorStore) -> None:
    await store.write([record(number, 0.5, even=number % 2 == 0) for number in range(10)])
    assert await store.delete({"even": True}) == 5
    assert await store.delete({"even": True}) == 0
    assert numbers(await store.search(QUESTION, 20)) == [1, 3, 5, 7, 9]
    assert await store.count() == 5


async def test_the_old_revisions_of_a_document_are_deleted(store: VectorStore) -> None:
    rows = [Record(record_id(n), "t", vector(0.5), {"document_id": "d", "revision": f"r{n % 3}"}) for n in range(9)]
    await store.write([*rows, record(20, 0.5, revision="r9")])
    assert await store.delete({"document_id": "d", "revision": {"$ne": "r1"}}) == 6
    assert numbers(await store.search(QUESTION, 20)) == [1, 4, 7, 20]


async def test_many_records_are_deleted_by_one_filter(store: VectorStore) -> None:
    for first in range(0, 3 * MAX_BATCH, MAX_BATCH):
        await store.write([record(first + index, 0.5, odd=index % 2 == 1) for index in range(MAX_BATCH)])
    assert await store.delete({"odd": True}) == 3 * MAX_BATCH // 2
    assert await store.count() == 3 * MAX_BATCH // 2


async def test_a_deletion_that_selects_everything_is_an_error(store: VectorStore) -> None:
    await store.write([record(1)])
    everything: list[Where] = [{}, {"$and": [{}, {}]}]
    for where in everything:
        with pytest.raises(InvalidRequest):
            await store.delete(where)
    assert await store.count() == 1


async def test_records_are_deleted_by_their_ids_and_the_others_stay(store: VectorStore) -> None:
    await store.write([record(number) for number in range(1, 6)])
    await store.delete_ids([record_id(2), record_id(4), record_id(99)])
    await store.delete_ids([])
    assert numbers(await store.search(QUESTION, 10)) == [1, 3, 5]


# Dropping


async def test_a_dropped_collection_is_empty_and_can_be_created_again(store: VectorStore) -> None:
    await store.write([record(1)])
    await store.drop()
    assert await store.count() == 0
    assert await store.search(QUESTION, 5) == []
    assert await store.search(QUESTION, 5, where={"n": 1}) == []
    assert await store.delete({"n": 1}) == 0
    await store.create()
    assert await store.count() == 0


async def test_a_collection_can_be_dropped_twice(store: VectorStore) -> None:
    await store.drop()
    await store.drop()


async def test_writing_to_a_dropped_collection_is_an_error_and_creates_nothing(
    engine: Engine, store: VectorStore, collection: str
) -> None:
    await store.drop()
    with pytest.raises(CollectionMissing):
        await store.write([record(1)])
    other = await engine.open(collection, DIMENSION + 1)
    await other.create()
    assert await other.count() == 0
    await other.drop()


# Restarts


async def test_another_gateway_sees_the_records(engine: Engine, store: VectorStore, collection: str) -> None:
    await store.write([record(1, 0.5, "kept", page=1)])
    again = await engine.open(collection)
    await again.create()
    found = [(hit.text, hit.score, hit.metadata["page"]) for hit in await again.search(QUESTION, 5)]
    assert found == ([] if engine.store_type == "in-memory" else [("kept", 0.75, 1)])
    assert await again.count() == len(found)
