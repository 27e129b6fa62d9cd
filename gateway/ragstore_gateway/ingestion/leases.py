"""`Leases`: which processes run jobs, and which of them have ended."""

from __future__ import annotations

import os
import socket
import time
from typing import Final
from uuid import uuid4

import sqlalchemy as sa

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
    """

    def __init__(self, database: Database, owner: str, seconds: float) -> None:
        self.owner = owner
        self.seconds = seconds
        self._database = database
        self._renewed = -float("inf")

    @property
    def is_valid(self) -> bool:
        """Whether no other process can have taken over the jobs of this one."""
        return time.monotonic() < self._renewed + self.seconds

    async def renew(self) -> None:
        """Renew the lease of this process, or take one.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        before = time.monotonic()
        async with self._database.session() as session:
            until = await database_now(session) + self.seconds
            changed = sa.update(ExecutorRow).where(ExecutorRow.id == self.owner).values(lease_until=until)
            taken = (await session.execute(changed.returning(ExecutorRow.id))).first()
            if taken is None:
                session.add(ExecutorRow(id=self.owner, lease_until=until))
        self._renewed = before

    async def expired(self) -> list[str]:
        """The processes whose leases have expired."""
        async with self._database.reading() as session:
            now = await database_now(session)
            found = await session.scalars(sa.select(ExecutorRow.id).where(ExecutorRow.lease_until < now))
            return list(found)

    async def unknown(self, owners: set[str]) -> set[str]:
        """The processes that have no lease at all, not even an expired one.

        Args:
            owners: the processes to look at.
        """
        async with self._database.reading() as session:
            return owners - set(await session.scalars(sa.select(ExecutorRow.id)))

    async def take(self, owner: str) -> bool:
        """Take the expired lease of another process, so that only this process takes over its jobs.

        Args:
            owner: the other process.

        Returns:
            Whether it was taken. Another process may have been faster.
        """
        async with self._database.session() as session:
            now = await database_now(session)
            taken = (
                sa.update(ExecutorRow)
                .where(ExecutorRow.id == owner, ExecutorRow.lease_until < now)
                .values(lease_until=now + self.seconds)
            )
            return (await session.execute(taken.returning(ExecutorRow.id))).first() is not None

    async def remove(self, owner: str) -> None:
        """Remove the lease of a process that holds no jobs any more.

        Args:
            owner: the process.
        """
        async with self._database.session() as session:
            await session.execute(sa.delete(ExecutorRow).where(ExecutorRow.id == owner))
        if owner == self.owner:
            self._renewed = -float("inf")
