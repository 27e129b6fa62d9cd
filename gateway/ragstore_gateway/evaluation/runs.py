"""`QuestionRuns`: which runs of question sets are in progress, by whom, and how the earlier ones ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias
from uuid import uuid4

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import undefer

from ragstore_gateway.configurations.tables import ConfigurationRow
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import QuestionRunEnded, QuestionRunNotFound, QuestionSetRunning
from ragstore_gateway.evaluation.figures import RunFigures, StoredOutcome
from ragstore_gateway.evaluation.tables import REASON_LENGTH, QuestionRunRow
from ragstore_gateway.ingestion.leases import Leases

QuestionRunState: TypeAlias = Literal["running", "completed", "failed", "cancelled", "interrupted"]

RUNNING: Final = "running"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
INTERRUPTED: Final = "interrupted"

LEASE_EXPIRED: Final = "lease_expired"
REQUESTED: Final = "requested"
SET_DELETED: Final = "set_deleted"
"""Reasons of runs that were ended by something else than their execution."""

MAX_RUNS_KEPT: Final = 100
"""Maximum number of runs of a set in its history."""

_NEWEST: Final = (QuestionRunRow.started_on.desc(), QuestionRunRow.id.desc())


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as it is now.

    Attributes:
        row: its row, without outcomes.
        state: its state. A run whose process has ended is interrupted, whatever its row says.
        reason: why it is not completed; empty otherwise.
    """

    row: QuestionRunRow
    state: QuestionRunState
    reason: str


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a completed run.

    Attributes:
        compared_with: the completed run before; empty without one.
    """

    figures: RunFigures
    outcomes: Sequence[StoredOutcome]
    compared_with: str


class QuestionRuns:
    """The runs of all question sets.

    A run belongs to the process that executes it. When the lease of the process expires, the run is interrupted.

    Args:
        leases: the lease of this process, which something else renews.

    Attributes:
        executed: the runs that this process executes.
    """

    def __init__(self, database: Database, leases: Leases) -> None:
        self.executed: set[str] = set()
        self._database = database
        self._leases = leases

    async def claim(self, set_id: str, set_version: int, base_version: int, questions: int) -> QuestionRunRow:
        """Begin a run, which belongs to this process, and remove the oldest runs of its set.

        The caller removes it from `executed` at its end.

        Args:
            set_version: the version of the set.
            base_version: the version of the knowledge base.
            questions: the number of questions with expected passages.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            QuestionSetRunning: another run of the set has not ended.
        """
        await self._leases.hold()
        row = QuestionRunRow(
            id=str(uuid4()),
            set_id=set_id,
            set_version=set_version,
            base_version=base_version,
            state=RUNNING,
            reason="",
            owner=self._leases.owner,
            questions=questions,
            searched=0,
            figures=None,
            outcomes=[],
            compared_with="",
            won=0,
            lost=0,
            started_on=datetime.now(UTC),
            finished_on=None,
        )
        running = sa.select(QuestionRunRow).where(QuestionRunRow.set_id == set_id, QuestionRunRow.state == RUNNING)
        self.executed.add(row.id)
        try:
            async with self._database.session() as session:
                other = await session.scalar(running.with_for_update())
                if other is not None:
                    if (await self._record(session, other)).state == RUNNING:
                        raise QuestionSetRunning(f"The run {other.id} of the question set {set_id} has not ended")
                    other.state, other.reason, other.finished_on = INTERRUPTED, LEASE_EXPIRED, datetime.now(UTC)
                    await session.flush()
                session.add(row)
                await session.flush()
                await session.execute(_oldest_of(set_id))
        except BaseException as error:
            self.executed.discard(row.id)
            if isinstance(error, IntegrityError):
                raise QuestionSetRunning(f"A run of the question set {set_id} has not ended") from None
            raise
        return row

    async def end(self, run_id: str, state: QuestionRunState, reason: str, result: RunResult | None = None) -> None:
        """End a run that has not ended.

        Args:
            state: how it ended.
            reason: why it is not completed; empty otherwise.
            result: the result of a completed run.
        """
        values: dict[str, Any] = {"state": state, "reason": reason[:REASON_LENGTH], "finished_on": datetime.now(UTC)}
        if result is not None:
            changes = [each.change for each in result.outcomes]
            values |= {
                "figures": msgspec.to_builtins(result.figures),
                "outcomes": msgspec.to_builtins(result.outcomes),
                "compared_with": result.compared_with,
                "won": changes.count("won"),
                "lost": changes.count("lost"),
            }
        own = sa.update(QuestionRunRow).where(QuestionRunRow.id == run_id, QuestionRunRow.state == RUNNING)
        async with self._database.session() as session:
            await session.execute(own.values(values))

    async def report(self, run_id: str, searched: int) -> str:
        """Write the progress of a run. The run of a set that is deleted is cancelled.

        Args:
            searched: the number of questions whose searches have ended.

        Returns:
            The reason if the run has ended; empty otherwise.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        async with self._database.session() as session:
            row = await session.get(QuestionRunRow, run_id, with_for_update=True)
            if row is None:
                return SET_DELETED
            if row.state != RUNNING:
                return row.reason
            row.searched = searched
            if await session.scalar(sa.select(ConfigurationRow.deleted).where(ConfigurationRow.id == row.set_id)):
                _cancel(row, SET_DELETED)
            return row.reason

    async def cancel(self, set_id: str, run_id: str) -> None:
        """Cancel a run. The process that executes it stops at its next report.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            QuestionRunEnded: it has ended already, and was not cancelled.
            QuestionRunNotFound: the set has no such run.
        """
        async with self._database.session() as session:
            row = _found(await session.scalar(_by_id(set_id, run_id).with_for_update()), set_id, run_id)
            state = (await self._record(session, row)).state
            if state == RUNNING:
                _cancel(row, REQUESTED)
            elif state != CANCELLED:
                raise QuestionRunEnded(f"The run {run_id} has ended already")

    async def last_completed(self, set_id: str) -> QuestionRunRow | None:
        """The newest completed run of a set, with its outcomes; None without one."""
        query = sa.select(QuestionRunRow).where(QuestionRunRow.set_id == set_id, QuestionRunRow.state == COMPLETED)
        async with self._database.reading() as session:
            with_outcomes = query.order_by(*_NEWEST).limit(1).options(undefer(QuestionRunRow.outcomes))
            found: QuestionRunRow | None = await session.scalar(with_outcomes)
        return found

    async def page(self, set_id: str, index: int, limit: int) -> tuple[list[RunRecord], int]:
        """A page of the runs of a set, newest first, and the number of all.

        Args:
            index: number of the page, from 0.
            limit: maximum number of runs on a page.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        query = sa.select(QuestionRunRow).where(QuestionRunRow.set_id == set_id).order_by(*_NEWEST)
        count = sa.select(sa.func.count()).select_from(QuestionRunRow).where(QuestionRunRow.set_id == set_id)
        async with self._database.reading() as session:
            rows = list(await session.scalars(query.limit(limit).offset(index * limit)))
            return [await self._record(session, row) for row in rows], await session.scalar(count) or 0

    async def read(self, set_id: str, run_id: str) -> tuple[RunRecord, list[StoredOutcome]]:
        """A run with the outcomes of its questions.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            QuestionRunNotFound: the set has no such run.
        """
        query = _by_id(set_id, run_id).options(undefer(QuestionRunRow.outcomes))
        async with self._database.reading() as session:
            row = _found(await session.scalar(query), set_id, run_id)
            return await self._record(session, row), outcomes_of(row)

    async def _record(self, session: AsyncSession, row: QuestionRunRow) -> RunRecord:
        """A run as it is now."""
        state = msgspec.convert(row.state, QuestionRunState)
        if state == RUNNING and not await self._is_executed(session, row):
            return RunRecord(row, INTERRUPTED, LEASE_EXPIRED)
        return RunRecord(row, state, row.reason)

    async def _is_executed(self, session: AsyncSession, row: QuestionRunRow) -> bool:
        if row.owner == self._leases.owner:
            return row.id in self.executed
        return await self._leases.is_living(session, row.owner)


def _by_id(set_id: str, run_id: str) -> sa.Select[QuestionRunRow]:
    # A NUL is in no id, and PostgreSQL's driver rejects it.
    return sa.select(QuestionRunRow).where(
        QuestionRunRow.id == run_id.replace("\0", ""), QuestionRunRow.set_id == set_id
    )


def _found(row: QuestionRunRow | None, set_id: str, run_id: str) -> QuestionRunRow:
    if row is None:
        raise QuestionRunNotFound(f"The question set {set_id} has no run {run_id[:100]!r}")
    return row


def _cancel(row: QuestionRunRow, reason: str) -> None:
    row.state, row.reason, row.finished_on = CANCELLED, reason, datetime.now(UTC)


def _oldest_of(set_id: str) -> sa.Delete:
    """Removes the runs that have ended and are not among the newest ones of a set."""
    newest = sa.select(QuestionRunRow.id).where(QuestionRunRow.set_id == set_id).order_by(*_NEWEST)
    kept = newest.limit(MAX_RUNS_KEPT).subquery().select()
    return sa.delete(QuestionRunRow).where(
        QuestionRunRow.set_id == set_id, QuestionRunRow.state != RUNNING, QuestionRunRow.id.not_in(kept)
    )


def outcomes_of(row: QuestionRunRow) -> list[StoredOutcome]:
    """The outcomes of a run that was read with them."""
    return msgspec.convert(row.outcomes, list[StoredOutcome])
