"""Qdrant beyond the conformance suite: strict mode, changes that are not applied, rate limits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

from ragstore_gateway.engines.conformance.records import QUESTION, numbers, record
from ragstore_gateway.engines.engine_collection import EngineCollection, Record
from ragstore_gateway.errors import StoreUnavailable
from tests.gateway.engines.conftest import new_collection

if TYPE_CHECKING:
    from tests.support.qdrant_server import QdrantServer

MAX_LIMIT = 10


@pytest.fixture
async def collection_of_qdrant(request: pytest.FixtureRequest, qdrant: QdrantServer) -> AsyncIterator[EngineCollection]:
    """A new collection. The server is as before afterwards."""
    async with new_collection(request, "qdrant") as store:
        try:
            yield store
        finally:
            qdrant.update_status = status_of("Completed")
            qdrant.max_query_limit = qdrant.max_reads = None


def status_of(name: str) -> Any:
    """A status of Qdrant's interface, whose client is only imported by the process that runs these tests."""
    from qdrant_client import grpc

    return getattr(grpc.UpdateStatus, name)


@pytest.mark.parametrize("status", ["Acknowledged", "WaitTimeout"])
async def test_a_change_that_is_accepted_and_not_applied_is_an_error(
    collection_of_qdrant: EngineCollection, qdrant: QdrantServer, status: str
) -> None:
    await collection_of_qdrant.write([record(1)])
    qdrant.update_status = status_of(status)
    with pytest.raises(StoreUnavailable, match="has not applied a change"):
        await collection_of_qdrant.write([record(2)])
    with pytest.raises(StoreUnavailable, match="has not applied a change"):
        await collection_of_qdrant.delete({"document_id": "d1"})


async def test_searches_stay_within_the_maximum_of_strict_mode(
    collection_of_qdrant: EngineCollection, qdrant: QdrantServer
) -> None:
    await collection_of_qdrant.write([record(number, number / 100) for number in range(30)])
    qdrant.max_query_limit = MAX_LIMIT
    assert numbers(await collection_of_qdrant.search(QUESTION, 3)) == [29, 28, 27]
    assert numbers(await collection_of_qdrant.search(QUESTION, MAX_LIMIT)) == list(range(29, 29 - MAX_LIMIT, -1))
    assert len(await collection_of_qdrant.search(QUESTION, 20)) == MAX_LIMIT


async def test_a_rate_limit_is_an_error_with_the_time_of_the_next_attempt(
    collection_of_qdrant: EngineCollection, qdrant: QdrantServer
) -> None:
    qdrant.max_reads = 0
    with pytest.raises(StoreUnavailable, match="rate limit") as caught:
        await collection_of_qdrant.search(QUESTION, 5)
    assert caught.value.retry_after == 7


async def test_records_with_more_keys_than_qdrant_has_indexes_are_stored_and_found(
    collection_of_qdrant: EngineCollection,
) -> None:
    from tests.support.qdrant_server import MAX_INDEXES

    many = {f"n{key:03}": key for key in range(MAX_INDEXES + 5)}
    single = record(1)
    await collection_of_qdrant.write([Record(single.id, single.text, single.vector, many)])
    assert numbers(await collection_of_qdrant.search(QUESTION, 5, where={"n104": 104})) == [1]
    assert numbers(await collection_of_qdrant.search(QUESTION, 5, where={"n050": {"$gt": 49}})) == [1]
    with pytest.raises(StoreUnavailable, match="strict mode"):
        await collection_of_qdrant.search(QUESTION, 5, where={"n104": {"$gt": 49}})
