"""`Runs`: work that one process executes from its begin to its end, and its history."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, TypeVar
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm.interfaces import ORMOption

from ragstore.kit.errors import ServiceError
from ragstore_gateway.claims.claims import Claims
from ragstore_gateway.claims.leases import Leases
from ragstore_gateway.claims.tables import RunRow
from ragstore_gateway.database.database import Database

RunState: TypeAlias = Literal["running", "completed", "incomplete", "failed", "cancelled", "interrupted"]

RUNNING: Final = "running"
COMPLETED: Final = "completed"
INCOMPLETE: Final = "incomplete"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
INTERRUPTED: Final = "interrupted"

LEASE_EXPIRED: Final = "lease_expired"
REQUESTED: Final = "requested"
STOPPED: Final = "gateway_stopped"
INTERNAL: Final = "internal_error"
"""Reasons of runs that are not complete, whatever they do."""

MAX_RUNS_KEPT: Final = 100
"""Maximum number of runs in the history of a subject, with the run in progress."""

Run = TypeVar("Run", bound=RunRow)


class RunLost(Exception):
    """The run has ended meanwhile: it was cancelled, or another process considered this one ended."""


class Runs(Claims[Run]):
    """Runs of one kind. A subject, such as a source, has at most one run that has not ended.

    A run is never resumed: it is interrupted when its process ends. Each write of a run checks in its transaction that
    the run has not ended.

    Args:
        leases: the lease of this process, which something else renews.
        row: the table.
        subject: names of the columns that identify the subject.
    """

    def __init__(self, database: Database, leases: Leases, row: type[Run], subject: Sequence[str]) -> None:
        super().__init__(database, leases, row, (RUNNING,))
        self._subject = subject
        self._newest = (row.started_on.desc(), row.id.desc())
        leases.add(self)

    @abstractmethod
    def _conflict(self, run: Run) -> ServiceError:
        """The error that a run of the subject has not ended."""

    @abstractmethod
    def _missing(self, subject: Sequence[str], run_id: str) -> ServiceError:
        """The error that the subject has no such run."""

    @abstractmethod
    def _has_ended(self, run_id: str) -> ServiceError:
        """The error that a run cannot be cancelled."""

    async def begin(self, session: AsyncSession, *subject: str, **values: Any) -> Run:
        """Begin a run, which belongs to this process, and remove the oldest runs from the history.

        Args:
            session: a transaction of `claiming` that has locked the subject.
            values: further columns.

        Raises:
            ServiceError: another run of the subject has not ended.
        """
        await self.check_idle(session, *subject)
        row = self._row(
            id=str(uuid4()),
            state=RUNNING,
            reason="",
            owner=self._leases.owner,
            started_on=datetime.now(UTC),
            finished_on=None,
            **dict(zip(self._subject, subject, strict=True)),
            **values,
        )
        session.add(row)
        await session.flush()
        of_subject = self._of(subject)
        newest = sa.select(self._row.id).where(*of_subject).order_by(*self._newest).limit(MAX_RUNS_KEPT)
        kept = newest.subquery().select()
        await session.execute(sa.delete(self._row).where(*of_subject, self._row.id.not_in(kept)))
        return row

    async def check_idle(self, session: AsyncSession, *subject: str) -> None:
        """Check that no run of a subject is in progress. One whose process has ended is ended, too.

        Args:
            session: a transaction that has locked the subject.

        Raises:
            ServiceError: there is one.
        """
        query = sa.select(self._row).where(*self._of(subject), self._row.state == RUNNING)
        running = await session.scalar(query.with_for_update())
        if running is None:
            return
        if running.id in self.claimed or await self._leases.is_living(session, running.owner):
            raise self._conflict(running)
        await self.end_row(session, running, INTERRUPTED, LEASE_EXPIRED)

    async def report(self, run_id: str, values: Mapping[str, Any]) -> bool:
        """Write the progress of a run.

        Args:
            values: columns.

        Returns:
            Whether it has not ended.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        return await self._write(run_id, self._row.state == RUNNING, values)

    async def record(self, run_id: str, values: Mapping[str, Any]) -> None:
        """Write the last progress of a run that has ended while it was executed; see `report`."""
        await self._write(run_id, self._row.state != RUNNING, values)

    async def _write(self, run_id: str, chosen: sa.ColumnElement[bool], values: Mapping[str, Any]) -> bool:
        change = sa.update(self._row).where(self._row.id == run_id, chosen).values(**values)
        async with self._database.session() as session:
            return (await session.execute(change.returning(self._row.id))).first() is not None

    async def end(self, run_id: str, state: RunState, reason: str, values: Mapping[str, Any]) -> bool:
        """End a run.

        Args:
            state: how it ended.
            reason: why it is not complete; empty otherwise.
            values: further columns.

        Returns:
            Whether it had not ended before.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        async with self._database.session() as session:
            return await self.end_in(session, run_id, state, reason, values)

    async def end_in(
        self, session: AsyncSession, run_id: str, state: RunState, reason: str, values: Mapping[str, Any]
    ) -> bool:
        """End a run in a transaction; see `end`."""
        row = await session.scalar(self._running(run_id).with_for_update())
        if row is None:
            return False
        for name, value in values.items():
            setattr(row, name, value)
        await self.end_row(session, row, state, reason)
        return True

    async def end_row(self, session: AsyncSession, row: Run, state: RunState, reason: str) -> None:
        """End a run that a transaction has locked."""
        row.state, row.reason, row.finished_on = state, reason, datetime.now(UTC)
        await session.flush()

    async def end_all(self, session: AsyncSession, reason: str, *chosen: sa.ColumnElement[bool]) -> None:
        """Cancel the chosen runs that have not ended.

        Args:
            session: the transaction.
        """
        query = sa.select(self._row).where(self._row.state == RUNNING, *chosen)
        for row in await session.scalars(query.with_for_update()):
            await self.end_row(session, row, CANCELLED, reason)

    async def check_running(self, session: AsyncSession, run_id: str, *, exclusive: bool = False) -> None:
        """Check that a run has not ended. It cannot end before the transaction does.

        Args:
            exclusive: whether the transaction ends it.

        Raises:
            RunLost: it has.
        """
        if await session.scalar(self._running(run_id).with_for_update(read=not exclusive)) is None:
            raise RunLost

    async def cancel(self, *subject: str, run_id: str) -> None:
        """Cancel a run. The process that executes it stops at its next report.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            ServiceError: it has ended already, and was not cancelled; or the subject has no such run.
        """
        async with self._database.session() as session:
            row = await session.scalar(self._by_id(subject, run_id).with_for_update())
            if row is None:
                raise self._missing(subject, run_id)
            if row.state == RUNNING:
                await self.end_row(session, row, CANCELLED, REQUESTED)
            elif row.state != CANCELLED:
                raise self._has_ended(run_id)

    async def page(self, *subject: str, index: int, limit: int) -> tuple[list[Run], int]:
        """A page of the runs of a subject, newest first.

        Args:
            index: number of the page, from 0.
            limit: maximum number of runs on a page.

        Returns:
            The runs, and the number of all.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        query = sa.select(self._row).where(*self._of(subject)).order_by(*self._newest)
        count = sa.select(sa.func.count()).select_from(self._row).where(*self._of(subject))
        async with self._database.reading() as session:
            rows = list(await session.scalars(query.limit(limit).offset(index * limit)))
            return rows, await session.scalar(count) or 0

    async def read(self, *subject: str, run_id: str, options: Sequence[ORMOption] = ()) -> Run:
        """A run.

        Args:
            options: load deferred columns.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            ServiceError: the subject has no such run.
        """
        async with self._database.reading() as session:
            row = await session.scalar(self._by_id(subject, run_id).options(*options))
        if row is None:
            raise self._missing(subject, run_id)
        return row

    async def _give_back(self, session: AsyncSession, ids: Sequence[str], *, is_own: bool) -> None:
        for row in await session.scalars(sa.select(self._row).where(self._row.id.in_(ids))):
            await self.end_row(session, row, INTERRUPTED, LEASE_EXPIRED)

    def _of(self, subject: Sequence[str]) -> list[sa.ColumnElement[bool]]:
        return [getattr(self._row, name) == value for name, value in zip(self._subject, subject, strict=True)]

    def _running(self, run_id: str) -> sa.Select[Run]:
        return sa.select(self._row).where(self._row.id == run_id, self._row.state == RUNNING)

    def _by_id(self, subject: Sequence[str], run_id: str) -> sa.Select[Run]:
        # A NUL is in no id, and PostgreSQL's driver rejects it.
        return sa.select(self._row).where(self._row.id == run_id.replace("\0", ""), *self._of(subject))
