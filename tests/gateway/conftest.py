"""Fixtures of the gateway's tests: a gateway with everything in its process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.gateways import start_gateway
from tests.support.servers import Served, running


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A gateway without settings: store and embeddings run in its process, and there is no upstream."""
    with running(start_gateway(tmp_path_factory.mktemp("gateway"))) as served:
        yield served
