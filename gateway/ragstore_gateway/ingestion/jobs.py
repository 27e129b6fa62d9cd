"""`Jobs`: runs queued ingestions in this process, also ingestions of processes that have ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import Final

import structlog

from ragstore.kit.background import cancel_all, in_background
from ragstore.kit.tracing.spans import span
from ragstore_gateway.claims.leases import Leases
from ragstore_gateway.errors import DatabaseUnavailable
from ragstore_gateway.ingestion import events, metrics
from ragstore_gateway.ingestion.claimed_document import ClaimedDocument
from ragstore_gateway.ingestion.embedding_requests import EmbeddingRequests
from ragstore_gateway.ingestion.errors import LeaseLost
from ragstore_gateway.ingestion.pipeline import Pipeline
from ragstore_gateway.ingestion.queue import MAX_DOCUMENTS, IngestionQueue, Lane
from ragstore_gateway.ingestion.search_priority import SearchPriority

LINGER_SECONDS: Final = 0.25
"""How long the documents of a base wait for further ones while a job of the base runs, unless they fill a job."""

PREPARING: Final = frozenset({"plan", "extract", "split"})
"""The steps of a document before its chunks are embedded."""

_log = structlog.get_logger(__name__)


class Jobs:
    """Runs jobs: documents of one base that are ingested together.

    Args:
        queue: claims documents.
        leases: the lease of this process.
        pipeline: ingests the documents of a job.
        requests: the requests of jobs for embeddings.
        priority: delays jobs during searches.
        concurrency: maximum number of jobs that run concurrently. A base has three quarters of them at most, so that a
            large base does not delay the others.
        poll_seconds: how often the queue is read for the documents of other processes.
    """

    def __init__(
        self,
        queue: IngestionQueue,
        leases: Leases,
        pipeline: Pipeline,
        requests: EmbeddingRequests,
        priority: SearchPriority,
        concurrency: int,
        poll_seconds: float,
    ) -> None:
        self._queue = queue
        self._leases = leases
        self._pipeline = pipeline
        self._requests = requests
        requests.on_room = self.wake
        self._priority = priority
        self._concurrency = concurrency
        self._lane_concurrency = max(1, concurrency * 3 // 4)
        self._poll_seconds = poll_seconds
        self._woken = asyncio.Event()
        self._running: dict[asyncio.Task[None], Sequence[ClaimedDocument]] = {}
        self._claimed_at: dict[str, float] = {}
        self._lingers = False
        self._has_left = False
        """Whether documents may wait for the end of a job."""
        self._later: asyncio.TimerHandle | None = None
        leases.add(queue, self._interrupt)

    def wake(self) -> None:
        """Look for documents now."""
        self._woken.set()

    def wake_for(self, base_id: str) -> None:
        """Look for a document that was accepted, as soon as a job of its base may start.

        Args:
            base_id: the knowledge base of the document.
        """
        self._has_left = True
        if self._is_full(base_id):
            # The end of a job wakes, or of a request for embeddings.
            return
        waited = monotonic() - self._claimed_at.get(base_id, -LINGER_SECONDS)
        if waited >= LINGER_SECONDS:
            self.wake()
        elif self._later is None:
            self._later = asyncio.get_running_loop().call_later(LINGER_SECONDS - waited, self._wake_later)

    def cancel(self, ingestion_id: str) -> None:
        """Stop the work on an ingestion that has ended, if this process works on it.

        Args:
            ingestion_id: the ingestion.
        """
        for claimed in self._running.values():
            for each in claimed:
                if each.id == ingestion_id:
                    each.cancel()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run jobs in the background. At the end, they are interrupted."""
        try:
            async with in_background(self._run_forever()):
                yield
        finally:
            await self._interrupt()

    def _wake_later(self) -> None:
        self._later = None
        self.wake()

    async def _run_forever(self) -> None:
        while True:
            self._woken.clear()
            try:
                await self._priority.pausing(self._start_jobs())
            except DatabaseUnavailable as error:
                self._has_left = True
                _log.warning("ingestions not claimed", error=error.cause)
            except Exception as error:  # noqa: BLE001  # without this loop, no document would be ingested
                self._has_left = True
                _log.error("ingestions not claimed", error=type(error).__name__)
            try:
                async with asyncio.timeout(LINGER_SECONDS if self._lingers else self._poll_seconds):
                    await self._woken.wait()
            except TimeoutError:
                pass

    async def _start_jobs(self) -> None:
        self._lingers = False
        self._has_left = len(self._running) >= self._concurrency
        if self._has_left:
            return
        lanes = await self._queue.lanes()
        if lanes and self._leases.is_held and not self._leases.is_valid:
            # The jobs before are interrupted first.
            self._has_left = True
            return
        while lanes:
            is_full = len(self._running) >= self._concurrency
            startable = [] if is_full else [lane for lane in lanes if self._may_start(lane)]
            self._has_left |= len(startable) < len(lanes)
            if not startable:
                return
            lane = min(startable, key=lambda lane: (self._jobs_of(lane.base_id), lane.oldest))
            left = await self._start_job(lane)
            lanes = [each for each in startable if each is not lane] + ([left] if left is not None else [])

    def _may_start(self, lane: Lane) -> bool:
        """Whether a further job of a base may start."""
        if self._is_full(lane.base_id):
            return False
        jobs = self._jobs_of(lane.base_id)
        waited = monotonic() - self._claimed_at.get(lane.base_id, -LINGER_SECONDS)
        if jobs and not lane.interrupted and lane.new < MAX_DOCUMENTS and waited < LINGER_SECONDS:
            self._lingers = True
            return False
        return True

    async def _start_job(self, lane: Lane) -> Lane | None:
        """Start a job of a base.

        Returns:
            The ingestions of the base that are left; None for none.
        """
        is_interrupted = lane.interrupted > 0
        claimed = await self._queue.claim(lane.base_id, interrupted=is_interrupted)
        if claimed:
            metrics.job(len(claimed))
            task = asyncio.create_task(self._priority.pausing(self._run(claimed)), name="ingest")
            self._running[task] = claimed
            task.add_done_callback(self._ended)
        if is_interrupted:
            left = Lane(lane.base_id, lane.new, lane.interrupted - 1, lane.oldest)
        else:
            self._claimed_at[lane.base_id] = monotonic()
            # Another process may have claimed them.
            left = Lane(lane.base_id, lane.new - len(claimed) if claimed else 0, 0, lane.oldest)
        return left if left.new > 0 or left.interrupted > 0 else None

    def _is_full(self, base_id: str) -> bool:
        """Whether no further job of a base may start now."""
        jobs = [claimed for claimed in self._running.values() if claimed[0].row.base_id == base_id]
        preparing = sum(all(each.step in PREPARING for each in claimed) for claimed in jobs)
        return len(jobs) >= self._lane_concurrency or self._requests.is_full(base_id, preparing)

    def _jobs_of(self, base_id: str) -> int:
        """The number of jobs of a base that run."""
        return sum(claimed[0].row.base_id == base_id for claimed in self._running.values())

    async def _run(self, claimed: Sequence[ClaimedDocument]) -> None:
        ids = [each.id for each in claimed]
        base_id = claimed[0].row.base_id
        structlog.contextvars.bind_contextvars(base=base_id)
        attributes: dict[str, str | int] = {"base": base_id, "documents": len(ids), "ingestions": ",".join(ids)}
        with span("ingestion job", attributes=attributes, begins=True):
            for each in claimed:
                events.started(each.row)
            await self._run_traced(claimed, ids)

    async def _run_traced(self, claimed: Sequence[ClaimedDocument], ids: Sequence[str]) -> None:
        try:
            await self._pipeline.run(claimed)
        except LeaseLost:
            self._has_left = True
            _log.warning("job interrupted: the lease has expired", documents=len(ids))
        except Exception as error:  # noqa: BLE001  # its documents are tried again alone, a limited number of times
            self._has_left = True
            _log.error("job failed", documents=len(ids), error=type(error).__name__)
            try:
                await self._queue.release(ids)
            except DatabaseUnavailable as unavailable:
                _log.warning("ingestions not released", error=unavailable.cause)

    def _ended(self, task: asyncio.Task[None]) -> None:
        claimed = self._running.pop(task)
        self._queue.claimed.difference_update(each.id for each in claimed)
        base_id = claimed[0].row.base_id
        if not self._jobs_of(base_id):
            self._claimed_at.pop(base_id, None)
        if self._has_left or task.cancelled():
            self.wake()

    async def _interrupt(self) -> None:
        """End all jobs of this process. Nothing of their ingestions is changed."""
        await cancel_all(list(self._running))
