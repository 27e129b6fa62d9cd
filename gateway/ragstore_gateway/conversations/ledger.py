"""`Ledger`: the audit ledger in the database. Several replicas append to one chain."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, TypeVarTuple

import msgspec
from sqlalchemy import Row, Select, func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.conversations.chain import ChainCheck, ChainedEntry, Head, chained
from ragstore_gateway.conversations.tables import HEAD_ID, AuditEntryRow, AuditHeadRow
from ragstore_gateway.database.database import Database

PAGE: Final = 1000
"""Number of entries that a verification or an export reads together."""

SCANNED: Final = 10_000
"""Maximum number of entries that a search for a kind, a key or an assistant reads for one page. They have no index."""

_COLUMNS: Final = (
    AuditEntryRow.sequence,
    AuditEntryRow.id,
    AuditEntryRow.conversation,
    AuditEntryRow.created_on,
    AuditEntryRow.body,
    AuditEntryRow.hash,
)


_Row: TypeAlias = Row[int, str, str, datetime, str, str]
_Columns = TypeVarTuple("_Columns")


class LedgerDamaged(Exception):
    """The ledger has no head, so no entry can follow it."""


class NewEntry(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """An entry to be appended. Its fields contain no content.

    Attributes:
        id: id of the event, which is recorded once.
        created_on: its time.
        kind: `retrieval`, `deletion` or `feedback`.
        conversation: id of the conversation; empty for none.
        key: name of the key of the caller; empty without keys.
        request_id: id of the request.
        assistant: name of the assistant; empty for none.
        assistant_version: its version; 0 for none.
        data: the traces of a retrieval by key, the numbers of a deletion, or the feedback.
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


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """A selection of entries.

    Attributes:
        conversation: id of their conversation; all when empty.
        kind: `retrieval`, `deletion` or `feedback`; all when empty.
        key: name of the key of their caller, empty for callers without one; None for all.
        assistant: name of their assistant; all when empty.
        since: minimum time.
        until: the time before which they are.
    """

    conversation: str = ""
    kind: str = ""
    key: str | None = None
    assistant: str = ""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def has_index(self) -> bool:
        """Whether the entries are found without reading others."""
        return self.key is None and not self.assistant and not self.kind


ALL_ENTRIES: Final = EntryFilter()


@dataclass(frozen=True, slots=True)
class EntryPage:
    """Entries, and where the next ones begin.

    Attributes:
        next: `after` of the next page; None if there is none.
    """

    entries: Sequence[ChainedEntry]
    next: int | None


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
        self, chosen: EntryFilter = ALL_ENTRIES, *, after: int = 0, limit: int = PAGE, newest: bool = False
    ) -> EntryPage:
        """Read entries.

        Args:
            after: the number of an entry, after which to begin, in the order of the page; 0 for the first one.
            limit: maximum number of entries. A search for a kind, a key or an assistant may find fewer, also none,
                before its end.
            newest: whether the order is from the newest to the oldest.
        """
        async with self._database.reading() as session:
            last = await self._last_scanned(session, chosen, after, newest=newest)
            query = _selected(chosen, after, last, newest=newest, is_postgresql=self._database.is_postgresql)
            found = [_chained(row) for row in await session.execute(query.limit(limit + 1))]
        if len(found) > limit:
            return EntryPage(found[:limit], found[limit - 1].sequence)
        return EntryPage(found, last)

    async def _last_scanned(
        self, session: AsyncSession, chosen: EntryFilter, after: int, *, newest: bool
    ) -> int | None:
        """The last entry that a page reads; None if it reads up to the end."""
        if chosen.has_index:
            return None
        query = _ordered(select(AuditEntryRow.sequence), after, newest=newest).offset(SCANNED - 1).limit(1)
        return await session.scalar(query)

    async def export(self) -> AsyncIterator[Sequence[ChainedEntry | Head]]:
        """All entries of one state of the ledger, in order, and then its head if it has one.

        Yields:
            Up to `PAGE` entries; the head is in the last part.
        """
        async for page, head in self._pages():
            entries = [_chained(row) for row in page]
            yield entries if head is None else [*entries, head]

    async def verify(self, expected: Head | None = None) -> ChainCheck:
        """Check the chain, in one state of the ledger.

        Args:
            expected: a head that was recorded elsewhere.

        Returns:
            The check, with its problems.
        """
        check = ChainCheck(expected)
        head: Head | None = None
        async for page, end in self._pages():
            head = end
            # In a thread: a page takes longer than a turn of the event loop may.
            await asyncio.to_thread(_feed, check, page)
        check.finish(head)
        return check

    async def _pages(self) -> AsyncIterator[tuple[Sequence[_Row], Head | None]]:
        """All entries, in order, and the head with the last of them.

        Entries are never changed, and the last ones are read together with the head, so all are of one state. No
        transaction is open meanwhile: on SQLite, its log could not be emptied.
        """
        after = -(2**63)
        while True:
            async with self._snapshot() as session:
                page = (await session.execute(_ordered(select(*_COLUMNS), after).limit(PAGE))).all()
                is_last = len(page) < PAGE
                head = await _head(session) if is_last else None
            yield page, head
            if is_last:
                return
            after = page[-1].sequence

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


def _feed(check: ChainCheck, page: Sequence[_Row]) -> None:
    for row in page:
        columns = {"id": row.id, "conversation": row.conversation}
        columns["createdOn"] = msgspec.to_builtins(row.created_on.astimezone(UTC))
        check.feed(_chained(row), columns)


def _selected(
    chosen: EntryFilter, after: int, last: int | None, *, newest: bool, is_postgresql: bool
) -> Select[int, str, str, datetime, str, str]:
    query = _ordered(select(*_COLUMNS), after, newest=newest)
    if last is not None:
        query = query.where(AuditEntryRow.sequence >= last if newest else AuditEntryRow.sequence <= last)
    if chosen.conversation:
        query = query.where(AuditEntryRow.conversation == chosen.conversation)
    if chosen.since is not None:
        query = query.where(AuditEntryRow.created_on >= chosen.since)
    if chosen.until is not None:
        query = query.where(AuditEntryRow.created_on < chosen.until)
    # Canonical JSON writes each field in one way only, and a text of another field has its quotation marks escaped.
    position = func.strpos if is_postgresql else func.instr
    if chosen.assistant:
        query = query.where(position(AuditEntryRow.body, f'{{"assistant":{_json(chosen.assistant)},') == 1)
    if chosen.kind:
        query = query.where(position(AuditEntryRow.body, f',"kind":{_json(chosen.kind)},"previousHash":') > 0)
    if chosen.key is not None:
        query = query.where(position(AuditEntryRow.body, f',"key":{_json(chosen.key)},"kind":') > 0)
    return query


def _json(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _ordered(query: Select[*_Columns], after: int, *, newest: bool = False) -> Select[*_Columns]:
    if not newest:
        return query.where(AuditEntryRow.sequence > after).order_by(AuditEntryRow.sequence)
    if after:
        query = query.where(AuditEntryRow.sequence < after)
    return query.order_by(AuditEntryRow.sequence.desc())


def _chained(row: _Row) -> ChainedEntry:
    return ChainedEntry(row.sequence, row.body, row.hash)
