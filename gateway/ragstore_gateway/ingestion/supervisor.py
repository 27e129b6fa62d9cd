"""`Supervisor`: repeats what failed, and removes what is not needed any more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Final

import sqlalchemy as sa
import structlog

from ragstore.kit.background import in_background
from ragstore_gateway.database.database import Database
from ragstore_gateway.database.repetition import forever
from ragstore_gateway.errors import DatabaseUnavailable
from ragstore_gateway.ingestion import metrics
from ragstore_gateway.ingestion.collections import BUILDING
from ragstore_gateway.ingestion.keyword_backfill import KeywordBackfill
from ragstore_gateway.ingestion.removals import Removals
from ragstore_gateway.ingestion.tables import CollectionRow, DocumentRow, IngestionRow
from ragstore_gateway.ingestion.transactions import (
    FAILED,
    REINDEX,
    REINDEX_BATCH,
    UNFINISHED,
    add_reindexing,
    lock_base,
)

POLL_SECONDS: Final = 4.0
"""How often removals are repeated."""

MEASURE_SECONDS: Final = 0.5
"""How often the queue is measured. An alert or an autoscaler sees a queue of at most a second ago."""

SWEEP_SECONDS: Final = 30.0
BATCH: Final = 200

FORGET_SCAN: Final = 2000
"""Maximum number of ingestions that a sweep checks for removal. 100,000 take 25 minutes."""

_log = structlog.get_logger(__name__)


class Supervisor:
    """Runs beside the jobs, in each replica.

    Args:
        wake: called when there are further ingestions.
        removals: removes vectors.
        backfill: indexes the words of documents.
        retention_days: how long the state of an ingestion is kept after its end.
    """

    def __init__(
        self,
        database: Database,
        wake: Callable[[], None],
        removals: Removals,
        backfill: KeywordBackfill,
        retention_days: float,
    ) -> None:
        self._database = database
        self._wake = wake
        self._removals = removals
        self._backfill = backfill
        self._retention = timedelta(days=retention_days)
        self._swept = -float("inf")
        self._forgotten: tuple[datetime | None, str] | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run in the background."""
        sweeps = forever(self._sweep, POLL_SECONDS, "ingestions not swept")
        async with in_background(sweeps, self._measure_forever()):
            yield

    async def _measure_forever(self) -> None:
        """Measure the queue, also while removals take long. The sweeps log that the database is unavailable.

        Nothing is counted while nothing changes: two counts a second were two fifths of the work of an idle gateway.
        """
        measured: object = None
        while True:
            with contextlib.suppress(DatabaseUnavailable):
                version = await self._database.version()
                if version != measured:
                    await self._measure()
                    measured = version
            await asyncio.sleep(MEASURE_SECONDS)

    async def _sweep(self) -> None:
        await self._removals.run()
        await self._backfill.run()
        if monotonic() >= self._swept + min(SWEEP_SECONDS, self._retention.total_seconds()):
            self._swept = monotonic()
            await self._continue_reindexing()
            await self._forget()

    async def _measure(self) -> None:
        query = (
            sa.select(IngestionRow.state, sa.func.count())
            .where(IngestionRow.state.in_(UNFINISHED))
            .group_by(IngestionRow.state)
        )
        async with self._database.reading() as session:
            rows = (await session.execute(query)).all()
        metrics.waiting({state: count for state, count in rows})  # noqa: C416  # rows are not typed as pairs

    async def _continue_reindexing(self) -> None:
        """Add the jobs that put further documents into new collections, and repeat failed jobs."""
        query = sa.select(CollectionRow.id, CollectionRow.base_id).where(CollectionRow.state == BUILDING)
        async with self._database.reading() as session:
            found = (await session.execute(query)).all()
        for collection_id, base_id in found:
            # Other transactions get their turn between two batches.
            while await self._add_reindexing(collection_id, base_id) == REINDEX_BATCH:
                pass

    async def _add_reindexing(self, collection_id: str, base_id: str) -> int:
        async with self._database.session() as session:
            base = await lock_base(session, base_id)
            collection = await session.get(CollectionRow, collection_id)
            if base is None or collection is None:
                return 0
            added = await add_reindexing(session, base_id, base.name, collection)
        if added:
            self._wake()
        return added

    async def _forget(self) -> None:
        """Remove ingestions that ended long ago, except for each document's last one, and failures that are counted.

        As most of them are the last ones, which stay, each sweep looks at a limited number.
        """
        counted = (
            sa.select(CollectionRow.id)
            .where(
                CollectionRow.base_id == IngestionRow.base_id,
                CollectionRow.state == BUILDING,
                CollectionRow.created_on <= IngestionRow.created_on,
                IngestionRow.kind == REINDEX,
                IngestionRow.state == FAILED,
            )
            .exists()
        )
        last = sa.select(DocumentRow.id).where(DocumentRow.last_ingestion == IngestionRow.id).exists()
        query = (
            sa.select(IngestionRow.finished_on, IngestionRow.id, sa.and_(~last, ~counted))
            .where(IngestionRow.finished_on < datetime.now(UTC) - self._retention)
            .order_by(IngestionRow.finished_on, IngestionRow.id)
            .limit(FORGET_SCAN)
        )
        if self._forgotten is not None:
            query = query.where(sa.tuple_(IngestionRow.finished_on, IngestionRow.id) > sa.tuple_(*self._forgotten))
        async with self._database.reading() as session:
            rows = (await session.execute(query)).all()
        ids = [row[1] for row in rows if row[2]]
        for start in range(0, len(ids), BATCH):
            batch = ids[start : start + BATCH]
            async with self._database.session() as session:
                await session.execute(sa.delete(IngestionRow).where(IngestionRow.id.in_(batch)))
            _log.info("ingestions forgotten", count=len(batch))
        # The next sweep continues here, and the one after the last ingestion with the first one.
        self._forgotten = (rows[-1][0], rows[-1][1]) if len(rows) == FORGET_SCAN else None
