"""When a process looks for documents to ingest. It reads the queue at its start, and polls it once an hour here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import pytest
from sqlalchemy import make_url

from ragstore_client import AsyncClient
from ragstore_gateway.database.database import Database
from ragstore_gateway.ingestion import jobs as jobs_module
from ragstore_gateway.ingestion.acceptance import Acceptance, NewContent
from ragstore_gateway.ingestion.claimed_document import ClaimedDocument
from ragstore_gateway.ingestion.documents import Documents
from ragstore_gateway.ingestion.embedding_requests import EmbeddingRequests
from ragstore_gateway.ingestion.jobs import Jobs
from ragstore_gateway.ingestion.queue import Lane
from ragstore_gateway.ingestion.search_priority import SearchPriority
from tests.support.ingesting_process import IngestingProcess
from tests.support.ingestion import until
from tests.support.knowledge import Knowledge

pytestmark = pytest.mark.process

HOUR = 3600.0


@dataclass
class Observed:
    """A process with jobs that can be held.

    Attributes:
        reads: number of times that the queue was read.
        ended: number of jobs that have ended.
        may_run: jobs wait for it.
        failures: raised by the next jobs.
    """

    knowledge: Knowledge
    documents: Documents
    process: IngestingProcess
    patch: pytest.MonkeyPatch
    reads: int = 0
    ended: int = 0
    may_run: asyncio.Event = field(default_factory=asyncio.Event)
    failures: list[Exception] = field(default_factory=list)

    def jobs(self, concurrency: int = 8) -> Jobs:
        """The jobs of the process."""
        process = self.process
        lanes, run = process.queue.lanes, process.pipeline.run

        async def counted() -> list[Lane]:
            self.reads += 1
            return await lanes()

        async def held(claimed: Sequence[ClaimedDocument]) -> None:
            await self.may_run.wait()
            try:
                if self.failures:
                    raise self.failures.pop()
                await run(claimed)
            finally:
                self.ended += 1

        self.patch.setattr(process.queue, "lanes", counted)
        self.patch.setattr(process.pipeline, "run", held)
        requests = EmbeddingRequests(concurrency=4)
        return Jobs(process.queue, process.leases, process.pipeline, requests, SearchPriority(), concurrency, HOUR)

    async def accept(self, base_id: str) -> str:
        """Accept a document; the id of its ingestion."""
        accepted = await self.documents.accept(base_id, NewContent("", "text/plain", b"tea", "alias"))
        return accepted.id

    async def complete_after(self, jobs: int, base_id: str, ingestion_id: str) -> None:
        """Wait until a number of jobs have ended, and check that an ingestion is complete."""
        await until(lambda: self.ended == jobs)
        assert (await self.documents.ingestion(base_id, ingestion_id)).state == "completed"


@pytest.fixture
async def observed(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Observed]:
    """A process over a database. A job that runs delays the next one of its base until it has ended."""
    monkeypatch.setattr(jobs_module, "LINGER_SECONDS", HOUR)
    database = Database(make_url(database_url))
    async with database.running(), AsyncClient("http://127.0.0.1:9") as store:
        knowledge = Knowledge(database, store)
        async with knowledge.embeddings.running():
            documents = Documents(database, Acceptance(10, 1000))
            yield Observed(knowledge, documents, IngestingProcess(knowledge), monkeypatch)


async def test_the_end_of_a_job_does_not_read_the_queue_if_nothing_can_have_waited_for_it(observed: Observed) -> None:
    base = await observed.knowledge.base("tea", storeType="in-memory")
    ingestion = await observed.accept(base.id)
    jobs = observed.jobs()
    async with jobs.running():
        observed.may_run.set()
        await observed.complete_after(1, base.id, ingestion)
        await until(lambda: not jobs._running)
        for _ in range(20):
            await asyncio.sleep(0)
        assert observed.reads == 1


async def test_a_document_that_is_accepted_while_a_job_of_its_base_runs_is_ingested_at_the_end_of_the_job(
    observed: Observed,
) -> None:
    base = await observed.knowledge.base("tea", storeType="in-memory")
    await observed.accept(base.id)
    jobs = observed.jobs()
    async with jobs.running():
        await until(lambda: bool(jobs._running))
        later = await observed.accept(base.id)
        jobs.wake_for(base.id)
        observed.may_run.set()
        await observed.complete_after(2, base.id, later)


async def test_a_document_that_had_to_wait_for_a_job_of_another_base_is_ingested_at_the_end_of_the_job(
    observed: Observed,
) -> None:
    bases = [await observed.knowledge.base(name, storeType="in-memory") for name in ("tea", "milk")]
    ingestions = [await observed.accept(base.id) for base in bases]
    jobs = observed.jobs(concurrency=1)
    async with jobs.running():
        await until(lambda: bool(jobs._running))
        observed.may_run.set()
        for base, ingestion in zip(bases, ingestions, strict=True):
            await observed.complete_after(2, base.id, ingestion)


async def test_the_documents_of_a_job_that_failed_are_tried_again_immediately(observed: Observed) -> None:
    base = await observed.knowledge.base("tea", storeType="in-memory")
    ingestion = await observed.accept(base.id)
    observed.failures.append(RuntimeError("a defect"))
    jobs = observed.jobs()
    async with jobs.running():
        observed.may_run.set()
        await observed.complete_after(2, base.id, ingestion)
