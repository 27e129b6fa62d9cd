"""Several gateways over one PostgreSQL: jobs of one that ends continue in another."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from ragstore_gateway.claims.tables import ExecutorRow
from ragstore_gateway.ingestion.tables import IngestionRow
from tests.gateway.ingestion.conftest import new_base
from tests.support.gateways import start_gateway
from tests.support.ingestion import BATCH, Base, EmbeddingServer, State, text_of, until
from tests.support.processes import kill
from tests.support.servers import Served, running, start_service

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A store for all gateways."""
    with running(start_service(tmp_path_factory.mktemp("store"), {"RAGSTORE_RESERVED_PREFIXES": "none"})) as served:
        yield served


@contextmanager
def replica(folder: Path, postgres_url: str, store: Served, lease_seconds: float = 3.0) -> Iterator[Served]:
    """A gateway beside others.

    Args:
        folder: a new folder.
        postgres_url: the database of all.
        lease_seconds: its lease.
    """
    folder.mkdir()
    environ = {
        "RAGSTORE_URL": store.url,
        "RAGSTORE_GATEWAY_DATABASE_URL": postgres_url,
        "RAGSTORE_GATEWAY_INGESTION_LEASE_SECONDS": str(lease_seconds),
        "RAGSTORE_GATEWAY_INGESTION_CONCURRENCY": "2",
        "RAGSTORE_GATEWAY_EMBEDDING_CACHE_BYTES": "0",
    }
    with running(start_gateway(folder, environ)) as served:
        yield served


async def test_replicas_share_the_jobs_and_one_continues_those_of_another_that_is_killed(
    tmp_path: Path, postgres_url: str, store: Served, server: EmbeddingServer
) -> None:
    state = State.of(tmp_path, postgres_url)
    with (
        replica(tmp_path / "a", postgres_url, store) as first,
        replica(tmp_path / "b", postgres_url, store) as second,
    ):
        async with httpx.AsyncClient(base_url=first.url, timeout=30) as client:
            base = await new_base(client, server)
            server.seconds = 0.3
            many = [await base.ingest(f"doc-{number}", f"tea {number}") for number in range(12)]
            for each in many:
                assert (await base.ended(each))["status"] == "completed"
            server.seconds = 0.0
            assert min(completed_by(each) for each in (first, second)) > 0

            text = text_of("survivor", 120)
            server.held = "survivor 100 "
            ingestion = await base.ingest("doc", text)
            await base.embedding(ingestion, server)
            await until(lambda: state.batches(ingestion) == 3)
        holder = state.owner(ingestion)
        killed, survivor = (first, second) if f"-{first.process.pid}-" in holder else (second, first)
        kill(killed)
        at = time.monotonic()
        server.held = "\0"
        async with httpx.AsyncClient(base_url=survivor.url, timeout=30) as client:
            found = await Base(client, base.id).ended(ingestion)
        assert found["status"] == "completed"
        assert time.monotonic() - at < 30  # the bound of the contract, with a lease of 3 s
    state.close()
    counts = [server.texts[line] + server.texts[line + "\n"] for line in text.split("\n")]
    assert min(counts) == 1
    # All batches but the one of the 101st chunk were complete.
    assert [index for index, count in enumerate(counts) if count > 1 and index // BATCH != 100 // BATCH] == []


async def test_a_gateway_that_is_stopped_hands_its_jobs_over(
    tmp_path: Path, postgres_url: str, store: Served, server: EmbeddingServer
) -> None:
    state = State.of(tmp_path, postgres_url)
    with replica(tmp_path / "a", postgres_url, store, lease_seconds=600) as first:
        async with httpx.AsyncClient(base_url=first.url, timeout=30) as client:
            base = await new_base(client, server)
            server.held = "handed"
            ingestion = await base.ingest("doc", "handed over")
            await base.embedding(ingestion, server)
    assert state.rows(sa.select(ExecutorRow.id)) == []
    assert [row.state for row in state.rows(sa.select(IngestionRow.state))] == ["processing"]
    server.held = "\0"
    # A lease of 600 s would keep the job from anybody else.
    with replica(tmp_path / "b", postgres_url, store, lease_seconds=600) as second:
        async with httpx.AsyncClient(base_url=second.url, timeout=30) as client:
            found = await Base(client, base.id).ended(ingestion)
    assert found["status"] == "completed"
    state.close()


def completed_by(served: Served) -> int:
    """The number of ingestions that a gateway has completed."""
    lines = httpx.get(served.url + "/metrics").text.splitlines()
    found = next(line for line in lines if line.startswith('ragstore_gateway_ingestions_total{outcome="completed"}'))
    return int(float(found.rpartition(" ")[2]))
