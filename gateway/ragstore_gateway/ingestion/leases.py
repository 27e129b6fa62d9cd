"""`Leases`: which processes work on ingestions and runs of sources, and which of them have ended."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from typing import Final
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.database.clock import database_now
from ragstore_gateway.database.database import Database
from ragstore_gateway.ingestion.tables import ExecutorRow

MAX_HOST: Final = 200


def executor_id() -> str:
    """An id of this process: the name of its host, or of its pod, its process id, and a random part."""
    return f"{socket.gethostname()[:MAX_HOST]}-{os.getpid()}-{uuid4().hex[:8]}"


class Leases:
    """The lease of this process, and the leases of the others. Times are the database's.

    Args:
        owner: the id of this process.
        seconds: how long a lease lasts after it was renewed.

    Attributes:
        taken: how often this process has taken a lease. With a further one, other processes may have taken over what it
            owned before.
    """

    def __init__(self, database: Database, owner: str, seconds: float) -> None:
        self.owner = owner
        self.seconds = seconds
        self._database = database
        self._renewed = -float("inf")
        self.taken = 0
        self._renewing = asyncio.Lock()

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
    async def living(session: AsyncSession) -> sa.Select[str]:
        """The processes whose leases are valid, as a subquery.

        Args:
            session: the transaction.
        """
        return sa.select(ExecutorRow.id).where(ExecutorRow.lease_until >= await database_now(session))

    async def is_living(self, session: AsyncSession, owner: str) -> bool:
        """Whether the lease of a process is valid.

        Args:
            session: the transaction.
            owner: the id of the process.
        """
        return await session.scalar((await self.living(session)).where(ExecutorRow.id == owner)) is not None

    async def end_expired(self) -> list[str]:
        """Remove the expired leases of other processes. Their ingestions and runs have no living owner then.

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
