"""Atlas beyond the conformance suite: an index that is built later and lags, and nodes that lag."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ragstore_gateway.engines.conformance import Target
from ragstore_gateway.engines.conformance.records import QUESTION, numbers, record
from ragstore_gateway.engines.engine_collection import EngineCollection
from ragstore_gateway.errors import StoreUnavailable
from tests.gateway.engines.conftest import new_collection
from tests.support.mongodb_server import MongodbServer


@pytest.fixture
async def atlas(request: pytest.FixtureRequest, mongodb: MongodbServer) -> AsyncIterator[EngineCollection]:
    """A new collection."""
    async with new_collection(request, "mongodb-atlas") as store:
        yield store


async def test_deleted_records_in_the_index_displace_no_passages(atlas: EngineCollection) -> None:
    await atlas.write([record(number, 0.9 - number / 100, old=number < 20) for number in range(30)])
    await atlas.delete({"old": True})
    assert numbers(await atlas.search(QUESTION, 5)) == [20, 21, 22, 23, 24]
    await atlas.write([record(number, 0.95, kind="x") for number in range(40, 50)])
    await atlas.delete({"kind": "x"})
    assert numbers(await atlas.search(QUESTION, 5, where={"old": False})) == [20, 21, 22, 23, 24]
    await atlas.write([record(number, 0.95, n=1) for number in range(40, 50)])
    await atlas.delete({"n": 1})
    assert numbers(await atlas.search(QUESTION, 5, where={"n": {"$gt": 0}})) == []


async def test_deletions_counts_and_writes_read_no_whole_collection(
    atlas: EngineCollection, mongodb: MongodbServer
) -> None:
    mongodb.scans.clear()
    await atlas.write([record(1), record(2)])
    assert await atlas.count({"document_id": "d1"}) == 1
    assert await atlas.delete({"document_id": "d1", "revision": "r1"}) == 1
    assert mongodb.scans == []


async def test_an_index_that_cannot_be_built_is_an_error_that_says_so(
    request: pytest.FixtureRequest, mongodb: MongodbServer
) -> None:
    mongodb.index_status = "FAILED"
    try:
        with pytest.raises(StoreUnavailable, match="could not build its search index"):
            async with new_collection(request, "mongodb-atlas"):
                pass
    finally:
        mongodb.index_status = "READY"


async def test_an_index_that_is_not_ready_in_time_is_an_error_that_says_so(mongodb: MongodbServer) -> None:
    mongodb.index_status = "BUILDING"
    engine = Target("mongodb-atlas", {"connectionString": "${env:M}"}, {"M": mongodb.url})
    try:
        async with engine.stack:
            store = (await engine.start(timeout_seconds=3)).open(engine.store_type, engine.parameters, "building", 4)
            assert await store.count() == 0  # so that the connection exists
            with pytest.raises(StoreUnavailable, match="still building its search index"):
                await store.create()
    finally:
        mongodb.index_status = "READY"


async def test_the_primary_is_read_and_writes_are_acknowledged_whatever_the_connection_string_says(
    mongodb: MongodbServer,
) -> None:
    url = f"mongodb://{mongodb.address}/?replicaSet=rs0&readPreference=secondary&w=0&readConcernLevel=majority"
    engine = Target("mongodb-atlas", {"connectionString": "${env:M}"}, {"M": url})
    async with engine.stack:
        store = await engine.open("kb-preferences")
        await store.create()
        await store.write([record(1), record(2)])
        assert numbers(await store.search(QUESTION, 5)) == [1, 2]
        assert await store.delete({"document_id": "d1"}) == 1
        assert await store.count() == 1
        await store.drop()
