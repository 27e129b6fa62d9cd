"""Collections are created, and records are written to them."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.engines.conformance.records import DIMENSION, QUESTION, numbers, record, record_id
from ragstore_gateway.engines.conformance.suite import Suite, Target
from ragstore_gateway.engines.engine_collection import MAX_BATCH, EngineCollection, Record
from ragstore_gateway.errors import DimensionMismatch


class Writing(Suite):
    """Collections are created, and records are written to them."""

    async def test_a_collection_can_be_created_twice(self, store: EngineCollection) -> None:
        await store.write([record(1)])
        await store.create()
        assert await store.count() == 1

    async def test_creating_an_existing_collection_with_another_dimension_is_an_error(
        self, engine: Target, collection: str
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

    async def test_collections_do_not_see_each_other(
        self, engine: Target, store: EngineCollection, collection: str
    ) -> None:
        other = await engine.open(f"{collection}-2")
        await other.create()
        await other.write([record(1, 0.9, "other")])
        await store.write([record(1, 0.5, "own")])
        assert [passage.text for passage in await store.search(QUESTION, 10)] == ["own"]
        await other.drop()
        assert await store.count() == 1

    async def test_a_written_record_is_found_with_its_text_and_its_metadata(self, store: EngineCollection) -> None:
        await store.write([record(1, 0.6, "The boiler.", page=3, ratio=0.5, checked=True, heading="Heating")])
        [passage] = await store.search(QUESTION, 5)
        assert (passage.id, passage.text, passage.relevance) == (record_id(1), "The boiler.", 0.8)
        assert passage.metadata == {
            "document_id": "d1",
            "revision": "r1",
            "page": 3,
            "ratio": 0.5,
            "checked": True,
            "heading": "Heating",
        }
        assert passage.metadata["checked"] is True

    async def test_a_record_replaces_the_one_with_its_id_as_a_whole(self, store: EngineCollection) -> None:
        await store.write([record(1, 0.1, "old", page=3), record(2, 0.5)])
        await store.write([record(1, 0.9, "new", section="a")])
        passages = await store.search(QUESTION, 5)
        assert [(passage.text, passage.relevance) for passage in passages] == [("new", 0.95), ("text 2", 0.75)]
        assert passages[0].metadata == {"document_id": "d1", "revision": "r1", "section": "a"}
        assert await store.count() == 2

    async def test_a_vector_of_another_dimension_stores_nothing(self, store: EngineCollection) -> None:
        wrong = Record(record_id(2), "wrong", np.ones(DIMENSION + 1, dtype=np.float32), {"document_id": "d"})
        with pytest.raises(DimensionMismatch):
            await store.write([record(1), wrong, record(3)])
        assert await store.count() == 0

    async def test_a_vector_with_numbers_that_are_not_finite_stores_nothing(self, store: EngineCollection) -> None:
        wrong = Record(record_id(2), "wrong", np.full(DIMENSION, np.nan, dtype=np.float32), {"document_id": "d"})
        with pytest.raises(InvalidRequest):
            await store.write([record(1), wrong])
        assert await store.count() == 0

    async def test_a_write_without_records_stores_nothing(self, store: EngineCollection) -> None:
        await store.write([])
        assert await store.count() == 0

    async def test_texts_and_metadata_may_have_any_characters(self, store: EngineCollection) -> None:
        text = "Grüße 你好 👩‍👩‍👧 \u202e \n\t\"'\\ %s $1 {}"
        await store.write([record(1, 0.5, text, **{"naïve.key $x": text})])
        [passage] = await store.search(QUESTION, 5, where={"naïve.key $x": text})
        assert passage.text == text
        assert passage.metadata["naïve.key $x"] == text

    async def test_a_nul_character_in_one_text_does_not_fail_the_batch(self, store: EngineCollection) -> None:
        await store.write([record(1, 0.9, "a\0b", title="c\0d"), record(2, 0.5)])
        passages = await store.search(QUESTION, 5)
        assert numbers(passages) == [1, 2]
        assert len(passages[0].text) == 3

    # The driver of Elasticsearch passes the body as bytes. aiohttp warns from 1 MiB on.
    @pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
    async def test_the_largest_batch_is_stored(self, store: EngineCollection) -> None:
        texts = "x" * 4000
        await store.write([record(number, number / 1000, texts, n=number) for number in range(MAX_BATCH)])
        assert await store.count() == MAX_BATCH
        assert numbers(await store.search(QUESTION, 3)) == [MAX_BATCH - 1, MAX_BATCH - 2, MAX_BATCH - 3]

    async def test_concurrent_writes_are_all_stored(self, store: EngineCollection) -> None:
        batches = [[record(10 * batch + index, index / 10) for index in range(10)] for batch in range(8)]
        await asyncio.gather(*(store.write(batch) for batch in batches))
        assert await store.count() == 80
        assert len(await store.search(QUESTION, 100)) == 80

    async def test_concurrent_writes_of_the_same_records_store_each_once(self, store: EngineCollection) -> None:
        rows = [record(number, 0.5) for number in range(20)]
        await asyncio.gather(*(store.write(rows if turn % 2 else rows[::-1]) for turn in range(6)))
        assert await store.count() == 20

    async def test_concurrent_creations_create_one_collection(self, engine: Target, collection: str) -> None:
        gateway = await engine.start()
        opened = [gateway.open(engine.store_type, engine.parameters, collection, DIMENSION) for _ in range(4)]
        await asyncio.gather(*(each.create() for each in opened))
        await opened[0].write([record(1)])
        assert [await each.count() for each in opened] == [1, 1, 1, 1]
        await opened[0].drop()
