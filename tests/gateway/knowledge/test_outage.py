"""A database that does not respond: clear errors in bounded time, and no restart of the gateway."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.gateway.knowledge.conftest import create
from tests.support.gateways import start_gateway
from tests.support.postgres import Postgres, running_postgres
from tests.support.problems import assert_problem
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, running

pytestmark = pytest.mark.process

WAIT_SECONDS = 20.0


@dataclass
class Stoppable:
    """A gateway, and the PostgreSQL of its own."""

    http: httpx.Client
    postgres: Postgres


@pytest.fixture(scope="module")
@starts_process
def stoppable(gateway: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stoppable]:
    """A gateway whose database can be stopped."""
    folder: Path = tmp_path_factory.mktemp("stoppable")
    with running_postgres() as postgres:
        environ = {"RAGSTORE_URL": gateway.url, "RAGSTORE_GATEWAY_DATABASE_URL": postgres.create_database()}
        with (
            running(start_gateway(folder, environ)) as served,
            httpx.Client(base_url=served.url, timeout=WAIT_SECONDS) as http,
        ):
            yield Stoppable(http, postgres)


def test_without_the_database_calls_are_503_and_it_recovers_by_itself(stoppable: Stoppable, name: str) -> None:
    http = stoppable.http
    path = create(http, "rags", name)
    stoppable.postgres.stop()
    try:
        for response in (http.get(path), http.post("/ragstore/rags", json={"name": f"{name}-2"})):
            assert_problem(response, 503, "database_unavailable")
            assert response.headers["Retry-After"] == "1"
        health = http.get("/health")
        assert health.status_code == 503
        assert health.json()["ok"] is False
        assert health.json()["store"]["ok"] is True
        assert health.json()["database"]["kind"] == "postgresql"
        assert health.json()["database"]["error"]
        unready = http.get("/health/ready?feature=knowledge_bases")
        assert (unready.status_code, unready.headers["Retry-After"]) == (503, "1")
        assert http.get("/health/live").status_code == 200
        # Calls that need no database work.
        assert http.post("/embed", json={"inputs": ["tea"]}).status_code == 200
        assert http.get("/ragstore/rags/jsonSchema").status_code == 200
    finally:
        stoppable.postgres.start()
    deadline = time.monotonic() + WAIT_SECONDS
    while http.get("/health/ready?feature=knowledge_bases").status_code != 200 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert http.get(path).json()["name"] == name
    create(http, "rags", f"{name}-2")
