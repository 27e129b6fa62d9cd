"""Quotas of distributed Chroma: what can be split is split, what Chroma truncates is noticed, the rest is a 4xx."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import TypeVar
from uuid import uuid4

import numpy as np
import pytest
from msgspec.structs import replace

from ragstore.chroma.layers.layered_backend import BackendLayer, LayeredBackend, NextCall
from ragstore.chroma.layers.quotas import QuotaLayer
from ragstore.chroma.operations import GetRecords, Operation, QueryRecords
from ragstore.chroma.quotas import Quotas, count_predicates
from ragstore.chroma.records import RecordBatch
from ragstore.errors import BatchTooLarge, ChromaQuotaExceeded
from ragstore.kit.errors import ServiceError
from ragstore.model.documents import EVERYTHING, Batch, Selection, Write
from ragstore.model.filters.condition import Condition
from ragstore.model.queries import Query
from ragstore.store.protocol import Store
from tests.support.factories import add_documents, of_where
from tests.support.quota_proxy import RECORDS, QuotaProxy, quota_proxy
from tests.support.stores import StoreLocation, http_backend, stack

T = TypeVar("T")

COUNT = 1000
HALF = {"n": {"$lt": 500}}


@pytest.fixture(scope="module", params=["refusing", "truncating"])
def proxy(request: pytest.FixtureRequest, location: StoreLocation) -> Iterator[tuple[str, QuotaProxy]]:
    """A proxy with quotas, of both forms."""
    with quota_proxy(location.chroma_url, request.param) as running:
        yield running


@pytest.fixture(scope="module")
async def limited(proxy: tuple[str, QuotaProxy], location: StoreLocation) -> AsyncIterator[Store]:
    """A store behind the proxy, which knows none of its quotas."""
    store = stack(location, proxy[0], connections=5)
    await store.start()
    yield store
    await store.close()


def documents(start: int, count: int, prefix: str = "d") -> Batch:
    """Documents in a row."""
    rows = range(start, start + count)
    embeddings = np.zeros((count, 8), dtype=np.float32)
    embeddings[:, 0] = rows
    ids = [f"{prefix}{row}" for row in rows]
    return Batch(
        ids, [f"text {row}" for row in rows], [{"n": row, "kind": f"k{row % 400}"} for row in rows], embeddings
    )


class RecordingLayer(BackendLayer):
    """Records the operations that pass through it."""

    def __init__(self) -> None:
        self.operations: list[Operation[object]] = []

    def concerns(self, kind: type[Operation[object]]) -> bool:
        return True

    async def call(self, next_call: NextCall[T], operation: Operation[T]) -> T:
        self.operations.append(operation)
        return await next_call(operation)


@pytest.fixture
async def large(limited: Store) -> AsyncIterator[str]:
    """A collection of 1,000 documents."""
    name = f"t-{uuid4().hex}"
    await limited.create_collection(name, {}, "l2")
    for start in range(0, COUNT, 250):
        await add_documents(limited, name, documents(start, 250))
    yield name
    await limited.delete_collection(name)


async def test_a_list_may_be_longer_than_the_quota(limited: Store, large: str) -> None:
    found = await limited.get(large, EVERYTHING, limit=900, offset=50, with_embeddings=True)
    assert found.ids == [f"d{row}" for row in range(50, 950)]
    assert found.embeddings is not None
    assert found.embeddings[:, 0].tolist() == list(range(50, 950))
    assert len((await limited.get(large, EVERYTHING)).ids) == COUNT
    assert (await limited.get(large, of_where(HALF), limit=400, offset=400)).ids == [f"d{n}" for n in range(400, 500)]


async def test_totals_are_exact_beyond_the_quota(limited: Store, large: str) -> None:
    assert await limited.count(large) == COUNT
    assert await limited.count(large, of_where(HALF)) == 500
    assert await limited.count(large, of_where({"n": {"$lt": 300}})) == 300
    assert await limited.count(large, of_where({"n": {"$lt": 301}})) == 301


async def test_more_ids_than_the_quota_are_read_in_the_order_of_the_collection(limited: Store, large: str) -> None:
    ids = tuple(f"d{row}" for row in reversed(range(0, COUNT, 2)))
    found = await limited.get(large, Selection(ids=(*ids, "none")), limit=450, offset=10)
    assert found.ids == [f"d{row}" for row in range(20, 920, 2)]
    assert await limited.count(large, Selection(ids=ids)) == 500


async def test_all_values_of_a_key_are_found(limited: Store, large: str) -> None:
    assert len(await limited.get_metadata_values(large, "kind")) == 400


@pytest.mark.parametrize(
    ("selection", "deleted"),
    [
        (EVERYTHING, COUNT),
        (of_where(HALF), 500),
        (Selection(ids=tuple(f"d{row}" for row in range(0, 2 * COUNT, 2))), 500),
    ],
    ids=["everything", "filter", "ids"],
)
async def test_more_documents_than_the_quota_are_deleted(
    limited: Store, large: str, selection: Selection, deleted: int
) -> None:
    assert await limited.delete(large, selection) == deleted
    assert await limited.count(large) == COUNT - deleted


async def test_a_query_returns_more_results_than_the_quota(limited: Store, large: str) -> None:
    embedding = documents(0, 1).embeddings[0]
    found = await limited.query(large, [Query(embedding, 700), Query(embedding, 5)])
    assert found.matches[0].ids == [f"d{row}" for row in range(700)]
    assert found.matches[1].ids == [f"d{row}" for row in range(5)]
    filtered = await limited.query(large, [Query(embedding, 400, Condition.parse({"n": {"$gte": 100}}))])
    assert filtered.matches[0].ids == [f"d{row}" for row in range(100, 500)]


async def test_a_query_by_more_ids_than_the_quota_is_one_by_the_filter(
    limited: Store, large: str, proxy: tuple[str, QuotaProxy], location: StoreLocation
) -> None:
    backend = LayeredBackend(http_backend(proxy[0], location.database), [QuotaLayer(Quotas())])
    await backend.start()
    collection = await limited.get_collection(large)
    ids = [f"d{row}" for row in range(500)]
    query = QueryRecords(collection.id, np.zeros((1, 8), np.float32), 3, where={"n": {"$lt": 500}}, matching_ids=ids)
    for refused in (1, 0):
        before = proxy[1].refused
        (found,) = await backend.call(query)
        assert (found.ids, proxy[1].refused - before) == (ids[:3], refused)
    (found,) = await backend.call(replace(query, matching_ids=["d7", "d9"]))
    assert found.ids == ["d7", "d9"]
    await backend.close()


async def test_one_long_page_shows_that_shorter_ones_are_not_truncated(
    limited: Store, large: str, location: StoreLocation
) -> None:
    backend = http_backend(location.chroma_url, location.database)
    layer = RecordingLayer()
    layered = LayeredBackend(backend, [QuotaLayer(Quotas()), layer])
    await layered.start()
    collection = await limited.get_collection(large)
    sizes = []
    for bound in (200, 150, 300):
        found = await layered.call(GetRecords(collection.id, where={"n": {"$lt": bound}}, limit=5000))
        sizes.append((len(found.ids), len(layer.operations)))
    assert sizes == [(200, 2), (150, 3), (300, 4)]
    await layered.close()


async def test_a_write_beyond_the_quota_is_rejected_with_the_limit_and_its_neighbours_are_not(
    limited: Store, large: str
) -> None:
    outcomes = await limited.write(
        large,
        [
            Write("upsert", documents(0, 20, "a")),
            Write("upsert", documents(0, RECORDS + 1, "b")),
            Write("upsert", documents(0, RECORDS, "c")),
        ],
    )
    assert outcomes[0] is outcomes[2] is None
    assert isinstance(outcomes[1], BatchTooLarge)
    assert str(RECORDS) in outcomes[1].detail
    assert await limited.count(large) == COUNT + 20 + RECORDS
    assert await limited.max_batch_size() == RECORDS


@pytest.mark.parametrize(
    ("changed", "what"), [({"texts": ["x" * 16_385]}, "Document size"), ({"ids": ["x" * 257]}, "ID size")]
)
async def test_a_text_or_id_beyond_its_quota_is_rejected_with_the_limit(
    limited: Store, large: str, changed: dict[str, list[str]], what: str
) -> None:
    good = documents(0, 1, "good")
    bad = Batch(changed.get("ids", ["bad"]), changed.get("texts", ["t"]), [{}], good.embeddings)
    outcomes = await limited.write(large, [Write("upsert", good), Write("upsert", bad)])
    assert outcomes[0] is None
    assert isinstance(outcomes[1], ChromaQuotaExceeded)
    assert what in outcomes[1].detail
    assert outcomes[1].status == 413
    assert await limited.count(large) == COUNT + 1


async def test_a_filter_with_too_many_comparisons_is_rejected_with_the_limit(limited: Store, large: str) -> None:
    many = Condition.parse({f"key{index}": {"$gt": index} for index in range(9)})
    with pytest.raises(ChromaQuotaExceeded, match="8"):
        await limited.count(large, Selection(condition=many))


async def test_equal_comparisons_of_one_key_are_one_comparison(limited: Store, large: str) -> None:
    nine = {"$or": [{"n": number} for number in range(9)]}
    assert await limited.count(large, of_where(nine)) == 9
    others = {"$and": [{"n": {"$ne": number}} for number in range(9)]}
    assert await limited.count(large, of_where(others)) == COUNT - 9


async def test_nothing_is_truncated_or_refused_once_the_quotas_are_known(
    limited: Store, large: str, proxy: tuple[str, QuotaProxy]
) -> None:
    await limited.get(large, EVERYTHING)
    await limited.delete(large, of_where(HALF))
    before = (proxy[1].refused, proxy[1].truncated)
    await limited.get(large, EVERYTHING, limit=1000)
    await limited.delete(large, EVERYTHING)
    assert (proxy[1].refused, proxy[1].truncated) == before


# -- quotas that are set ------------------------------------------------------------------------


def test_comparisons_are_counted_as_chroma_receives_them() -> None:
    assert count_predicates(None) == 0
    assert count_predicates({"a": 1}) == 1
    assert count_predicates({"$and": [{"a": 1}, {"$or": [{"b": {"$gt": 1}}, {"c": {"$in": [1, 2]}}]}]}) == 3


@pytest.mark.parametrize("quota", ["text_bytes", "id_bytes", "predicates", "write"])
def test_what_exceeds_a_quota_that_is_set_is_not_sent(quota: str) -> None:
    quotas = Quotas.of({quota: 2})
    batch = documents(10, 3)
    records = RecordBatch(batch.ids, batch.embeddings, batch.texts, [None] * 3)
    check = partial(quotas.check_filter, {"$and": [{"a": 1}, {"b": 1}, {"c": 1}]}, None)
    with pytest.raises(ServiceError) as error:
        (check if quota == "predicates" else partial(quotas.check_records, records))()
    assert "2" in error.value.detail
    assert error.value.field_errors[0].path.startswith("$.")
