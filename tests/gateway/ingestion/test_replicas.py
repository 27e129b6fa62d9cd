"""Several gateways over one PostgreSQL: jobs of one that ends continue in another."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from ragstore_gateway.ingestion.tables import ExecutorRow, IngestionRow
from tests.gateway.ingestion.conftest import new_base
from tests.support.gateways import start_gateway
from tests.support.ingestion import BATCH, Base, EmbeddingServer, State, text_of, until
from tests.support.processes import kill
from tests.support.servers import Served, running, start_service

pytestmark = pytest.mark.process

LEASE_SECONDS = 3.0


@asynccontextmanager
async def replicas(folder: Path, postgres_url: str, count: int, **environ: str) -> AsyncIterator[list[Served]]:
    """Gateways that share a database and a store.

    Args:
        folder: an empty folder.
        postgres_url: the database.
        count: number of gateways.
        environ: further variables.
    """
    async with AsyncExitStack() as stack:
        (folder / "store").mkdir()
        store = stack.enter_context(running(start_service(folder / "store")))
        settings = {
            "RAGSTORE_URL": store.url,
            "RAGSTORE_GATEWAY_DATABASE_URL": postgres_url,
            "RAGSTORE_GATEWAY_INGESTION_LEASE_SECONDS": str(LEASE_SECONDS),
            "RAGSTORE_GATEWAY_INGESTION_CONCURRENCY": "2",
            **environ,
        }
        served = []
        for number in range(count):
            own = folder / f"gateway-{number}"
            own.mkdir()
            served.append(stack.enter_context(running(start_gateway(own, settings))))
        yield served


async def test_jobs_of_a_killed_replica_continue_in_another_and_embed_nothing_again(
    tmp_path: Path, postgres_url: str, server: EmbeddingServer
) -> None:
    state = State.of(tmp_path, postgres_url)
    async with (
        replicas(tmp_path, postgres_url, 1) as (first,),
        httpx.AsyncClient(base_url=first.url, timeout=30) as client,
    ):
        base = await new_base(client, server)
        text = text_of("survivor", 120)
        server.held = "survivor 100 "
        ingestion = await base.ingest("doc", text)
        await base.embedding(ingestion, server)
        await until(lambda: state.batches(ingestion) == 3)
        (tmp_path / "second").mkdir()
        environ = first_environ(first)
        with running(start_gateway(tmp_path / "second", environ)) as second:
            kill(first)
            killed = time.monotonic()
            server.held = "\0"
            async with httpx.AsyncClient(base_url=second.url, timeout=30) as other:
                found = await Base(other, base.id).ended(ingestion)
            assert found["status"] == "completed"
            assert time.monotonic() - killed < 30
    counts = [server.texts[line] + server.texts[line + "\n"] for line in text.split("\n")]
    assert min(counts) == 1
    # All batches but the one of the 101st chunk were complete.
    assert [index for index, count in enumerate(counts) if count > 1 and index // BATCH != 100 // BATCH] == []
    state.close()


async def test_a_stopped_replica_hands_its_jobs_over(
    tmp_path: Path, postgres_url: str, server: EmbeddingServer
) -> None:
    state = State.of(tmp_path, postgres_url)
    async with (
        replicas(tmp_path, postgres_url, 1, RAGSTORE_GATEWAY_INGESTION_LEASE_SECONDS="600") as (first,),
        httpx.AsyncClient(base_url=first.url, timeout=30) as client,
    ):
        base = await new_base(client, server)
        server.held = "handed"
        ingestion = await base.ingest("doc", "handed over")
        await base.embedding(ingestion, server)
        environ = first_environ(first)
        await asyncio.to_thread(first.stop)
        assert state.rows(sa.select(ExecutorRow.id)) == []
        assert [row.state for row in state.rows(sa.select(IngestionRow.state))] == ["processing"]
        server.held = "\0"
        (tmp_path / "second").mkdir()
        with running(start_gateway(tmp_path / "second", environ)) as second:
            async with httpx.AsyncClient(base_url=second.url, timeout=30) as other:
                found = await Base(other, base.id).ended(ingestion)
    assert found["status"] == "completed"
    state.close()


async def test_replicas_share_the_jobs(tmp_path: Path, postgres_url: str, server: EmbeddingServer) -> None:
    server.seconds = 0.2
    async with (
        replicas(tmp_path, postgres_url, 2) as (first, second),
        httpx.AsyncClient(base_url=first.url, timeout=30) as client,
    ):
        base = await new_base(client, server)
        ingestions = [await base.ingest(f"doc-{number}", f"tea {number}") for number in range(16)]
        for each in ingestions:
            assert (await base.ended(each))["status"] == "completed"
        counts = [completed_by(each) for each in (first, second)]
    server.seconds = 0.0
    assert sum(counts) == 16
    assert min(counts) > 0


def completed_by(served: Served) -> int:
    """The number of ingestions that a gateway has completed."""
    lines = httpx.get(served.url + "/metrics").text.splitlines()
    found = next(line for line in lines if line.startswith('ragstore_gateway_ingestions_total{outcome="completed"}'))
    return int(float(found.rpartition(" ")[2]))


def first_environ(served: Served) -> dict[str, str]:
    """The variables of a gateway, for another one beside it."""
    content = Path(f"/proc/{served.process.pid}/environ").read_bytes().split(b"\0")
    found = {}
    for each in content:
        with contextlib.suppress(ValueError):
            name, value = each.decode().split("=", 1)
            if name.startswith("RAGSTORE_") and not name.endswith(("_PORT", "_DATA_PATH")):
                found[name] = value
    return found
