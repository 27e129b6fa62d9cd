"""`Leases`: which processes have claimed work, and the transfer of the work of processes that have ended."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol
from uuid import uuid4

import sqlalchemy as sa
import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore.kit.background import in_background
from ragstore_gateway.claims.tables import ExecutorRow
from ragstore_gateway.database.clock import database_now
from ragstore_gateway.database.database import Database
from ragstore_gateway.database.repetition import forever
from ragstore_gateway.errors import DatabaseUnavailable

MAX_HOST: Final = 200

_log = structlog.get_logger(__name__)


class Transferable(Protocol):
    """Claims of one kind of work; see `Claims`."""

    async def give_back_left(self) -> int:
        """Give back what this process has claimed and does not work on."""

    async def hand_over(self) -> None:
        """Give back everything that this process has claimed."""

    async def take_over(self) -> int:
        """Give back what processes without a lease have claimed."""


def executor_id() -> str:
    """An id of this process: the name of its host, or of its pod, its process id, and a random part."""
    return f"{socket.gethostname()[:MAX_HOST]}-{os.getpid()}-{uuid4().hex[:8]}"


async def _continue() -> None:
    pass


class Leases:
    """The lease of this process, and the leases of the others. Times are the database's.

    A process takes its lease with its first claim. Each transaction of claimed work checks that the work still
    belongs to the process.

    Args:
        owner: the id of this process.
        seconds: how long a lease lasts after it was renewed.

    Attributes:
        taken: how often this process has taken a lease.
    """

    def __init__(self, database: Database, owner: str, seconds: float) -> None:
        self.owner = owner
        self.seconds = seconds
        self._database = database
        self._renewed = -float("inf")
        self.taken = 0
        self._renewing = asyncio.Lock()
        self._was_lost = False
        """Whether other processes may have taken over what this one had claimed, since it was interrupted last."""
        self._claims: list[tuple[Transferable, Callable[[], Awaitable[None]]]] = []

    def add(self, claims: Transferable, interrupt: Callable[[], Awaitable[None]] = _continue) -> None:
        """Add a kind of work, whose claims depend on the leases.

        Args:
            claims: the claims of all processes.
            interrupt: stops the work of this process, because its lease was lost. Without it, the work continues until
                it finds that it belongs to this process no more.
        """
        self._claims.append((claims, interrupt))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Renew the lease in the background, and take over the work of processes that end. At the end, hand over.

        Everything that works on claims is to be stopped before the end.
        """
        try:
            async with in_background(self._keep()):
                yield
        finally:
            await self._hand_over()

    @property
    def is_held(self) -> bool:
        """Whether this process has taken a lease, which may have expired."""
        return self._renewed > -float("inf")

    @property
    def is_valid(self) -> bool:
        """Whether no other process can have taken over the work of this one."""
        return time.monotonic() < self._renewed + self.seconds

    async def renew(self) -> bool:
        """Renew the lease of this process, or take one.

        Returns:
            Whether it is a new one.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        async with self._renewing:
            return await self._renew()

    async def _renew(self) -> bool:
        before = time.monotonic()
        async with self._database.session() as session:
            until = await database_now(session) + self.seconds
            changed = sa.update(ExecutorRow).where(ExecutorRow.id == self.owner).values(lease_until=until)
            is_new = (await session.execute(changed.returning(ExecutorRow.id))).first() is None
            if is_new:
                session.add(ExecutorRow(id=self.owner, lease_until=until))
        self._was_lost |= is_new and self.is_held
        self._renewed = before
        self.taken += is_new
        return is_new

    async def hold(self) -> None:
        """Make sure that this process has a valid lease.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        if not self.is_valid:
            await self.renew()

    @staticmethod
    async def is_living(session: AsyncSession, owner: str) -> bool:
        """Whether the lease of a process is valid.

        Args:
            session: the transaction.
            owner: the id of the process.
        """
        row = await session.get(ExecutorRow, owner, populate_existing=True)
        return row is not None and row.lease_until >= await database_now(session)

    async def end_expired(self) -> list[str]:
        """Remove the expired leases of other processes. Their claims can be taken over then.

        Returns:
            The processes. Each is returned to one caller only.
        """
        async with self._database.reading() as session:
            expired = ExecutorRow.lease_until < await database_now(session)
            if (await session.execute(sa.select(ExecutorRow.id).where(expired).limit(1))).first() is None:
                return []
        async with self._database.session() as session:
            expired = ExecutorRow.lease_until < await database_now(session)
            ended = sa.delete(ExecutorRow).where(expired, ExecutorRow.id != self.owner).returning(ExecutorRow.id)
            return list(await session.scalars(ended))

    async def remove(self) -> None:
        """Remove the lease of this process, which owns nothing any more."""
        async with self._database.session() as session:
            await session.execute(sa.delete(ExecutorRow).where(ExecutorRow.id == self.owner))
        self._renewed = -float("inf")

    async def _keep(self) -> None:
        await asyncio.sleep(self.seconds / 3)
        await forever(self._sweep, self.seconds / 3, "lease not renewed")

    async def _sweep(self) -> None:
        try:
            if self.is_held:
                await self.renew()
                if self._was_lost:
                    self._was_lost = False
                    await self._interrupt()
                for claims, _ in self._claims:
                    await claims.give_back_left()
            # A process may have ended before this one has a lease.
            await self.end_expired()
            for claims, _ in self._claims:
                await claims.take_over()
        finally:
            if self.is_held and not self.is_valid:
                await self._interrupt()

    async def _interrupt(self) -> None:
        for _, interrupt in self._claims:
            await interrupt()

    async def _hand_over(self) -> None:
        if not self.is_held:
            return
        try:
            for claims, _ in self._claims:
                await claims.hand_over()
            await self.remove()
        except DatabaseUnavailable as error:
            _log.warning("claims not handed over: they are taken over when the lease ends", error=error.cause)
