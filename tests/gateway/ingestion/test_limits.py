"""Limits of ingestion that need a gateway of their own, and the state without any."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from sqlalchemy import make_url

from ragstore_client import AsyncClient
from ragstore_gateway.claims.leases import Leases
from ragstore_gateway.database.database import Database
from ragstore_gateway.ingestion.acceptance import Acceptance, NewContent
from ragstore_gateway.ingestion.documents import Documents
from ragstore_gateway.ingestion.queue import MAX_ATTEMPTS, IngestionQueue
from ragstore_gateway.ingestion.tables import IngestionRow
from tests.gateway.ingestion.conftest import ENVIRON, new_base
from tests.support.gateways import start_gateway
from tests.support.ingesting_process import IngestingProcess
from tests.support.ingestion import EmbeddingServer, State, until
from tests.support.knowledge import Knowledge
from tests.support.servers import running

pytestmark = pytest.mark.process


@asynccontextmanager
async def database(url: str) -> AsyncIterator[Database]:
    """An open database."""
    found = Database(make_url(url))
    async with found.running():
        yield found


@pytest.mark.process
async def test_a_full_queue_and_a_full_storage_reject_documents_and_ended_ingestions_are_forgotten(
    tmp_path: Path, server: EmbeddingServer
) -> None:
    environ = {
        **ENVIRON,
        "RAGSTORE_GATEWAY_INGESTION_MAX_WAITING": "2",
        "RAGSTORE_GATEWAY_INGESTION_RETENTION_DAYS": "0.00001",
        "RAGSTORE_GATEWAY_MAX_FILES_BYTES": "5",
    }
    with running(start_gateway(tmp_path, environ)) as served:
        async with httpx.AsyncClient(base_url=served.url, timeout=30) as client:
            base = await new_base(client, server)
            server.held = "queued"
            first = await base.ingest("doc", "queued first")
            second = await base.ingest("doc", "queued second")
            response = await base.post("doc", "queued third")
            server.held = "\0"
            assert (response.status_code, response.json()["code"]) == (503, "queue_full")
            assert response.headers["Retry-After"]
            files = [("file", ("a.txt", b"a file"))]
            response = await client.post("/v1/files", data={"purpose": "assistants"}, files=files)
            assert (response.status_code, response.json()["error"]["code"]) == (413, "file_storage_full")
            assert (await base.ended(second))["status"] == "completed"
            assert "ragstore_gateway_files_limit_bytes 5.0" in (await client.get("/metrics")).text
        state = State.of(tmp_path)

        def ids() -> set[str]:
            return {row.id for row in state.rows(sa.select(IngestionRow.id))}

        # The last ingestion of a document is kept.
        await until(lambda: ids() == {second})
        assert first != second
        state.close()


@pytest.mark.process
async def test_a_document_is_accepted_by_one_commit(tmp_path: Path, server: EmbeddingServer) -> None:
    with running(start_gateway(tmp_path, ENVIRON)) as served:
        async with httpx.AsyncClient(base_url=served.url, timeout=30) as client:
            base = await new_base(client, server)
            ingestion = await base.ingest("doc", "kept")
            served.process.kill()
            served.process.wait(timeout=30)
        state = State.of(tmp_path)
        assert [row.id for row in state.rows(sa.select(IngestionRow.id))] == [ingestion]
        state.close()


async def test_an_ingestion_that_is_interrupted_each_time_fails(database_url: str) -> None:
    async with database(database_url) as opened, AsyncClient("http://127.0.0.1:9") as store:
        knowledge = Knowledge(opened, store)
        base = await knowledge.base("poisoned")
        documents = Documents(opened, Acceptance(10, 1000))
        accepted = await documents.accept(base.id, NewContent("doc", "text/plain", b"tea", "alias"))
        process = IngestingProcess(knowledge)
        for number in range(MAX_ATTEMPTS):
            assert await process.claim(base.id, interrupted=number > 0)
            assert (await documents.ingestion(base.id, accepted.id)).state == "processing"
            await process.end()
        assert await process.claim(base.id, interrupted=True) == []
        found = await documents.ingestion(base.id, accepted.id)
    assert (found.state, found.message) == ("failed", f"The ingestion was interrupted {MAX_ATTEMPTS} times")


async def test_calls_of_one_process_that_need_a_lease_at_the_same_time_share_it(database_url: str) -> None:
    async with database(database_url) as opened:
        lease = Leases(opened, "own", 60.0)
        await asyncio.gather(*(lease.hold() for _ in range(5)))
        assert (lease.is_valid, lease.taken) == (True, 1)


async def test_an_expired_lease_is_taken_by_one_process_only(database_url: str) -> None:
    async with database(database_url) as opened, AsyncClient("http://127.0.0.1:9") as store:
        ended = Leases(opened, "ended", 0.0)
        first, second = Leases(opened, "first", 60.0), Leases(opened, "second", 60.0)
        assert await ended.renew()
        await first.renew()
        await second.renew()
        assert not ended.is_valid
        assert first.is_valid
        assert [await each.end_expired() for each in (first, second)] == [["ended"], []]
        # A process that was late notices that it has lost what it owned.
        assert await ended.renew()
        assert not await first.renew()
        knowledge = Knowledge(opened, store)
        base = await knowledge.base("taken over")
        processes = [IngestingProcess(knowledge, owner=name) for name in ("first", "other")]
        for each in processes:
            await Documents(opened, Acceptance(10, 1000)).accept(
                base.id, NewContent(each.leases.owner, "text/plain", b"tea", "")
            )
            assert await each.claim(base.id)
        await processes[1].leases.remove()
        queue = IngestionQueue(opened, knowledge.collections, second)
        assert [await queue.take_over() for _ in range(2)] == [1, 0]
        (lane,) = await queue.lanes()
        assert (lane.base_id, lane.new, lane.interrupted) == (base.id, 0, 1)
