"""Filters select the same records in every engine."""

from __future__ import annotations

import pytest

from ragstore.kit.errors import InvalidRequest
from ragstore_client import Where
from ragstore_gateway.engines.conformance.records import QUESTION, numbers, record, record_id, vector
from ragstore_gateway.engines.conformance.suite import Suite
from ragstore_gateway.engines.engine_collection import MAX_BATCH, MAX_PASSAGES, EngineCollection, MetadataValue, Record

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


class Filtering(Suite):
    """Filters select the same records in every engine."""

    async def test_each_filter_selects_the_same_records_in_search_and_count(self, store: EngineCollection) -> None:
        await store.write(
            [*(record(number, number / 100, n=value) for number, value in VALUES.items()), record(10, 0.1)]
        )
        for where, expected in FILTERS:
            assert sorted(numbers(await store.search(QUESTION, 20, where=where))) == expected, where
            assert await store.count(where) == len(expected), where

    async def test_a_filter_that_few_records_match_finds_them_all(self, store: EngineCollection) -> None:
        rows = [record(number, 0.9 - number / 1000, rare=number % 50 == 49) for number in range(200)]
        await store.write(rows)
        assert numbers(await store.search(QUESTION, 10, where={"rare": True})) == [49, 99, 149, 199]

    async def test_a_filter_finds_values_of_any_length(self, store: EngineCollection) -> None:
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
    async def test_excluded_values_never_hide_the_others_however_many_are_nearer(self, store: EngineCollection) -> None:
        near = [record(number, 0.9, revision="r2") for number in range(1, MAX_PASSAGES + 100)]
        for first in range(0, len(near), MAX_BATCH):
            await store.write(near[first : first + MAX_BATCH])
        no_revision = Record(record_id(9001), "foreign", vector(0.3), {"source": "s"})
        await store.write([record(9000, 0.2), no_revision])
        excluded: Where = {"revision": {"$nin": ["r2", "r3"]}}
        assert numbers(await store.search(QUESTION, 5, where=excluded)) == [9001, 9000]
        assert numbers(await store.search(QUESTION, 5, where={"revision": {"$in": ["r1", "r3"]}})) == [9000]

    async def test_filter_and_minimum_score_apply_together(self, store: EngineCollection) -> None:
        await store.write([record(1, 0.9, a=1), record(2, 0.8, a=2), record(3, 0.1, a=1)])
        assert numbers(await store.search(QUESTION, 10, min_relevance=0.6, where={"a": 1})) == [1]

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
    async def test_an_invalid_filter_is_an_error_that_names_its_path(
        self, store: EngineCollection, where: Where, path: str
    ) -> None:
        for call in (store.search(QUESTION, 5, where=where), store.count(where), store.delete(where)):
            with pytest.raises(InvalidRequest) as caught:
                await call
            assert [error.path for error in caught.value.field_errors] == [path]
