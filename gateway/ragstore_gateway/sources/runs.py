"""`Runs`: which runs of sources are in progress, by whom, and how the earlier ones ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import ConfigurationNotFound
from ragstore_gateway.ingestion.leases import Leases
from ragstore_gateway.ingestion.transactions import lock_base
from ragstore_gateway.sources import metrics
from ragstore_gateway.sources.errors import SourceRunEnded, SourceRunning, SourceRunNotFound
from ragstore_gateway.sources.tables import SourceRunRow, SourceScheduleRow

RunState: TypeAlias = Literal["running", "completed", "incomplete", "failed", "cancelled", "interrupted"]
RunTrigger: TypeAlias = Literal["manual", "schedule"]

RUNNING: Final = "running"
COMPLETED: Final = "completed"
INCOMPLETE: Final = "incomplete"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
INTERRUPTED: Final = "interrupted"

MANUAL: Final = "manual"
SCHEDULE: Final = "schedule"

MAX_RUNS_KEPT: Final = 100
"""Maximum number of runs of a source in its history."""

MAX_REPEATS: Final = 3
"""How often a scheduled run that was interrupted is repeated. One that ends the process each time is not repeated
forever."""

LEASE_EXPIRED: Final = "lease_expired"
REQUESTED: Final = "requested"
BASE_DELETED: Final = "base_deleted"
SOURCE_REMOVED: Final = "source_removed"
"""Reasons of runs that are not complete."""


class RunLost(Exception):
    """The run has ended meanwhile: it was cancelled, or another process considered this one ended."""


@dataclass(slots=True)
class RunCounts:
    """The numbers of pages of a run so far; see `SourceRunRow`."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    missing: int = 0
    removed: int = 0
    failed: int = 0
    skipped: int = 0
    chunks: int = 0


