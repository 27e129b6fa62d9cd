"""What all tests share: a Chroma server, and the service over each kind of store."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest

from tests.support.servers import Served, running, start_chroma, start_service

STORES = ("embedded", "remote")


@pytest.fixture(scope="session")
def chroma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A Chroma server."""
    with running(start_chroma(tmp_path_factory.mktemp("chroma"))) as served:
        yield served


@pytest.fixture(scope="session", params=STORES)
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The service, once over embedded Chroma and once over a Chroma server."""
    environ = {}
    if request.param == "remote":
        chroma: Served = request.getfixturevalue("chroma")
        environ = {"RAGSTORE_CHROMA_URL": chroma.url, "RAGSTORE_CHROMA_DATABASE": "service_tests"}
    with running(start_service(tmp_path_factory.mktemp("service"), environ)) as served:
        yield served


@pytest.fixture(scope="session")
def http(service: Served) -> Iterator[httpx.Client]:
    """A plain HTTP client on the service."""
    # Connections are left before the service leaves them, which it does after 5 s.
    with httpx.Client(base_url=service.url, timeout=30, limits=httpx.Limits(keepalive_expiry=2)) as client:
        yield client


@pytest.fixture
def name() -> str:
    """A collection's name that no other test uses."""
    return f"t-{uuid4().hex}"


@pytest.fixture
def collection(http: httpx.Client, name: str) -> Iterator[str]:
    """A new, empty collection."""
    http.post("/collections", json={"name": name}).raise_for_status()
    yield name
    http.delete(f"/collections/{name}")
