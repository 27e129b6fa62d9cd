"""Advisory locks by name, for things without a row."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession


async def lock_name(session: AsyncSession, name: str) -> bool:
    """Lock a name until the transaction ends.

    On SQLite, there is nothing to do: a transaction that writes has the whole database.

    Args:
        session: a transaction that writes.

    Returns:
        Whether other transactions may have been committed since this one began.
    """
    if session.get_bind().dialect.name != "postgresql":
        return False
    await session.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtextextended(name, 0))))
    return True
