"""Some operations of the oracle; `make oracle` runs 100,000."""

from __future__ import annotations

import pytest

from tests.oracle.campaign import run_oracle
from tests.support.servers import Served
from tests.support.stores import StoreLocation

pytestmark = pytest.mark.process


@pytest.mark.parametrize("kind", ["embedded", "remote"])
def test_the_store_and_numpy_return_the_same(
    kind: str, chroma: Served, tmp_path_factory: pytest.TempPathFactory
) -> None:
    location = StoreLocation(tmp_path_factory.mktemp("oracle"), chroma.url, "oracle")
    figures = run_oracle(location, chroma.url if kind == "remote" else "", 200, examples=3)
    assert figures.differences == []
    assert figures.operations >= 200
