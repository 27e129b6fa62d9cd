"""`Supervisor`: gives ingestions to the job engine, repeats what failed, and removes what is not needed any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Final

import sqlalchemy as sa
import structlog

from ragstore_gateway.configurations.tables import ConfigurationRow
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import DatabaseUnavailable
from ragstore_gateway.ingestion import metrics
from ragstore_gateway.ingestion.collections import BUILDING
from ragstore_gateway.ingestion.dbos_jobs import DbosJobs
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

POLL_SECONDS: Final = 2.0
"""How often the database is read for the ingestions of other replicas."""

SWEEP_SECONDS: Final = 30.0
BATCH: Final = 200

FORGET_SCAN: Final = 2000
"""Maximum number of ingestions that a sweep looks at to find those that can be removed. 100,000 take 25 minutes."""

_log = structlog.get_logger(__name__)


class Supervisor:
    """Runs beside the jobs, in each replica.

    Args:
        jobs: runs the ingestions.
        removals: removes vectors.
        backfill: indexes the words of documents.
        retention_days: how long the state of an ingestion is kept after its end.
    """

    def __init__(
        self,
        database: Database,
        jobs: DbosJobs,
        removals: Removals,
        backfill: KeywordBackfill,
        retention_days: float,
    ) -> None:
        self._database = database
        self._jobs = jobs
        self._removals = removals
        self._backfill = backfill
        self._retention = timedelta(days=retention_days)
        self._woken = asyncio.Event()
        self._unchecked: list[tuple[str, str]] | None = None
        self._is_loaded = False
        self._forgotten: tuple[datetime | None, str] | None = None

    def wake(self) -> None:
        """Look for work now."""
        self._woken.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run in the background."""
        tasks = [asyncio.create_task(self._queue_forever()), asyncio.create_task(self._sweep_forever())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _queue_forever(self) -> None:
        while True:
            try:
                await self._queue()
            except DatabaseUnavailable as error:
                _log.warning("ingestions not queued", error=error.cause)
                await asyncio.sleep(POLL_SECONDS)
            except Exception as error:  # noqa: BLE001  # without this loop, no document would be ingested
                _log.error("ingestions not queued", error=type(error).__name__)
                await asyncio.sleep(POLL_SECONDS)
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await self._woken.wait()
            except TimeoutError:
                pass
            self._woken.clear()

    async def _queue(self) -> None:
        """Give ingestions to the job engine that it does not have."""
        unfinished = sa.select(IngestionRow.id, IngestionRow.base_id).where(IngestionRow.state.in_(UNFINISHED))
        new = unfinished.where(IngestionRow.is_queued.is_(False)).order_by(IngestionRow.created_on).limit(BATCH)
        async with self._database.reading() as session:
            if not self._is_loaded and (await session.execute(sa.select(ConfigurationRow.id).limit(1))).first():
                await self._jobs.load()
                self._is_loaded = True
            found = (await session.execute(new)).all()
            if self._unchecked is None:
                # The engine may have lost some, such as the last ones before a loss of power.
                queued = unfinished.where(IngestionRow.is_queued.is_(True))
                self._unchecked = [(row.id, row.base_id) for row in await session.execute(queued)]
            others = (await session.execute(unfinished.limit(1))).first() is not None
        if others:
            # They may be those of another replica, which this one helps with.
            await self._jobs.launch()
        for ingestion_id, base_id in found:
            await self._jobs.start(ingestion_id, base_id)
            change = sa.update(IngestionRow).where(IngestionRow.id == ingestion_id).values(is_queued=True)
            async with self._database.session() as session:
                await session.execute(change)
        for _ in range(min(BATCH, len(self._unchecked))):
            await self._jobs.start(*self._unchecked.pop())
        if self._unchecked or len(found) == BATCH:
            self.wake()

    async def _sweep_forever(self) -> None:
        last = -SWEEP_SECONDS
        seconds = min(SWEEP_SECONDS, self._retention.total_seconds())
        while True:
            try:
                await self._measure()
                await self._restart_lost()
                await self._removals.run()
                await self._backfill.run()
                if monotonic() >= last + seconds:
                    last = monotonic()
                    await self._continue_reindexing()
                    await self._forget()
            except DatabaseUnavailable as error:
                _log.warning("ingestions not swept", error=error.cause)
            except Exception as error:  # noqa: BLE001  # as in `_queue_forever`
                _log.error("ingestions not swept", error=type(error).__name__)
            await asyncio.sleep(POLL_SECONDS * 2)

    async def _measure(self) -> None:
        query = (
            sa.select(IngestionRow.state, sa.func.count())
            .where(IngestionRow.state.in_(UNFINISHED))
            .group_by(IngestionRow.state)
        )
        async with self._database.reading() as session:
            rows = (await session.execute(query)).all()
        metrics.waiting({state: count for state, count in rows})  # noqa: C416  # rows are not typed as pairs

    async def _restart_lost(self) -> None:
        """Start the jobs again that the engine has ended, or lost, before their ingestions ended. The oldest are first.

        An ingestion that begins too often fails, so that this ends.
        """
        is_queued = (IngestionRow.state.in_(UNFINISHED), IngestionRow.is_queued.is_(True))
        query = sa.select(IngestionRow.id, IngestionRow.base_id).where(*is_queued).order_by(IngestionRow.created_on)
        async with self._database.reading() as session:
            found = dict((await session.execute(query.limit(BATCH))).tuples().all())
        for ingestion_id in await self._jobs.lost(list(found)):
            # Only one replica does so, and only if the ingestion has not ended meanwhile.
            own = sa.update(IngestionRow).where(IngestionRow.id == ingestion_id, *is_queued)
            async with self._database.session() as session:
                change = own.values(is_queued=False).returning(IngestionRow.id)
                if (await session.execute(change)).first() is None:
                    continue
            await self._jobs.forget([ingestion_id])
            _log.warning("job of an ingestion was lost", ingestion=ingestion_id, base=found[ingestion_id])
            # It is started like a new one.
            self.wake()

    async def _continue_reindexing(self) -> None:
        """Add the jobs that put further documents into new collections, and repeat those that failed."""
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
            self.wake()
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
            await self._jobs.forget(batch)
            async with self._database.session() as session:
                await session.execute(sa.delete(IngestionRow).where(IngestionRow.id.in_(batch)))
            _log.info("ingestions forgotten", count=len(batch))
        # The next sweep continues here, and the one after the last ingestion with the first one.
        self._forgotten = (rows[-1][0], rows[-1][1]) if len(rows) == FORGET_SCAN else None
