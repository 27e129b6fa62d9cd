"""Records are found by their vectors, and compared by their ids."""

from __future__ import annotations

import numpy as np
import pytest

from ragstore_gateway.engines.conformance.records import DIMENSION, QUESTION, numbers, record, record_id, vector
from ragstore_gateway.engines.conformance.suite import Suite, Target
from ragstore_gateway.engines.engine_collection import MAX_PASSAGES, EngineCollection, Record
from ragstore_gateway.errors import DimensionMismatch


class Searching(Suite):
    """Records are found by their vectors, and compared by their ids."""

    async def test_scores_are_relevance_from_0_to_1(self, store: EngineCollection) -> None:
        await store.write([record(1, 1.0), record(2, 0.2), record(3, 0.0), record(4, -0.6), record(5, -1.0)])
        assert [passage.relevance for passage in await store.search(QUESTION, 5)] == [1.0, 0.6, 0.5, 0.2, 0.0]

    async def test_lengths_of_vectors_do_not_change_scores(self, store: EngineCollection) -> None:
        long = Record(record_id(1), "long", vector(0.6) * 50, {"document_id": "d"})
        await store.write([long, record(2, 0.5)])
        assert [passage.relevance for passage in await store.search(QUESTION * 7, 5)] == [0.8, 0.75]

    async def test_a_zero_vector_is_unrelated_to_everything(self, store: EngineCollection) -> None:
        zeros = np.zeros(DIMENSION, dtype=np.float32)
        await store.write(
            [Record(record_id(1), "nothing", zeros, {"document_id": "d"}), record(2, 0.2), record(3, -0.2)]
        )
        assert [(passage.id, passage.relevance) for passage in await store.search(QUESTION, 5)] == [
            (record_id(2), 0.6),
            (record_id(1), 0.5),
            (record_id(3), 0.4),
        ]
        assert [passage.relevance for passage in await store.search(zeros, 5)] == [0.5, 0.5, 0.5]

    async def test_the_order_is_by_score_and_then_by_id(self, store: EngineCollection) -> None:
        cosines = {7: 0.3, 3: 0.8, 9: 0.3, 1: 0.3, 5: -0.4, 2: 0.8}
        await store.write([record(number, cosine) for number, cosine in cosines.items()])
        assert numbers(await store.search(QUESTION, 10)) == [2, 3, 1, 7, 9, 5]

    @pytest.mark.parametrize("limit", [1, 2, 7, 20])
    async def test_ties_at_the_limit_are_resolved_by_id(self, store: EngineCollection, limit: int) -> None:
        tied = [record(number, 0.5) for number in (17, 4, 30, 2, 25, 9, 11, 28, 1, 14, 22, 6)]
        await store.write([*tied, record(40, 0.9), *(record(number, 0.1) for number in range(50, 60))])
        expected = [40, 1, 2, 4, 6, 9, 11, 14, 17, 22, 25, 28, 30, *range(50, 60)]
        assert numbers(await store.search(QUESTION, limit)) == expected[:limit]

    async def test_the_order_is_that_of_the_exact_cosines(self, store: EngineCollection) -> None:
        cosines = np.linspace(-0.99, 0.99, 200)
        await store.write([record(number, cosine) for number, cosine in enumerate(cosines)])
        passages = await store.search(QUESTION, 50)
        assert numbers(passages) == list(range(199, 149, -1))
        assert [passage.relevance for passage in passages] == pytest.approx((1 + cosines[:149:-1]) / 2, abs=2e-6)

    async def test_hits_below_the_minimum_score_are_omitted(self, store: EngineCollection) -> None:
        await store.write([record(1, 0.9), record(2, 0.2), record(3, 0.1999), record(4, -0.5)])
        assert numbers(await store.search(QUESTION, 10, min_relevance=0.6)) == [1, 2]
        assert numbers(await store.search(QUESTION, 10, min_relevance=0.95)) == [1]
        assert await store.search(QUESTION, 10, min_relevance=0.96) == []

    async def test_a_limit_above_the_maximum_counts_as_the_maximum(self, store: EngineCollection) -> None:
        await store.write([record(1), record(2)])
        assert numbers(await store.search(QUESTION, MAX_PASSAGES + 5)) == [1, 2]

    async def test_a_question_of_another_dimension_is_an_error(self, store: EngineCollection) -> None:
        with pytest.raises(DimensionMismatch):
            await store.search(np.ones(DIMENSION + 1, dtype=np.float32), 5)

    async def test_an_empty_collection_has_no_passages(self, store: EngineCollection) -> None:
        assert await store.search(QUESTION, 5) == []
        assert await store.count() == 0

    async def test_records_are_compared_by_their_ids_with_the_scores_of_a_search(self, store: EngineCollection) -> None:
        await store.write([record(number, number / 10, f"text {number}", page=number) for number in range(6)])
        searched = {passage.id: passage for passage in await store.search(QUESTION, 10)}
        compared = await store.compare(QUESTION, [record_id(1), record_id(4), record_id(99)])
        assert {passage.id for passage in compared} == {record_id(1), record_id(4)}
        assert len(compared) == 2
        for passage in compared:
            expected = searched[passage.id]
            assert (passage.text, passage.metadata) == (expected.text, expected.metadata)
            assert passage.relevance == pytest.approx(expected.relevance, abs=2e-6)

    async def test_nothing_is_compared_in_a_collection_that_does_not_exist_or_without_ids(
        self, engine: Target, store: EngineCollection, collection: str
    ) -> None:
        await store.write([record(1)])
        assert await store.compare(QUESTION, []) == []
        assert await (await engine.open(f"{collection}-absent")).compare(QUESTION, [record_id(1)]) == []

    async def test_a_vector_of_another_dimension_is_not_compared(self, store: EngineCollection) -> None:
        await store.write([record(1)])
        with pytest.raises(DimensionMismatch):
            await store.compare(np.ones(DIMENSION + 1, dtype=np.float32), [record_id(1)])
