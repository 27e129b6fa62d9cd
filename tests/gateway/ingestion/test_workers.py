"""Workers: processes that run jobs beside gateways, over one PostgreSQL and one store."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from ragstore_gateway.ingestion.tables import RemovalRow
from tests.gateway.ingestion.conftest import new_base
from tests.support.gateways import start_gateway
from tests.support.ingestion import EmbeddingServer, State, until
from tests.support.postgres import Postgres
from tests.support.process_fixtures import starts_process
from tests.support.processes import kill
from tests.support.servers import Served, running, start_service

pytestmark = pytest.mark.process

LEASE_SECONDS = "3"


@pytest.fixture(scope="module")
@starts_process
def environ(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[dict[str, str]]:
    """The settings that gateways and workers share."""
    folder = tmp_path_factory.mktemp("store")
    database = postgres.create_database()
    with running(start_service(folder, {"RAGSTORE_RESERVED_PREFIXES": "none"})) as store:
        yield {
            "RAGSTORE_URL": store.url,
            "RAGSTORE_GATEWAY_DATABASE_URL": database,
            "RAGSTORE_GATEWAY_INGESTION_LEASE_SECONDS": LEASE_SECONDS,
            "RAGSTORE_GATEWAY_INGESTION_WORKERS": "true",
            "RAGSTORE_GATEWAY_EMBEDDING_CACHE_BYTES": "0",
        }
    postgres.drop_database(database)


@pytest.fixture(scope="module")
@starts_process
def gateway(tmp_path_factory: pytest.TempPathFactory, environ: dict[str, str]) -> Iterator[Served]:
    """A gateway beside workers."""
    with running(start_gateway(tmp_path_factory.mktemp("gateway"), environ)) as served:
        yield served


@pytest.fixture
async def client(gateway: Served) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the gateway."""
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as found:
        yield found


async def test_a_document_waits_until_there_is_a_worker_which_ingests_it(
    tmp_path: Path, environ: dict[str, str], client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    base = await new_base(client, server)
    ingestion = await base.ingest("tea", "Tea is brewed in the kitchen.")
    await asyncio.sleep(1)
    assert (await base.status(ingestion))["status"] == "pending"
    with running(start_gateway(tmp_path, environ, command="worker")) as worker:
        assert (await base.ended(ingestion))["status"] == "completed"
        assert (await asyncio.to_thread(completed_by, worker)) == 1
    assert [each["text"] for each in await base.query("tea")] == ["Tea is brewed in the kitchen."]


async def test_the_jobs_of_an_in_memory_base_run_in_the_gateway(
    tmp_path: Path, environ: dict[str, str], client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    with running(start_gateway(tmp_path, environ, command="worker")) as worker:
        base = await new_base(client, server, storeType="in-memory")
        for number in range(3):
            ended = await base.ended(await base.ingest(f"tea-{number}", f"Tea number {number}."))
            assert ended["status"] == "completed"
        await base.delete("tea-0")
        state = State.of(tmp_path, environ["RAGSTORE_GATEWAY_DATABASE_URL"])
        await until(lambda: not state.rows(sa.select(RemovalRow.id)))
        state.close()
        assert {each["text"] for each in await base.query("tea")} == {"Tea number 1.", "Tea number 2."}
        assert await asyncio.to_thread(completed_by, worker) == 0


async def test_another_worker_continues_the_jobs_of_one_that_is_killed(
    tmp_path: Path, environ: dict[str, str], client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    base = await new_base(client, server)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with running(start_gateway(tmp_path / "a", environ, command="worker")) as first:
        server.held = "held"
        ingestion = await base.ingest("doc", "held until the worker is killed")
        await base.embedding(ingestion, server)
        kill(first)
    server.held = "\0"
    with running(start_gateway(tmp_path / "b", environ, command="worker")):
        ended = await base.ended(ingestion)
    assert ended["status"] == "completed"


async def test_a_cancelled_ingestion_of_a_worker_stays_cancelled(
    tmp_path: Path, environ: dict[str, str], client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    base = await new_base(client, server)
    with running(start_gateway(tmp_path, environ, command="worker")):
        server.held = "held"
        ingestion = await base.ingest("doc", "held until it is cancelled")
        await base.embedding(ingestion, server)
        response = await client.delete(f"/ragstore/rags/{base.id}/ingestion/{ingestion}")
        assert response.status_code == 204
        server.held = "\0"
        other = await base.ingest("other", "a later document")
        assert (await base.ended(other))["status"] == "completed"
        assert (await base.status(ingestion))["status"] == "failed: The ingestion was cancelled"
    listed = await client.get(f"/ragstore/rags/{base.id}/documents")
    assert [each["name"] for each in listed.json()["documents"] if each["chunks"]] == ["other"]


def test_a_worker_serves_its_health_and_metrics_only(tmp_path: Path, environ: dict[str, str]) -> None:
    with running(start_gateway(tmp_path, environ, command="worker")) as worker:
        assert httpx.get(worker.url + "/health/live").status_code == 200
        assert httpx.get(worker.url + "/health/ready").status_code == 200
        assert httpx.get(worker.url + "/health").json()["ok"] is True
        assert "ragstore_gateway_ingestion_job_documents" in httpx.get(worker.url + "/metrics").text
        for path in ("/ragstore/rags/descriptors", "/collections", "/v1/models", "/openapi.json"):
            assert httpx.get(worker.url + path).status_code == 404


@pytest.mark.parametrize(
    ("command", "missing", "message"),
    [
        ("worker", "RAGSTORE_URL", "set RAGSTORE_URL"),
        ("serve", "RAGSTORE_URL", "RAGSTORE_URL is not set"),
        ("serve", "RAGSTORE_GATEWAY_DATABASE_URL", "RAGSTORE_GATEWAY_DATABASE_URL is not set"),
    ],
)
def test_what_workers_cannot_share_is_refused_at_the_start(
    tmp_path: Path, environ: dict[str, str], command: str, missing: str, message: str
) -> None:
    left = {name: value for name, value in environ.items() if name != missing}
    folder = {"RAGSTORE_GATEWAY_DATA_PATH": str(tmp_path / "data"), "RAGSTORE_GATEWAY_EMBEDDING_PROVIDER": "tei"}
    folder["RAGSTORE_GATEWAY_EMBEDDING_URL"] = "http://127.0.0.1:9"
    refused = subprocess.run(
        [sys.executable, "-m", "ragstore_gateway", command],
        env={**os.environ, **left, **folder},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1].startswith("Error: ")
    assert message in refused.stderr


def completed_by(served: Served) -> int:
    """The number of ingestions that a process has completed."""
    lines = httpx.get(served.url + "/metrics").text.splitlines()
    found = [line for line in lines if line.startswith('ragstore_gateway_ingestions_total{outcome="completed"}')]
    return int(float(found[0].rpartition(" ")[2])) if found else 0
