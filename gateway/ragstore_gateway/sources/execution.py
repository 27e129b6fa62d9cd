"""`SourceExecution`: what a run of a source does, from the first visit to the removal of what has disappeared."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import asdict
from time import monotonic
from typing import Any, ClassVar, Final

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.claims.execution import Execution
from ragstore_gateway.claims.runs import (
    CANCELLED,
    COMPLETED,
    FAILED,
    INCOMPLETE,
    INTERNAL,
    INTERRUPTED,
    RunLost,
    RunState,
)
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.source import Source
from ragstore_gateway.database.repetition import backoff
from ragstore_gateway.errors import ConfigurationNotFound, DatabaseUnavailable, QueueFull
from ragstore_gateway.sources import metrics
from ragstore_gateway.sources.document_states import (
    ChangedPage,
    DocumentTaken,
    KnownDocument,
    Missing,
    PageNotStorable,
    Pending,
)
from ragstore_gateway.sources.runs import BASE_DELETED, RunCounts, SourceRuns
from ragstore_gateway.sources.source_documents import SourceDocuments
from ragstore_gateway.sources.source_kind import SourceKind, with_pauses
from ragstore_gateway.sources.tables import SourceRunRow
from ragstore_gateway.sources.visit import FOUND, TIME_BUDGET, CrawlEnd, KnownPage, Visit
from ragstore_gateway.sources.waiting_pages import WaitingPages
from ragstore_gateway.tenants.errors import TenantLimitExceeded

MAX_PENDING: Final = 64
"""Maximum number of documents of a run whose ingestions have not ended: the documents of one job, and of the next
one, which fill it meanwhile."""

SEEN_BATCH: Final = 50
"""Maximum number of unchanged pages that are recorded with one transaction."""

POLL_SECONDS: Final = 0.2
"""How often pages are accepted and ingestions that have ended are recorded, each with one transaction for many."""

DRAIN_SECONDS: Final = 60.0
"""Minimum time for the ingestions that are in progress when the visits have ended."""

MAX_SEGMENTS: Final = "max_segments"
NOTHING_READ: Final = "nothing_read"
DATABASE: Final = "database_unavailable"

_log = structlog.get_logger(__name__)


class _OutOfTime(Exception):
    """The time budget is used up, and a page would have to wait for the ingestions of others."""


class SourceExecution(Execution[SourceRunRow]):
    """Executes one run of a source.

    Args:
        run: the run, which this process has claimed.
        base: the knowledge base.
        source: the source, as the run's version of the base has it.
        kind: its type.
        documents: the documents of sources.
    """

    noun: ClassVar[str] = "source run"

    def __init__(
        self,
        run: SourceRunRow,
        base: KnowledgeBase,
        source: Source,
        kind: SourceKind,
        runs: SourceRuns,
        documents: SourceDocuments,
    ) -> None:
        super().__init__(run, runs, {"base": run.base_id, "source": run.source}, runs.report_seconds)
        self._base = base
        self._source = source
        self._kind = kind
        self._documents = documents
        self._counts = RunCounts()
        self._known: dict[str, KnownDocument] = {}
        self._read: dict[str, KnownPage] = {}
        """The known pages that were requested, until their visits."""
        self._found: set[str] = set()
        """Locations of the pages that are not missing."""
        self._waiting = WaitingPages()
        self._pending: list[Pending] = []
        self._seen: dict[str, Visit] = {}
        self._polled = -float("inf")
        self._deadline = monotonic() + source.settings.time_budget_minutes * 60

    @property
    def values(self) -> Mapping[str, Any]:
        """The counts."""
        return asdict(self._counts)

    async def work(self) -> tuple[RunState, str]:
        """Reconcile the documents of the source with its pages."""
        try:
            return await self._reconcile()
        except RunLost:
            raise
        except ConfigurationNotFound:
            return CANCELLED, BASE_DELETED
        except DatabaseUnavailable as error:
            _log.warning("source run interrupted", **self._names, error=error.cause)
            return INTERRUPTED, DATABASE
        except Exception as error:  # noqa: BLE001  # whatever a site causes, the run must end
            _log.error("source run failed", **self._names, error=type(error).__name__, exc_info=False)
            return FAILED, INTERNAL
        finally:
            metrics.pages(self.values)

    async def _reconcile(self) -> tuple[RunState, str]:
        """Visit all that the source has, and ingest what changed. If nothing was left out, the rest is missing."""
        self._known = await self._documents.load(self.run.base_id, self.run.source)
        end = await self._visit_all()
        await self._drain()
        await self._repeated(self._flush)
        if self._pending:
            return INCOMPLETE, TIME_BUDGET
        counts = self._counts
        if counts.failed and not counts.added + counts.changed + counts.unchanged:
            return FAILED, end.reason or NOTHING_READ
        if not end.complete:
            return INCOMPLETE, end.reason
        await self._repeated(self._complete)
        return COMPLETED, ""

    async def _complete(self) -> None:
        """End the run, and count what it has not found, with one transaction: a repetition counts nothing twice."""

        async def end(session: AsyncSession, missing: Missing) -> None:
            self._counts.missing, self._counts.removed = missing.missing, missing.removed
            await self._runs.end_in(session, self.run.id, COMPLETED, "", self.values)
            # The lease is not lost from now on, unless the transaction fails.
            self._is_ended = True

        try:
            await self._documents.miss(self.run, self._found, self._kind.max_missed(self._source.settings), end)
        except BaseException:
            self._is_ended = False
            raise

    async def _visit_all(self) -> CrawlEnd:
        crawl = self._kind.open(self.run.base_id, self._source, self._find)
        try:
            async with aclosing(with_pauses(crawl.visits(), POLL_SECONDS)) as visits:
                async for visit in visits:
                    if visit is not None:
                        await self._take(visit)
                    await self._poll()
                    if self._counts.chunks >= self._max_chunks:
                        return CrawlEnd(complete=False, reason=MAX_SEGMENTS)
            await self._accept()
        except _OutOfTime:
            return CrawlEnd(complete=False, reason=TIME_BUDGET)
        return crawl.end

    async def _poll(self) -> None:
        """Accept the pages that wait, and record the documents whose ingestions have ended, from time to time."""
        if monotonic() >= self._polled + POLL_SECONDS:
            await self._accept()
            await self._settle()
            self._polled = monotonic()

    async def _find(self, url: str) -> KnownPage | None:
        known = self._known.get(url)
        if known is None:
            return None
        page = self._read[url] = await self._documents.page(known)
        return page

    async def _take(self, visit: Visit) -> None:
        if visit.outcome in FOUND and self._waiting.has(self._kind.document_name(visit.url)):
            # The document is to belong to the page that was found first.
            await self._accept()
        if visit.outcome in FOUND:
            self._found.add(visit.url)
        known = self._known.get(visit.url)
        before = self._read.pop(visit.url, None)
        if visit.outcome == "changed":
            await self._ingest(visit, before)
        elif visit.outcome == "unchanged" and known is not None:
            self._counts.unchanged += 1
            self._seen[known.document_id] = visit
            if len(self._seen) >= SEEN_BATCH:
                await self._flush()
        elif visit.outcome == "failed":
            self._counts.failed += 1
        elif visit.outcome != "gone":
            self._counts.skipped += 1

    async def _ingest(self, visit: Visit, before: KnownPage | None) -> None:
        page = ChangedPage(self._kind.document_name(visit.url), visit, before)
        while self._is_full or self._may_exceed(visit):
            if self._waiting:
                await self._accept()
            elif not self._pending:
                break
            else:
                self._check_time()
                await asyncio.sleep(POLL_SECONDS)
                await self._settle()
        if self._counts.chunks >= self._max_chunks:
            return
        if not self._waiting.has_room_for(page):
            await self._accept()
        self._waiting.add(page)

    async def _accept(self) -> None:
        """Accept the documents of the pages that wait. It waits while the queue is full."""
        attempt = 0
        while pages := list(self._waiting):
            outcomes = await self._documents.acceptance.accept(self.run, self._base.name, pages, self._found)
            for page, outcome in zip(pages, outcomes, strict=True):
                if not isinstance(outcome, QueueFull):
                    self._waiting.remove(page)
                    self._count(outcome)
            if self._waiting:
                self._check_time()
                # Others may take the room again and again.
                attempt = attempt + 1 if len(self._waiting) == len(pages) else 1
                await asyncio.sleep(backoff(attempt))

    def _count(self, outcome: Pending | DocumentTaken | PageNotStorable | TenantLimitExceeded) -> None:
        if isinstance(outcome, DocumentTaken):
            self._counts.skipped += 1
        elif isinstance(outcome, PageNotStorable | TenantLimitExceeded):
            self._counts.failed += 1
        else:
            self._pending.append(outcome)
            # The document has not the content of that page any more.
            self._known.pop(outcome.former, None)

    def _check_time(self) -> None:
        # Ingestions may take long: they are repeated while a provider or an engine is unavailable.
        if monotonic() >= self._deadline:
            raise _OutOfTime

    @property
    def _is_full(self) -> bool:
        return len(self._pending) + len(self._waiting) >= MAX_PENDING

    @property
    def _max_chunks(self) -> int:
        return self._source.settings.max_segments_per_run

    def _may_exceed(self, visit: Visit) -> bool:
        """Whether a page, together with the pages in progress, may have more chunks than the run has left.

        The number of chunks is known when a text is split. An estimate that is too high costs time only.
        """
        visits = [each.visit for each in self._pending] + [page.visit for page in self._waiting] + [visit]
        estimate = 2 * sum(each.characters for each in visits) // self._base.chunk_size + len(visits)
        return self._counts.chunks + estimate > self._max_chunks

    async def _settle(self) -> None:
        """Record the documents whose ingestions have ended."""
        if not self._pending:
            return
        counts = self._counts
        for each in await self._documents.ended(self.run.id, self._pending):
            self._pending.remove(each.pending)
            if not each.is_stored:
                counts.failed += 1
            elif each.is_unchanged:
                counts.unchanged += 1
            else:
                counts.chunks += each.chunks
                if each.pending.is_new:
                    counts.added += 1
                else:
                    counts.changed += 1

    async def _drain(self) -> None:
        """Wait for the ingestions in progress. The next run records ingestions that take longer."""
        deadline = max(self._deadline, monotonic() + DRAIN_SECONDS)
        await self._repeated(self._settle)
        while self._pending and monotonic() < deadline:
            await asyncio.sleep(POLL_SECONDS)
            await self._repeated(self._settle)

    async def _flush(self) -> None:
        if self._seen:
            await self._documents.seen(self.run.id, self._seen)
            self._seen = {}
