"""Fixtures of the gateway's tests: a gateway with everything in its process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateways import start_gateway
from tests.support.postgres import postgres, postgres_url
from tests.support.servers import Served, running

__all__ = ["database_url", "gateway", "postgres", "postgres_url"]

HTTP_CALL_HOST = "search.example"

SECRETS = {"OPENAI_API_KEY": "unused", "PGPASSWORD": "unused", "SEARCH_KEY": "unused"}
"""Variables that configurations refer to."""


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A gateway without an upstream. Store, embeddings and database are in its process; httpCalls may use one host."""
    environ = {"RAGSTORE_GATEWAY_HTTP_CALL_HOSTS": HTTP_CALL_HOST, **SECRETS}
    with running(start_gateway(tmp_path_factory.mktemp("gateway"), environ)) as served:
        yield served


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database, once SQLite and once PostgreSQL, as SQLAlchemy writes it."""
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path / 'gateway.db'}"
    return str(request.getfixturevalue("postgres_url")).replace("postgresql://", "postgresql+psycopg://")
