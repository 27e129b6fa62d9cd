"""`Pipeline`: ingests the documents of a job, together as far as possible, and alone otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import structlog

from ragstore.kit.background import cancel_all
from ragstore.kit.tracing.spans import span
from ragstore_gateway.database.repetition import repeated
from ragstore_gateway.errors import DatabaseUnavailable
from ragstore_gateway.ingestion import metrics
from ragstore_gateway.ingestion.claimed_document import ClaimedDocument
from ragstore_gateway.ingestion.errors import IngestionAbandoned, LeaseLost
from ragstore_gateway.ingestion.events import ids_of
from ragstore_gateway.ingestion.failures import IngestionFailure
from ragstore_gateway.ingestion.publication import Publication
from ragstore_gateway.ingestion.recorded_ingestion import RecordedIngestion
from ragstore_gateway.ingestion.removals import Removals
from ragstore_gateway.ingestion.search_priority import SearchPriority
from ragstore_gateway.ingestion.shared_ingestion import SharedIngestion

_log: Final = structlog.get_logger(__name__)


class Pipeline:
    """Ingests the documents of jobs.

    Args:
        publication: ends ingestions.
        removals: removes vectors.
        shared: ingests documents together.
        recorded: ingests documents alone.
        priority: delays ingestions during searches.
    """

    def __init__(
        self,
        publication: Publication,
        removals: Removals,
        shared: SharedIngestion,
        recorded: RecordedIngestion,
        priority: SearchPriority,
    ) -> None:
        self._publication = publication
        self._removals = removals
        self._shared = shared
        self._recorded = recorded
        self._priority = priority

    async def run(self, claimed: Sequence[ClaimedDocument]) -> None:
        """Ingest the documents of a job. Each ingestion ends, unless it belongs to another process meanwhile.

        Args:
            claimed: documents of one base, which this process has claimed.

        Raises:
            LeaseLost: the lease of this process has expired.
        """
        alone: list[asyncio.Task[None]] = []

        def leave(each: ClaimedDocument, error: Exception | None) -> None:
            if not each.is_cancelled:
                each.task = asyncio.create_task(self._priority.pausing(self._run_alone(each, error)))
                alone.append(each.task)

        try:
            if claimed[0].is_interrupted:
                for each in claimed:
                    leave(each, None)
            else:
                for wave in _waves(claimed):
                    published = await self._shared.run(wave, leave)
                    lost = [*published.lost, *(each for each in wave if each.is_cancelled and each.task is None)]
                    await self._clean_up(wave, lost, has_removals=published.has_removals)
            for outcome in await asyncio.gather(*alone, return_exceptions=True):
                if isinstance(outcome, Exception):
                    raise outcome
        finally:
            await cancel_all(alone)

    async def _run_alone(self, claimed: ClaimedDocument, error: Exception | None) -> None:
        """Ingest a document alone, whatever happens to it.

        Args:
            error: why it leaves the others, if it is the reason itself.
        """
        # For the log lines of everything that this task calls.
        structlog.contextvars.bind_contextvars(**ids_of(claimed.row))
        try:
            with span("ingestion of a document", attributes=ids_of(claimed.row)):
                await self._end_alone(claimed, error)
        except IngestionAbandoned:
            _log.info("ingestion abandoned", step=claimed.step)
            await self._clean_up([claimed], [claimed], has_removals=False)
        except asyncio.CancelledError:
            if not claimed.is_cancelled:
                raise
            # It was cancelled, and not the job.
            await self._clean_up([claimed], [claimed], has_removals=False)

    async def _end_alone(self, claimed: ClaimedDocument, error: Exception | None) -> None:
        """Ingest a document alone. While the database cannot be used, this waits: a failure could not be recorded."""

        def waits(unavailable: DatabaseUnavailable) -> None:
            _log.warning("ingestion waits for the database", step=claimed.step, error=unavailable.cause)

        failure = None if error is None else IngestionFailure.of(error)
        if failure is not None and not failure.is_final:
            failure = None
        if failure is None:
            failure = await repeated(partial(self._ingest_alone, claimed), waits)
        if failure is not None:
            await repeated(partial(self._fail, claimed, failure), waits)

    async def _ingest_alone(self, claimed: ClaimedDocument) -> IngestionFailure | None:
        try:
            has_removals = await self._recorded.run(claimed)
            await self._clean_up([claimed], [], has_removals=has_removals)
        except (DatabaseUnavailable, IngestionAbandoned, LeaseLost):
            raise
        except Exception as raised:  # noqa: BLE001  # a document must not harm the others, whatever it causes
            return IngestionFailure.of(raised)
        return None

    async def _fail(self, claimed: ClaimedDocument, failure: IngestionFailure) -> None:
        await self._publication.fail(claimed, failure)
        await self._clean_up([claimed], [claimed], has_removals=True)

    async def _clean_up(
        self, claimed: Sequence[ClaimedDocument], lost: Sequence[ClaimedDocument], *, has_removals: bool
    ) -> None:
        """Remove vectors that nothing refers to any more. The supervisor repeats removals that fail.

        Args:
            claimed: documents of the base.
            lost: documents whose ingestions were ended elsewhere.
            has_removals: whether there are vectors to remove already.
        """
        if not lost and not has_removals:
            return
        try:
            with metrics.step("clean up"):
                if lost:
                    has_removals |= await self._publication.clean_up(lost)
                if has_removals:
                    await self._removals.run(claimed[0].row.base_id)
        except DatabaseUnavailable as error:
            _log.warning("vectors are removed later", base=claimed[0].row.base_id, error=error.cause)


def _waves(claimed: Sequence[ClaimedDocument]) -> Iterator[list[ClaimedDocument]]:
    """Divide documents so that none occurs twice in a part. Its contents keep their order."""
    waves: list[list[ClaimedDocument]] = []
    occurred: dict[str, int] = {}
    for each in claimed:
        number = occurred.get(each.row.document_id, 0)
        occurred[each.row.document_id] = number + 1
        if number == len(waves):
            waves.append([])
        waves[number].append(each)
    yield from waves
