"""`SourceRuns`: the runs of all sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.claims.leases import Leases
from ragstore_gateway.claims.runs import INTERRUPTED, Runs, RunState
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import ConfigurationNotFound
from ragstore_gateway.ingestion.transactions import lock_base
from ragstore_gateway.sources import metrics
from ragstore_gateway.sources.errors import SourceRunEnded, SourceRunning, SourceRunNotFound
from ragstore_gateway.sources.tables import SourceRunRow, SourceScheduleRow

RunTrigger: TypeAlias = Literal["manual", "schedule"]

MANUAL: Final = "manual"
SCHEDULE: Final = "schedule"

MAX_REPEATS: Final = 3
"""How often a scheduled run that was interrupted is repeated. One that ends the process each time is not repeated
forever."""

BASE_DELETED: Final = "base_deleted"
SOURCE_REMOVED: Final = "source_removed"
"""Reasons of runs that are not complete."""


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


class SourceRuns(Runs[SourceRunRow]):
    """The runs of all sources. A subject is a knowledge base and the name of a source.

    Args:
        leases: the lease of this process, which something else renews.
    """

    def __init__(self, database: Database, leases: Leases) -> None:
        super().__init__(database, leases, SourceRunRow, ("base_id", "source"))
        self.report_seconds = leases.seconds / 3
        """How often the counts of a run are written."""

    async def claim(self, base_id: str, version: int, source: str) -> SourceRunRow | None:
        """Begin a run because of a call. It belongs to this process.

        Args:
            base_id: the knowledge base.
            version: the version of its configuration.
            source: name of the source.

        Returns:
            The run; None if the base has another version, which may not have the source any more.

        Raises:
            ConfigurationNotFound: there is no such knowledge base.
            DatabaseUnavailable: the database cannot be used.
            SourceRunning: another run of the source has not ended.
        """
        async with self.claiming() as (session, claimed):
            base = await lock_base(session, base_id)
            if base is None:
                raise ConfigurationNotFound(f"There is no knowledge base {base_id}")
            if base.current_version != version:
                return None
            run = await self.begin_run(session, base_id, version, source, MANUAL)
            claimed.append(run.id)
            return run

    async def begin_run(
        self, session: AsyncSession, base_id: str, version: int, source: str, trigger: RunTrigger
    ) -> SourceRunRow:
        """Begin a run in a transaction of `claiming` that has locked the base; see `claim` and `Runs.begin`."""
        counts = asdict(RunCounts())
        return await self.begin(session, base_id, source, base_version=version, trigger=trigger, **counts)

    async def end_row(self, session: AsyncSession, row: SourceRunRow, state: RunState, reason: str) -> None:
        """End a run that a transaction has locked. A scheduled one that was interrupted is due again."""
        await super().end_row(session, row, state, reason)
        metrics.ended(state)
        if row.trigger != SCHEDULE:
            return
        schedule = await session.get(SourceScheduleRow, (row.base_id, row.source), with_for_update=True)
        if schedule is None:
            return
        if state == INTERRUPTED and schedule.interruptions < MAX_REPEATS:
            schedule.interruptions += 1
            schedule.next_on = min(schedule.next_on, datetime.now(UTC))
        else:
            schedule.interruptions = 0
        await session.flush()

    def _conflict(self, run: SourceRunRow) -> SourceRunning:
        path = run_path(run.base_id, run.source, run.id)
        return SourceRunning(f"The run {run.id} of the source {run.source} has not ended", path)

    def _missing(self, subject: Sequence[str], run_id: str) -> SourceRunNotFound:
        return SourceRunNotFound(f"The source {subject[1]} has no run {run_id[:100]!r}")

    def _has_ended(self, run_id: str) -> SourceRunEnded:
        return SourceRunEnded(f"The run {run_id} has ended already")


def run_path(base_id: str, source: str, run_id: str) -> str:
    """The path of a run."""
    return f"/ragstore/rags/{base_id}/sources/{source}/runs/{run_id}"
