"""Fixtures of the gateway's tests: a gateway with everything in its process, and replicas over one PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.support.gateways import start_gateway, write_keys
from tests.support.ingestion import EmbeddingServer, embedding_server
from tests.support.migrated_databases import copy_migrated_databases, real_migrations
from tests.support.postgres import Postgres, postgres, postgres_url
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, running
from tests.support.shared_models import share_builtin_models

__all__ = ["database_url", "gateway", "postgres", "postgres_url", "real_migrations"]

copy_migrated_databases()
share_builtin_models()

HTTP_CALL_HOST = "search.example"

SECRETS = {
    "OPENAI_API_KEY": "unused",
    "PGPASSWORD": "unused",
    "SEARCH_KEY": "unused",
    "RAGSTORE_GATEWAY_SECRET_VARIABLES": "*_API_KEY,PGPASSWORD,SEARCH_KEY,ABSENT",
}
"""Variables that configurations refer to, and the setting that allows this. One of them is not set."""


@pytest.fixture(scope="session")
@starts_process
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A gateway without an upstream. Store, embeddings and database are in its process; httpCalls may use one host."""
    # Other gateways of the tests use its store, without a key.
    own = {"RAGSTORE_GATEWAY_HTTP_CALL_HOSTS": HTTP_CALL_HOST, "RAGSTORE_RESERVED_PREFIXES": "none"}
    environ = {**own, **SECRETS}
    with running(start_gateway(tmp_path_factory.mktemp("gateway"), environ)) as served:
        yield served


@pytest.fixture(scope="session")
async def server() -> AsyncIterator[EmbeddingServer]:
    """An embedding server that counts."""
    async with embedding_server() as found:
        yield found


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
@starts_process
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


@pytest.fixture(params=["sqlite", "postgresql"])
@starts_process
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database, once SQLite and once PostgreSQL, as SQLAlchemy writes it."""
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path / 'gateway.db'}"
    return str(request.getfixturevalue("postgres_url")).replace("postgresql://", "postgresql+psycopg://")
