"""The time of the database, which is the same for all replicas."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

_POSTGRESQL: Final = sa.text("SELECT extract(epoch from clock_timestamp())")
_SQLITE: Final = sa.text("SELECT (julianday('now') - 2440587.5) * 86400.0")


async def database_now(session: AsyncSession) -> float:
    """The database's time, in seconds since 1970."""
    is_postgresql = session.get_bind().dialect.name == "postgresql"
    return float(await session.scalar(_POSTGRESQL if is_postgresql else _SQLITE) or 0)
