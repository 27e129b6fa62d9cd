"""Each engine passes the conformance suite."""

from __future__ import annotations

import pytest

from ragstore_gateway.engines.conformance import Conformance
from ragstore_gateway.engines.conformance.records import QUESTION, record, record_id
from ragstore_gateway.engines.engine_collection import EngineCollection

pytestmark = pytest.mark.process


class TestConformance(Conformance):
    """The fixture `target` of conftest.py has the engines."""

    async def test_a_compared_record_has_its_vector_so_that_bases_can_leave_the_engine(
        self, store: EngineCollection
    ) -> None:
        written = record(2, 0.3)
        await store.write([written])
        [found] = await store.compare(QUESTION, [record_id(2)])
        assert found.vector == pytest.approx(written.vector, abs=1e-6)
