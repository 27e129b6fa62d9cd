"""Two services for the tests of transfers: one over embedded Chroma, one over a Chroma server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers import Served, running, start_service
from tests.support.transfers import Store


@pytest.fixture(scope="package")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A service over embedded Chroma."""
    with running(start_service(tmp_path_factory.mktemp("embedded"))) as served, Store.of(served) as store:
        yield store


@pytest.fixture(scope="package")
def remote(chroma: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A service over a Chroma server."""
    environ = {"RAGSTORE_CHROMA_URL": chroma.url, "RAGSTORE_CHROMA_DATABASE": "transfer_tests"}
    with running(start_service(tmp_path_factory.mktemp("remote"), environ)) as served, Store.of(served) as store:
        yield store


@pytest.fixture
def filled(embedded: Store, name: str) -> str:
    """A collection of 50 documents in the embedded store, with the distance l2."""
    embedded.fill(name, 50, 4, "l2")
    return name
