"""Copies the gateway's state from one database to another one, of any kind, and verifies the copy."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from ragstore_gateway.database.base import Base
from ragstore_gateway.database.database import error_text
from ragstore_gateway.database.engine import create_engine
from ragstore_gateway.database.errors import DatabaseNotUsable
from ragstore_gateway.database.migrate import is_current, upgrade

NOT_COPIED: Final = frozenset({"executor", "keyword_chunk", "keyword_index"})
"""Leases belong to processes. Keyword indexes depend on the kind of database: the gateway fills them again."""

RESET: Final = {"vector_collection_document": {"has_keywords": False}}
"""Values of columns in the copy: the chunks are in no keyword index."""

HEAD: Final = "audit_head"
"""The table that a migration fills: the end of the audit ledger."""

BATCH: Final = 1000
BATCH_OF_BYTES: Final = 10
"""Number of rows that are copied together; fewer where rows may have the bytes of a document."""


class CopyFailed(Exception):
    """The state was not copied, and the target was not changed. The text is one line without content."""


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table of the copy.

    Attributes:
        rows: number of its rows.
        hash: SHA-256 of each row, added up, so that the order has no effect.
    """

    name: str
    rows: int
    hash: str


async def copy_state(source: URL, target: URL) -> list[CopiedTable]:
    """Copy all tables, in one transaction of the target, which is committed only if the copy is verified.

    A gateway may use the source meanwhile: the copy has the state of the moment when it began.

    Args:
        source: the database to read. Its schema must be the newest one.
        target: a database without state. It is migrated.

    Returns:
        The tables, with counts and hashes that are equal in both databases.

    Raises:
        CopyFailed: a database cannot be used, the target has state, or the copy differs.
    """
    reading = create_engine(source, migrating=True)
    writing = create_engine(target, migrating=True)
    if source.get_backend_name() == "postgresql":
        reading = reading.execution_options(isolation_level="REPEATABLE READ")
    else:
        reading = reading.execution_options(ragstore_write=False)
    try:
        async with reading.begin() as old, writing.begin() as new:
            if not await old.run_sync(is_current):
                raise CopyFailed(
                    "The source has the schema of another version: start its gateway once with this version"
                )
            await new.run_sync(upgrade)
            await _check_empty(new)
            return [await _copied(old, new, table) for table in _tables()]
    except DatabaseNotUsable as error:
        raise CopyFailed(str(error)) from None
    except (DBAPIError, OSError) as error:
        raise CopyFailed(f"A database cannot be used: {error_text(error)}") from None
    finally:
        await reading.dispose()
        await writing.dispose()


def _tables() -> list[sa.Table]:
    return [table for table in Base.metadata.sorted_tables if table.name not in NOT_COPIED]


async def _check_empty(target: AsyncConnection) -> None:
    """Check that the target has no state, and remove what its migrations have written.

    Raises:
        CopyFailed: it has state.
    """
    head = Base.metadata.tables[HEAD]
    for table in Base.metadata.sorted_tables:
        used = sa.select(sa.literal(1)).select_from(table).limit(1)
        if table.name == HEAD:
            used = used.where(head.c.count > 0)
        if (await target.execute(used)).first() is not None:
            raise CopyFailed(f"The target has state already, in its table {table.name}")
    await target.execute(sa.delete(head))


async def _copied(source: AsyncConnection, target: AsyncConnection, table: sa.Table) -> CopiedTable:
    """Copy a table, and read the copy.

    Raises:
        CopyFailed: the copy differs.
    """
    expected = _Sum()
    async for rows in _rows(source, table):
        expected.add(rows)
        await target.execute(sa.insert(table), rows)
    found = _Sum()
    async for rows in _rows(target, table):
        found.add(rows)
    if (found.rows, found.total) != (expected.rows, expected.total):
        raise CopyFailed(f"The copy of the table {table.name} differs: {expected.rows} rows, {found.rows} in the copy")
    return CopiedTable(table.name, expected.rows, f"{expected.total:064x}")


async def _rows(connection: AsyncConnection, table: sa.Table) -> AsyncIterator[Sequence[dict[str, Any]]]:
    """The rows of a table as they are in the copy."""
    own = RESET.get(table.name, {})
    has_bytes = any(isinstance(column.type, sa.LargeBinary) for column in table.columns)
    async with connection.stream(sa.select(table)) as result:
        async for part in result.mappings().partitions(BATCH_OF_BYTES if has_bytes else BATCH):
            yield [{**row, **own} for row in part]


class _Sum:
    """The number of rows, and the sum of their hashes."""

    def __init__(self) -> None:
        self.rows = 0
        self.total = 0

    def add(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add rows."""
        self.rows += len(rows)
        for row in rows:
            encoded = msgspec.json.encode(row, order="deterministic")
            self.total = (self.total + int.from_bytes(hashlib.sha256(encoded).digest())) % 2**256
