"""Collections of the store beyond the conformance suite: chunks beside many that are equal or nearly equal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import numpy as np
import pytest

from ragstore_gateway.engines.conformance import Target
from ragstore_gateway.engines.conformance.records import numbers, record_id
from ragstore_gateway.engines.engine_collection import EngineCollection, Record
from tests.support.servers import Served

pytestmark = pytest.mark.process

DIMENSION = 256
OTHERS = 40
EQUAL = 200
NEAR = 160


@pytest.fixture
async def collection(gateway: Served) -> AsyncIterator[EngineCollection]:
    """A new collection of the store that is in the gateway's process."""
    engine = Target("ragstore", ragstore_url=gateway.url)
    async with engine.stack:
        opened = (await engine.start()).open("ragstore", {}, f"kb-{uuid4().hex}", DIMENSION)
        await opened.create()
        yield opened
        await opened.drop()


async def test_no_chunk_is_hidden_by_many_that_are_equal_or_nearly_equal(collection: EngineCollection) -> None:
    random = np.random.default_rng(7)
    centre = random.normal(size=DIMENSION)
    others = [centre + random.normal(size=DIMENSION) * 0.6 for _ in range(OTHERS)]
    equal = [centre] * EQUAL
    near = [centre + random.normal(size=DIMENSION) * 0.02 for _ in range(NEAR)]
    vectors = [*others[: OTHERS // 2], *equal, *near, *others[OTHERS // 2 :]]
    records = [
        Record(record_id(number), "text", vector.astype(np.float32), {"document_id": f"d{number}", "revision": "r1"})
        for number, vector in enumerate(vectors)
    ]
    for start in range(0, len(records), 10):
        await collection.write(records[start : start + 10])
    lost = [
        (number, limit)
        for number in [*range(OTHERS // 2), *range(len(vectors) - OTHERS // 2, len(vectors))]
        for limit in (3, 50)
        if number not in numbers(await collection.search(records[number].vector, limit))
    ]
    assert lost == []
