"""The engine `sqlite` passes the conformance suite of the gateway."""

from __future__ import annotations

import pytest

from ragstore_gateway.engines.conformance import Conformance, Target


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    """The engine, with a file of its own."""
    return Target("sqlite", {"file": str(tmp_path_factory.mktemp("sqlite") / "vectors.db")})


class TestSqlite(Conformance):
    """All tests of the suite."""