class Runs:
    """The runs of all sources.

    A run belongs to the process that executes it. When the lease of the process expires, any other one may end the run
    as interrupted. Each write of a run checks in its transaction that the run has not ended.

    Args:
        leases: the lease of this process, which something else renews.

    Attributes:
        executed: the runs that this process executes. It does not end them itself when it is late.
    """

    def __init__(self, database: Database, leases: Leases) -> None:
        self.executed: set[str] = set()
        self._database = database
        self._leases = leases

    @property
    def report_seconds(self) -> float:
        """How often the counts of a run are written, and runs of processes that have ended are looked for."""
        return self._leases.seconds / 3

    async def hold_lease(self) -> None:
        """Make sure that this process has a lease, before it begins runs."""
        await self._leases.hold()

    async def claim(self, base_id: str, version: int, source: str, trigger: RunTrigger) -> SourceRunRow | None:
        """Begin a run, which belongs to this process.

        Args:
            base_id: the knowledge base.
            version: the version of its configuration.
            source: name of the source.
            trigger: why it runs.

        Returns:
            The run; None if the base has another version, which may not have the source any more.

        Raises:
            ConfigurationNotFound: there is no such knowledge base.
            DatabaseUnavailable: the database cannot be used.
            SourceRunning: another run of the source has not ended.
        """
        await self._leases.hold()
        try:
            async with self._database.session() as session:
                base = await lock_base(session, base_id)
                if base is None:
                    raise ConfigurationNotFound(f"There is no knowledge base {base_id}")
                if base.current_version != version:
                    return None
                return await self.claim_in(session, base_id, version, source, trigger)
        except IntegrityError:
            async with self._database.reading() as session:
                running = await session.scalar(_running(base_id, source))
            raise _conflict(base_id, source, "" if running is None else running.id) from None

    async def claim_in(
        self, session: AsyncSession, base_id: str, version: int, source: str, trigger: RunTrigger
    ) -> SourceRunRow:
        """Begin a run in a transaction that has locked the base; see `claim`. The process has a valid lease."""
        await self.check_idle(session, base_id, source)
        row = SourceRunRow(
            id=str(uuid4()),
            base_id=base_id,
            source=source,
            base_version=version,
            trigger=trigger,
            state=RUNNING,
            reason="",
            owner=self._leases.owner,
            started_on=datetime.now(UTC),
            finished_on=None,
            **asdict(RunCounts()),
        )
        session.add(row)
        await session.flush()
        return row

    async def check_idle(self, session: AsyncSession, base_id: str, source: str) -> None:
        """Check that no run of a source is in progress. One whose process has ended is ended, too.

        Args:
            session: a transaction that has locked the base.
            base_id: the knowledge base.
            source: name of the source.

        Raises:
            SourceRunning: there is one.
        """
        running = await session.scalar(_running(base_id, source).with_for_update())
        if running is None:
            return
        if running.id in self.executed or await self._leases.is_living(session, running.owner):
            raise _conflict(base_id, source, running.id)
        await end_run(session, running, INTERRUPTED, LEASE_EXPIRED)
        await session.flush()

    async def report(self, run_id: str, counts: RunCounts) -> bool:
        """Write the counts of a run.

        Args:
            run_id: the run.
            counts: what it has done so far.

        Returns:
            Whether it has not ended.
        """
        change = sa.update(SourceRunRow).where(SourceRunRow.id == run_id, SourceRunRow.state == RUNNING)
        async with self._database.session() as session:
            changed = change.values(**asdict(counts)).returning(SourceRunRow.id)
            return (await session.execute(changed)).first() is not None

    async def end(self, run_id: str, state: RunState, reason: str, counts: RunCounts) -> bool:
        """End a run, and remove the oldest entries of the source's history.

        Args:
            run_id: the run.
            state: how it ended.
            reason: why it is not complete; empty otherwise.
            counts: what it has done.

        Returns:
            Whether it had not ended before.
        """
        async with self._database.session() as session:
            if not await self.end_in(session, run_id, state, reason, counts):
                return False
        self.count(counts)
        return True

    async def end_in(self, session: AsyncSession, run_id: str, state: RunState, reason: str, counts: RunCounts) -> bool:
        """End a run in a transaction; see `end`. The caller counts it when the transaction is committed."""
        row = await session.scalar(_by_id(run_id).with_for_update())
        if row is None or row.state != RUNNING:
            return False
        for name, value in asdict(counts).items():
            setattr(row, name, value)
        await end_run(session, row, state, reason)
        await session.flush()
        of_source = (SourceRunRow.base_id == row.base_id, SourceRunRow.source == row.source)
        newest = sa.select(SourceRunRow.id).where(*of_source).order_by(*_NEWEST).limit(MAX_RUNS_KEPT)
        await session.execute(
            sa.delete(SourceRunRow).where(
                *of_source, SourceRunRow.state != RUNNING, SourceRunRow.id.not_in(newest.subquery().select())
            )
        )
        return True

    def count(self, counts: RunCounts) -> None:
        """Count the pages of a run that has ended.

        Args:
            counts: what it has done.
        """
        metrics.pages(asdict(counts))

    async def record(self, run_id: str, counts: RunCounts) -> None:
        """Write the counts of a run that has ended while it was executed.

        Args:
            run_id: the run.
            counts: what it has done.
        """
        ended = sa.update(SourceRunRow).where(SourceRunRow.id == run_id, SourceRunRow.state != RUNNING)
        async with self._database.session() as session:
            await session.execute(ended.values(**asdict(counts)))
        metrics.pages(asdict(counts))

    async def cancel(self, base_id: str, source: str, run_id: str) -> None:
        """Cancel a run. The documents that it has stored stay.

        Args:
            base_id: the knowledge base.
            source: name of the source.
            run_id: the run.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            SourceRunEnded: it has ended already, and was not cancelled.
            SourceRunNotFound: the source has no such run.
        """
        async with self._database.session() as session:
            row = await session.scalar(_by_id(run_id).with_for_update())
            row = _of_source(row, base_id, source, run_id)
            if row.state == RUNNING:
                await end_run(session, row, CANCELLED, REQUESTED)
            elif row.state != CANCELLED:
                raise SourceRunEnded(f"The run {run_id} has ended already")

    async def expire(self) -> int:
        """End the runs of processes whose leases have expired.

        Returns:
            Their number.
        """
        ended = 0
        async with self._database.reading() as session:
            expired = SourceRunRow.owner.not_in(await self._leases.living(session))
            ids = list(await session.scalars(sa.select(SourceRunRow.id).where(SourceRunRow.state == RUNNING, expired)))
        for run_id in set(ids) - self.executed:
            async with self._database.session() as session:
                expired = SourceRunRow.owner.not_in(await self._leases.living(session))
                row = await session.scalar(_by_id(run_id).where(expired).with_for_update())
                if row is not None and row.state == RUNNING:
                    await end_run(session, row, INTERRUPTED, LEASE_EXPIRED)
                    ended += 1
        return ended

    async def page(self, base_id: str, source: str, index: int, limit: int) -> tuple[list[SourceRunRow], int]:
        """A page of the runs of a source, newest first.

        Args:
            base_id: the knowledge base.
            source: name of the source.
            index: number of the page, from 0.
            limit: maximum number of runs on a page.

        Returns:
            The runs, and the number of all.
        """
        chosen = (SourceRunRow.base_id == base_id, SourceRunRow.source == source)
        query = sa.select(SourceRunRow).where(*chosen).order_by(*_NEWEST)
        count = sa.select(sa.func.count()).select_from(SourceRunRow).where(*chosen)
        async with self._database.reading() as session:
            rows = list(await session.scalars(query.limit(limit).offset(index * limit)))
            return rows, await session.scalar(count) or 0

    async def read(self, base_id: str, source: str, run_id: str) -> SourceRunRow:
        """A run.

        Args:
            base_id: the knowledge base.
            source: name of the source.
            run_id: the run.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            SourceRunNotFound: the source has no such run.
        """
        async with self._database.reading() as session:
            row = await session.get(SourceRunRow, run_id) if "\0" not in run_id else None
        return _of_source(row, base_id, source, run_id)


