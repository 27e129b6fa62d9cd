"""`QueryAgeStore`: writes record how long ago the last query was."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import uuid4

import pytest

from ragstore.kit.context import begin_request
from ragstore.model.queries import CollectionMatches, Query
from ragstore.store.protocol import Store
from ragstore.store.query_age import MAX_AGE_SECONDS, QUERY_AGE, QueryAgeStore
from tests.support.clock import Clock
from tests.support.factories import batch, make_query, upsert_documents
from tests.support.spies import SpyStore

pytestmark = pytest.mark.process


class Held(SpyStore):
    """A store whose queries wait at a gate of their own."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.reached = asyncio.Event()
        self.gate = asyncio.Event()

    async def query(self, name: str, queries: Sequence[Query]) -> CollectionMatches:
        self.reached.set()
        await self.gate.wait()
        return await super().query(name, queries)


async def ages(store: Store, name: str) -> list[float]:
    """The age of the last query that a write records; none if it mentions none."""
    request = begin_request("write")
    await upsert_documents(store, name, batch("a"))
    return [seconds for entry, seconds in request.timings.items() if entry == QUERY_AGE]


async def test_a_write_records_the_age_of_the_last_query_of_the_last_minute(bare: Store) -> None:
    clock, held, name = Clock(), Held(bare), f"t-{uuid4().hex}"
    store = QueryAgeStore(held, clock)
    await store.create_collection(name, {}, "l2")
    assert await ages(store, name) == []

    querying = asyncio.create_task(store.query(name, [make_query(1, 2)]))
    await held.reached.wait()
    clock.now = 5.0
    assert await ages(store, name) == [0.0]

    held.gate.set()
    await querying
    for seconds in (0.0, 2.0, MAX_AGE_SECONDS):
        clock.now = 5.0 + seconds
        assert await ages(store, name) == [seconds]
    clock.now += 0.5
    assert await ages(store, name) == []
