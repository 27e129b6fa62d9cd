"""`Claims`: rows of a table, each of which belongs to the process that works on it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, Generic, TypeVar

import sqlalchemy as sa
import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.claims.leases import Leases
from ragstore_gateway.claims.tables import ClaimedRow, ExecutorRow
from ragstore_gateway.database.database import Database

NOBODY: Final = ""
"""The owner of a row that no process has claimed."""

CLAIM_SECONDS: Final = 1.0
"""How long transactions that claim rows are waited for, before rows are given back."""

Row = TypeVar("Row", bound=ClaimedRow)

_log = structlog.get_logger(__name__)


class Claims(ABC, Generic[Row]):
    """The claims of one kind of work, by all processes.

    A row in one of the claimed states belongs to its owner. When the owner has no lease any more, another process gives
    the row back. A process that stops gives its rows back itself.

    Args:
        leases: the lease of this process.
        row: the table.
        states: the states of a row that a process works on.

    Attributes:
        claimed: the ids of the rows that this process works on. Whoever works on a row removes its id at the end.
    """

    def __init__(self, database: Database, leases: Leases, row: type[Row], states: Sequence[str]) -> None:
        self.claimed: set[str] = set()
        self._database = database
        self._leases = leases
        self._row = row
        self._states = states
        self._in_flight: set[asyncio.Future[None]] = set()
        """The transactions that claim rows."""

    @abstractmethod
    async def _give_back(self, session: AsyncSession, ids: Sequence[str], *, is_own: bool) -> None:
        """Let rows have no owner, or end them.

        Args:
            session: a transaction that has locked the rows.
            is_own: whether this process had claimed them, and gives them back itself.
        """

    @asynccontextmanager
    async def claiming(self) -> AsyncIterator[tuple[AsyncSession, list[str]]]:
        """A transaction that claims rows, and the list to which it adds their ids. The process has a lease then.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        ids: list[str] = []
        end = asyncio.get_running_loop().create_future()
        self._in_flight.add(end)
        try:
            await self._leases.hold()
            async with self._database.session() as session:
                yield session, ids
            self.claimed.update(ids)
        finally:
            self._in_flight.remove(end)
            end.set_result(None)

    async def give_back_left(self) -> int:
        """Give back everything that this process has claimed and does not work on.

        Such is the work that it has interrupted itself, work whose end could not be written, and claims whose
        transactions were committed although their connections broke.

        Returns:
            The number of rows.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        return await self._give_back_all(self._row.owner == self._leases.owner, is_own=True)

    async def hand_over(self) -> None:
        """Give back everything that this process has claimed, because it stops.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        self.claimed.clear()
        await self.give_back_left()

    async def take_over(self) -> int:
        """Give back everything that processes without a lease have claimed.

        Returns:
            The number of rows.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        lost = self._row.owner.not_in(sa.select(ExecutorRow.id))
        return await self._give_back_all(sa.and_(self._row.owner != NOBODY, lost), is_own=False)

    async def _give_back_all(self, chosen: sa.ColumnElement[bool], *, is_own: bool) -> int:
        query = sa.select(self._row.id).where(self._row.state.in_(self._states), chosen)
        async with self._database.reading() as session:
            found = set(await session.scalars(query))
        if is_own and self._in_flight:
            # A transaction that was committed before the read may not have added its rows to the claimed ones.
            _, late = await asyncio.wait(self._in_flight, timeout=CLAIM_SECONDS)
            if late:
                # The lease is to be renewed meanwhile. The rows are looked for again then.
                return 0
        found -= self.claimed
        if not found:
            return 0
        async with self._database.session() as session:
            # Rows that another process gives back meanwhile are left to it.
            locked = query.where(self._row.id.in_(found)).with_for_update(skip_locked=True)
            ids = list(await session.scalars(locked))
            if not ids:
                return 0
            await self._give_back(session, ids, is_own=is_own)
        log = _log.info if is_own else _log.warning
        log("claims given back", table=self._row.__tablename__, rows=len(ids), own=is_own)
        return len(ids)