async def check_running(session: AsyncSession, run_id: str, *, exclusive: bool = False) -> None:
    """Check that a run has not ended. It cannot end before the transaction does.

    Args:
        session: the transaction.
        run_id: the run.
        exclusive: whether the transaction ends it.

    Raises:
        RunLost: it has.
    """
    row = await session.scalar(_by_id(run_id).with_for_update(read=not exclusive))
    if row is None or row.state != RUNNING:
        raise RunLost


async def end_run(session: AsyncSession, row: SourceRunRow, state: RunState, reason: str) -> None:
    """End a run that a transaction has locked. A scheduled one that was interrupted is due again.

    Args:
        session: the transaction.
        row: the run.
        state: how it ended.
        reason: why it is not complete; empty otherwise.
    """
    now = datetime.now(UTC)
    row.state, row.reason, row.finished_on = state, reason, now
    metrics.ended(state)
    if row.trigger != SCHEDULE:
        return
    schedule = await session.get(SourceScheduleRow, (row.base_id, row.source), with_for_update=True)
    if schedule is None:
        return
    if state != INTERRUPTED:
        schedule.interruptions = 0
    elif schedule.interruptions < MAX_REPEATS:
        schedule.interruptions += 1
        schedule.next_on = min(schedule.next_on, now)
    else:
        schedule.interruptions = 0


async def end_runs(session: AsyncSession, base_id: str, reason: str, sources: Sequence[str] | None = None) -> None:
    """Cancel the runs of a knowledge base that have not ended.

    Args:
        session: the transaction.
        base_id: the knowledge base.
        reason: why.
        sources: names of the sources; None for all.
    """
    query = sa.select(SourceRunRow).where(SourceRunRow.base_id == base_id, SourceRunRow.state == RUNNING)
    if sources is not None:
        query = query.where(SourceRunRow.source.in_(sources))
    for row in await session.scalars(query.with_for_update()):
        await end_run(session, row, CANCELLED, reason)


def run_path(base_id: str, source: str, run_id: str) -> str:
    """The path of a run."""
    return f"/ragstore/rags/{base_id}/sources/{source}/runs/{run_id}"


_NEWEST: Final = (SourceRunRow.started_on.desc(), SourceRunRow.id.desc())


def _running(base_id: str, source: str) -> sa.Select[SourceRunRow]:
    return sa.select(SourceRunRow).where(
        SourceRunRow.base_id == base_id, SourceRunRow.source == source, SourceRunRow.state == RUNNING
    )


def _by_id(run_id: str) -> sa.Select[SourceRunRow]:
    # A NUL is in no id, and PostgreSQL's driver rejects it.
    return sa.select(SourceRunRow).where(SourceRunRow.id == run_id.replace("\0", ""))


def _of_source(row: SourceRunRow | None, base_id: str, source: str, run_id: str) -> SourceRunRow:
    if row is None or (row.base_id, row.source) != (base_id, source):
        raise SourceRunNotFound(f"The source {source} has no run {run_id[:100]!r}")
    return row


def _conflict(base_id: str, source: str, run_id: str) -> SourceRunning:
    return SourceRunning(f"The run {run_id} of the source {source} has not ended", run_path(base_id, source, run_id))
