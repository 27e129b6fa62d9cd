"""`Ledger`: the audit ledger in the database. Several replicas append to one chain."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import msgspec
from sqlalchemy import Row, Select, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.conversations.chain import ChainCheck, ChainedEntry, Head, chained
from ragstore_gateway.conversations.tables import HEAD_ID, AuditEntryRow, AuditHeadRow
from ragstore_gateway.database.database import Database

PAGE: Final = 1000
"""Number of entries that a verification or an export reads together."""

_COLUMNS: Final = (
    AuditEntryRow.sequence,
    AuditEntryRow.id,
    AuditEntryRow.conversation,
    AuditEntryRow.created_on,
    AuditEntryRow.body,
    AuditEntryRow.hash,
)


_Row: TypeAlias = Row[int, str, str, datetime, str, str]


class LedgerDamaged(Exception):
    """The ledger has no head, so no entry can follow it."""


class NewEntry(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """An entry to be appended. Its fields contain no content.

    Attributes:
        id: id of the event, which is recorded once.
        created_on: its time.
        kind: `retrieval` or `deletion`.
        conversation: id of the conversation; empty for none.
        key: name of the key of the caller; empty without keys.
        request_id: id of the request.
        assistant: name of the assistant; empty for none.
        assistant_version: its version; 0 for none.
        data: the traces of a retrieval by key, or the numbers of a deletion.
    """

    id: str
    created_on: datetime
    kind: str
    conversation: str
    key: str
    request_id: str
    assistant: str = ""
    assistant_id: str = ""
    assistant_version: int = 0
    data: Mapping[str, Any]


class Ledger:
    """The audit ledger."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, session: AsyncSession, entries: Sequence[NewEntry]) -> None:
        """Append entries. The lock of the head lasts until the session's transaction ends.

        Args:
            session: a session that writes.
            entries: the entries. One whose id is in the ledger is ignored.

        Raises:
            LedgerDamaged: there is no head.
        """
        row = await session.get(AuditHeadRow, HEAD_ID, with_for_update=True)
        if row is None:
            raise LedgerDamaged("the audit ledger has no head")
        head = Head(row.count, row.hash)
        ids = [entry.id for entry in entries]
        known = set(await session.scalars(select(AuditEntryRow.id).where(AuditEntryRow.id.in_(ids))))
        for entry in entries:
            if entry.id in known:
                continue
            known.add(entry.id)
            stored = chained(head, msgspec.to_builtins(entry))
            session.add(
                AuditEntryRow(
                    sequence=stored.sequence,
                    id=entry.id,
                    conversation=entry.conversation,
                    created_on=entry.created_on,
                    body=stored.body,
                    hash=stored.hash,
                )
            )
            head = Head(stored.sequence, stored.hash)
        row.count, row.hash = head.count, head.hash
        await session.flush()

    async def head(self) -> Head | None:
        """The head; None if it is missing."""
        async with self._database.reading() as session:
            return await _head(session)

    async def read(
        self, *, conversation: str = "", since: datetime | None = None, after: int = 0, limit: int = PAGE
    ) -> list[ChainedEntry]:
        """Read entries.

        Args:
            conversation: the conversation; all when empty.
            since: minimum time.
            after: the number of an entry, after which to begin.
            limit: maximum number of entries.
        """
        query = _page(after, limit)
        if conversation:
            query = query.where(AuditEntryRow.conversation == conversation)
        if since is not None:
            query = query.where(AuditEntryRow.created_on >= since)
        async with self._database.reading() as session:
            return [_chained(row) for row in await session.execute(query)]

    async def export(self) -> AsyncIterator[ChainedEntry | Head]:
        """All entries of one state of the ledger, in order, and then its head if it has one."""
        async with self._snapshot() as session:
            head = await _head(session)
            async for row in _rows(session):
                yield _chained(row)
        if head is not None:
            yield head

    async def verify(self, expected: Head | None = None) -> ChainCheck:
        """Check the chain, in one state of the ledger.

        Args:
            expected: a head that was recorded elsewhere.

        Returns:
            The check, with its problems.
        """
        check = ChainCheck(expected)
        async with self._snapshot() as session:
            head = await _head(session)
            async for row in _rows(session):
                columns = {"id": row.id, "conversation": row.conversation}
                columns["createdOn"] = msgspec.to_builtins(row.created_on.astimezone(UTC))
                check.feed(_chained(row), columns)
        check.finish(head)
        return check

    @asynccontextmanager
    async def _snapshot(self) -> AsyncIterator[AsyncSession]:
        """A session that reads one state of the database. On SQLite, each transaction does."""
        async with self._database.reading() as session:
            if self._database.is_postgresql:
                await session.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
            yield session


async def _head(session: AsyncSession) -> Head | None:
    row = await session.get(AuditHeadRow, HEAD_ID)
    return None if row is None else Head(row.count, row.hash)


async def _rows(session: AsyncSession) -> AsyncIterator[_Row]:
    after = -(2**63)
    while True:
        page = (await session.execute(_page(after, PAGE))).all()
        for row in page:
            yield row
        if len(page) < PAGE:
            return
        after = page[-1].sequence


def _page(after: int, limit: int) -> Select[int, str, str, datetime, str, str]:
    return select(*_COLUMNS).where(AuditEntryRow.sequence > after).order_by(AuditEntryRow.sequence).limit(limit)


def _chained(row: _Row) -> ChainedEntry:
    return ChainedEntry(row.sequence, row.body, row.hash)
