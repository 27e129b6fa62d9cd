"""Removes many rows in short transactions, so that a purge holds up no other writer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from sqlalchemy import Delete, Row, Select

from ragstore_gateway.database.database import Database

PURGE_BATCH: Final = 500
"""Number of rows that one transaction removes."""


async def purge(
    database: Database,
    expired: Select[*tuple[Any, ...]],
    delete: Callable[[Sequence[Row[*tuple[Any, ...]]]], Iterable[Delete]],
) -> int:
    """Remove rows, and have SQLite overwrite them.

    Args:
        expired: selects the keys of the rows.
        delete: makes the statements that delete rows, from their keys.

    Returns:
        The number of rows removed.
    """
    purged = 0
    while True:
        async with database.session() as session:
            rows = (await session.execute(expired.limit(PURGE_BATCH))).all()
            if rows:
                await database.overwrite_deleted(session)
                for statement in delete(rows):
                    await session.execute(statement)
        purged += len(rows)
        if len(rows) < PURGE_BATCH:
            return purged
