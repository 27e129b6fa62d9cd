"""`Schedules`: when the sources of all knowledge bases run by themselves."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime

import sqlalchemy as sa
import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.configurations.configuration import Configuration, ConfigurationListener
from ragstore_gateway.configurations.cron import next_time
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.database.clock import database_now
from ragstore_gateway.database.database import Database
from ragstore_gateway.ingestion.transactions import lock_base
from ragstore_gateway.sources.errors import SourceRunning
from ragstore_gateway.sources.runs import BASE_DELETED, SCHEDULE, SOURCE_REMOVED, SourceRuns
from ragstore_gateway.sources.tables import SourceRunRow, SourceScheduleRow

_log = structlog.get_logger(__name__)


class _Taken(Exception):
    """Another replica has created the run of this time, or the schedule has changed."""


class Schedules(ConfigurationListener[KnowledgeBase]):
    """The schedules of sources. They follow the configurations, in the transactions of their changes.

    A time is claimed in the transaction that creates its run, so that only one replica runs it. Times that were missed,
    because no replica was running, are run once.

    Args:
        wake: called when a schedule may be due.
    """

    def __init__(self, database: Database, runs: SourceRuns, wake: Callable[[], None]) -> None:
        self._database = database
        self._runs = runs
        self._wake = wake

    async def created(self, session: AsyncSession, after: Configuration[KnowledgeBase]) -> None:
        """Begin the schedules of a new base."""
        await _write(session, after)

    async def changed(
        self, session: AsyncSession, before: Configuration[KnowledgeBase], after: Configuration[KnowledgeBase]
    ) -> None:
        """Change the schedules of a base. Runs of a source that it does not have any more are cancelled."""
        types = {source.name: source.type for source in after.body.sources}
        removed = [source.name for source in before.body.sources if types.get(source.name) != source.type]
        if removed:
            of_removed = SourceRunRow.source.in_(removed)
            await self._runs.end_all(session, SOURCE_REMOVED, SourceRunRow.base_id == after.id, of_removed)
        await _write(session, after)

    async def deleted(self, session: AsyncSession, before: Configuration[KnowledgeBase], *, permanent: bool) -> None:
        """End the schedules of a base, and cancel its runs."""
        await self._runs.end_all(session, BASE_DELETED, SourceRunRow.base_id == before.id)
        await session.execute(sa.delete(SourceScheduleRow).where(SourceScheduleRow.base_id == before.id))

    async def committed(self, id: str) -> None:
        """Look for schedules that are due."""
        self._wake()

    async def claim_due(self, limit: int) -> AsyncGenerator[SourceRunRow, None]:
        """Begin the runs that are due, which belong to this process.

        Args:
            limit: maximum number of runs.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        async with self._database.reading() as session:
            due = SourceScheduleRow.next_on <= await _now(session)
            query = sa.select(SourceScheduleRow).where(due).order_by(SourceScheduleRow.next_on).limit(limit)
            found = list(await session.scalars(query))
        for schedule in found:
            try:
                run = await self._claim(schedule)
            except _Taken:
                continue
            if run is not None:
                yield run

    async def _claim(self, schedule: SourceScheduleRow) -> SourceRunRow | None:
        """Begin the run of a schedule.

        Returns:
            The run; None if another run of the source has not ended, so that this time is skipped.

        Raises:
            _Taken: another replica has created it.
        """
        async with self._runs.claiming() as (session, claimed):
            # Locked in the order of all transactions of runs: the base, the run, the schedule.
            base = await lock_base(session, schedule.base_id)
            run = None
            if base is not None:
                try:
                    run = await self._runs.begin_run(session, base.id, base.current_version, schedule.source, SCHEDULE)
                except SourceRunning:
                    _log.info("scheduled source run skipped", base=schedule.base_id, source=schedule.source)
            own = (
                SourceScheduleRow.base_id == schedule.base_id,
                SourceScheduleRow.source == schedule.source,
                SourceScheduleRow.next_on == schedule.next_on,
                SourceScheduleRow.cron == schedule.cron,
            )
            following = next_time(schedule.cron, await _now(session))
            change = sa.update(SourceScheduleRow).where(*own).values(next_on=following)
            if (await session.execute(change.returning(SourceScheduleRow.source))).first() is None:
                raise _Taken
            if run is not None:
                claimed.append(run.id)
        return run


async def _now(session: AsyncSession) -> datetime:
    return datetime.fromtimestamp(await database_now(session), UTC)


async def _write(session: AsyncSession, after: Configuration[KnowledgeBase]) -> None:
    """Make the schedules of a base match its configuration. An unchanged schedule keeps its next time."""
    query = sa.select(SourceScheduleRow).where(SourceScheduleRow.base_id == after.id).with_for_update()
    rows = {row.source: row for row in await session.scalars(query)}
    crons = {source.name: source.cron for source in after.body.sources if source.enabled and source.cron}
    for name, row in rows.items():
        if crons.get(name) != row.cron:
            await session.delete(row)
    await session.flush()
    now = await _now(session) if crons else None
    for name, cron in crons.items():
        if now is not None and (name not in rows or rows[name].cron != cron):
            session.add(
                SourceScheduleRow(
                    base_id=after.id, source=name, cron=cron, next_on=next_time(cron, now), interruptions=0
                )
            )
    await session.flush()
