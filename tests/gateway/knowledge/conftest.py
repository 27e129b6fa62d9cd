"""Fixtures: a gateway over SQLite, and two replicas over one PostgreSQL, with keys."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from uuid import uuid4

import httpx
import pytest

from tests.gateway.conftest import HTTP_CALL_HOST, SECRETS
from tests.support.gateways import start_gateway, write_keys
from tests.support.postgres import Postgres
from tests.support.servers import Served, running


@dataclass
class Replicas:
    """Gateways over one PostgreSQL.

    Attributes:
        url: address of the database.
        gateways: the processes.
        keys: the keys of both, by role.
    """

    url: str
    gateways: list[Served]
    keys: dict[str, str]

    def client(self, index: int = 0, role: str = "admin") -> httpx.Client:
        """A client of one of the gateways, with the key of a role; empty for none."""
        headers = {"X-API-Key": self.keys[role]} if role else {}
        return httpx.Client(base_url=self.gateways[index].url, headers=headers, timeout=30)


@pytest.fixture(scope="session")
def replicas(gateway: Served, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """Two gateways over one PostgreSQL, which were started together. The shared gateway is their store."""
    folder = tmp_path_factory.mktemp("replicas")
    keys = folder / "keys"
    plain = write_keys(keys, {role: role for role in ("reader", "writer", "admin")})
    url = postgres.create_database()
    environ = {
        "RAGSTORE_URL": gateway.url,
        "RAGSTORE_GATEWAY_DATABASE_URL": url,
        "RAGSTORE_GATEWAY_KEYS_FILE": str(keys),
        "RAGSTORE_GATEWAY_HTTP_CALL_HOSTS": HTTP_CALL_HOST,
        "RAGSTORE_GATEWAY_VAULT_URL": "http://127.0.0.1:1",
        "RAGSTORE_GATEWAY_VAULT_TOKEN": "unused",
        **SECRETS,
    }
    folders = [folder / "a", folder / "b"]
    for each in folders:
        each.mkdir()
    with ThreadPoolExecutor() as threads:
        starts = [threads.submit(start_gateway, each, environ) for each in folders]
    with ExitStack() as stack:
        for start in starts:
            if start.exception() is None:
                stack.enter_context(running(start.result()))
        yield Replicas(url, [start.result() for start in starts], plain)
    postgres.drop_database(url)


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
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
