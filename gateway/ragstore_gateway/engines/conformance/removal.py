"""Records and collections are removed, and another gateway sees what was stored."""

from __future__ import annotations

import pytest

from ragstore.kit.errors import InvalidRequest
from ragstore_client import Where
from ragstore_gateway.engines.conformance.records import DIMENSION, QUESTION, numbers, record, record_id, vector
from ragstore_gateway.engines.conformance.suite import Suite, Target
from ragstore_gateway.engines.engine_collection import MAX_BATCH, EngineCollection, Record
from ragstore_gateway.errors import CollectionMissing


class Removal(Suite):
    """Records and collections are removed, and another gateway sees what was stored."""

    async def test_records_are_deleted_by_a_filter_and_counted(self, store: EngineCollection) -> None:
        await store.write([record(number, 0.5, even=number % 2 == 0) for number in range(10)])
        assert await store.delete({"even": True}) == 5
        assert await store.delete({"even": True}) == 0
        assert numbers(await store.search(QUESTION, 20)) == [1, 3, 5, 7, 9]
        assert await store.count() == 5

    async def test_the_old_revisions_of_a_document_are_deleted(self, store: EngineCollection) -> None:
        rows = [Record(record_id(n), "t", vector(0.5), {"document_id": "d", "revision": f"r{n % 3}"}) for n in range(9)]
        await store.write([*rows, record(20, 0.5, revision="r9")])
        assert await store.delete({"document_id": "d", "revision": {"$ne": "r1"}}) == 6
        assert numbers(await store.search(QUESTION, 20)) == [1, 4, 7, 20]

    async def test_many_records_are_deleted_by_one_filter(self, store: EngineCollection) -> None:
        for first in range(0, 3 * MAX_BATCH, MAX_BATCH):
            await store.write([record(first + index, 0.5, odd=index % 2 == 1) for index in range(MAX_BATCH)])
        assert await store.delete({"odd": True}) == 3 * MAX_BATCH // 2
        assert await store.count() == 3 * MAX_BATCH // 2

    async def test_a_deletion_that_selects_everything_is_an_error(self, store: EngineCollection) -> None:
        await store.write([record(1)])
        everything: list[Where] = [{}, {"$and": [{}, {}]}]
        for where in everything:
            with pytest.raises(InvalidRequest):
                await store.delete(where)
        assert await store.count() == 1

    async def test_records_are_deleted_by_their_ids_and_the_others_stay(self, store: EngineCollection) -> None:
        await store.write([record(number) for number in range(1, 6)])
        await store.delete_ids([record_id(2), record_id(4), record_id(99)])
        await store.delete_ids([])
        assert numbers(await store.search(QUESTION, 10)) == [1, 3, 5]

    async def test_a_dropped_collection_is_empty_and_can_be_created_again(self, store: EngineCollection) -> None:
        await store.write([record(1)])
        await store.drop()
        assert await store.count() == 0
        assert await store.search(QUESTION, 5) == []
        assert await store.search(QUESTION, 5, where={"n": 1}) == []
        assert await store.delete({"n": 1}) == 0
        await store.create()
        assert await store.count() == 0

    async def test_a_collection_can_be_dropped_twice(self, store: EngineCollection) -> None:
        await store.drop()
        await store.drop()

    async def test_writing_to_a_dropped_collection_is_an_error_and_creates_nothing(
        self, engine: Target, store: EngineCollection, collection: str
    ) -> None:
        await store.drop()
        with pytest.raises(CollectionMissing):
            await store.write([record(1)])
        other = await engine.open(collection, DIMENSION + 1)
        await other.create()
        assert await other.count() == 0
        await other.drop()

    async def test_another_gateway_sees_the_records(
        self, engine: Target, store: EngineCollection, collection: str
    ) -> None:
        await store.write([record(1, 0.5, "kept", page=1)])
        again = await engine.open(collection)
        await again.create()
        found = [
            (passage.text, passage.relevance, passage.metadata["page"]) for passage in await again.search(QUESTION, 5)
        ]
        assert found == ([] if not engine.is_durable else [("kept", 0.75, 1)])
        assert await again.count() == len(found)
