"""Fixtures: a client of a gateway, once over SQLite and once over PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest

from tests.gateway.conftest import HTTP_CALL_HOST, Replicas
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served


@pytest.fixture(scope="package", params=["sqlite", "postgresql"])
@starts_process
def http(request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    """A client of a gateway, once over SQLite and once over PostgreSQL."""
    if request.param == "sqlite":
        gateway: Served = request.getfixturevalue("gateway")
        chosen = httpx.Client(base_url=gateway.url, timeout=30)
    else:
        replicas: Replicas = request.getfixturevalue("replicas")
        chosen = replicas.client()
    with chosen as client:
        yield client


@pytest.fixture
def name() -> str:
    """A name that no other configuration has."""
    return f"base-{uuid4().hex}"


@pytest.fixture(params=["rags", "assistants"])
def kind(request: pytest.FixtureRequest) -> str:
    """A kind of configuration."""
    return str(request.param)


def body_of(kind: str, name: str, **fields: object) -> dict[str, object]:
    """A small valid configuration."""
    if kind == "rags":
        return {"name": name, **fields}
    task = {"id": "answer", "httpCallRag": "search"}
    return {"name": name, "httpCalls": {"search": {"url": f"https://{HTTP_CALL_HOST}/"}}, "tasks": [task], **fields}


def create(http: httpx.Client, kind: str, name: str, **fields: object) -> str:
    """Create a configuration.

    Returns:
        Its path, without a version.
    """
    response = http.post(f"/ragstore/{kind}", json=body_of(kind, name, **fields))
    assert response.status_code == 201, response.text
    return response.headers["Location"].partition("?")[0]


def versioned(path: str, version: int) -> str:
    """The path of a version."""
    return f"{path}?version={version}"
