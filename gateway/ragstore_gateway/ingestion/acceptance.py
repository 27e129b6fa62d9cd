"""`Acceptance`: writes a document that is to be ingested, within the limits of the queue and of the tenant."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias, TypeVar
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore.kit.context import current_request
from ragstore_gateway.database.locks import lock_name
from ragstore_gateway.errors import ConfigurationNotFound, QueueFull
from ragstore_gateway.ingestion import events
from ragstore_gateway.ingestion.payloads import CONTENT
from ragstore_gateway.ingestion.tables import DocumentRow, IngestionPayloadRow, IngestionRow
from ragstore_gateway.ingestion.tenant_storage import TenantStorage
from ragstore_gateway.ingestion.transactions import INGEST, PENDING, UNFINISHED, lock_base, reset_reindexing
from ragstore_gateway.tenants.errors import TenantLimitExceeded
from ragstore_gateway.tenants.limits import LimitsByTenant

T = TypeVar("T")
R = TypeVar("R")

NotAccepted: TypeAlias = QueueFull | TenantLimitExceeded
"""Why a document is not accepted. The first reason ends by itself."""

WAITING: Final = "ingestion_waiting"
"""The lock under which the last check of the limits is made."""

THREAD_BYTES: Final = 1024 * 1024
"""Size from which a document is hashed in a thread. 1 MiB takes about 2 ms, 50 MiB up to 0.1 s."""


@dataclass(frozen=True, slots=True)
class NewContent:
    """A document to be ingested.

    Attributes:
        name: its name; empty for one made from its content.
        media_type: its media type, as declared.
        content: its bytes.
        kb_id: an alias of the knowledge base that the status repeats.
        metadata: metadata of its chunks beside the gateway's keys; None for what a document of its name has.
        request_id: id of the request that sent it, for the log; empty for none.
    """

    name: str
    media_type: str
    content: bytes
    kb_id: str
    metadata: Mapping[str, Any] | None = None
    request_id: str = field(default_factory=lambda: getattr(current_request(), "request_id", ""))


_BYTES_WAITING: Final = sa.case((IngestionRow.kind == INGEST, IngestionRow.bytes), else_=0)
_WAITING_SIZES: Final = sa.select(
    sa.func.count(), sa.func.coalesce(sa.func.sum(_BYTES_WAITING), 0), sa.func.max(_BYTES_WAITING)
).where(IngestionRow.state.in_(UNFINISHED))


class Acceptance:
    """Accepts documents in transactions.

    Args:
        max_waiting: maximum number of ingestions that have not ended.
        max_waiting_bytes: maximum size of the documents whose ingestion has not ended.

    Attributes:
        max_waiting: the maximum number.
        storage: counts the documents and files of tenants.
    """

    def __init__(self, max_waiting: int, max_waiting_bytes: int, storage: TenantStorage | None = None) -> None:
        self.max_waiting = max_waiting
        self.storage = storage or TenantStorage(LimitsByTenant({}))
        self._max_waiting_bytes = max_waiting_bytes

    async def accept(self, session: AsyncSession, base_id: str, document: NewContent) -> IngestionRow:
        """Write a document and its ingestion. The transaction must end with `reserve`.

        Args:
            session: the transaction.
            base_id: the knowledge base.

        Returns:
            The ingestion.

        Raises:
            ConfigurationNotFound: there is no such knowledge base. Nothing was written.
            QueueFull: too much waits. Nothing was written.
            TenantLimitExceeded: the tenant of the base has its maximum. Nothing was written.
        """
        (outcome,) = await self.accept_many(session, base_id, [document])
        if isinstance(outcome, NotAccepted):
            raise outcome
        return outcome

    async def accept_many(
        self, session: AsyncSession, base_id: str, documents: Sequence[NewContent]
    ) -> list[IngestionRow | NotAccepted]:
        """Write documents and their ingestions. The transaction must end with `reserve`.

        Args:
            session: the transaction.
            base_id: the knowledge base.
            documents: the documents. Of several with one name, each later one replaces those before.

        Returns:
            For each document, the ingestion, or the reason why there is no room for it.

        Raises:
            ConfigurationNotFound: there is no such knowledge base. Nothing was written.
        """
        reasons: list[NotAccepted | None] = [
            *await self.room_for(session, [len(document.content) for document in documents])
        ]
        if None not in reasons:
            return [reason for reason in reasons if reason is not None]
        if await lock_base(session, base_id) is None:
            raise ConfigurationNotFound(f"There is no knowledge base {base_id}")
        digests = [await _digest(document.content) for document in documents]
        names = [
            document.name or f"document-{digest[:12]}" for document, digest in zip(documents, digests, strict=True)
        ]
        room = await self.storage.room(session, base_id, names)
        for number, (document, name) in enumerate(zip(documents, names, strict=True)):
            reasons[number] = reasons[number] or room.take(name, len(document.content))
        accepted = [
            _Accepted(document, name, digest)
            for document, name, digest, reason in zip(documents, names, digests, reasons, strict=True)
            if reason is None
        ]
        ingestions = iter(await _write(session, base_id, accepted))
        return [next(ingestions) if reason is None else reason for reason in reasons]

    async def room_for(self, session: AsyncSession, sizes: Sequence[int]) -> list[QueueFull | None]:
        """Look for room for documents, in their order.

        Args:
            session: the transaction.
            sizes: the size of each document in bytes.

        Returns:
            For each document, why there is no room for it; None if there is.
        """
        room = await self._room(session)
        return [room.take(size) for size in sizes]

    async def reserve(self, session: AsyncSession) -> None:
        """Check the limits again, with what other transactions have committed meanwhile: the end of a transaction.

        No other transaction accepts anything between this check and the commit.

        Args:
            session: the transaction.

        Raises:
            QueueFull: too much waits.
        """
        if await lock_name(session, WAITING) and (full := (await self._room(session)).reason()) is not None:
            raise full

    async def _room(self, session: AsyncSession) -> _Room:
        waiting, total, largest = (await session.execute(_WAITING_SIZES)).one()
        return _Room(self.max_waiting, self._max_waiting_bytes, waiting, int(total), largest or 0)


@dataclass(slots=True)
class _Room:
    """The documents that wait for ingestion, and the room for further ones.

    Attributes:
        waiting: number of ingestions that have not ended.
        total: size of their documents.
        largest: size of the largest one.
    """

    max_waiting: int
    max_waiting_bytes: int
    waiting: int
    total: int
    largest: int

    def take(self, size: int) -> QueueFull | None:
        """Take the room for a document.

        Args:
            size: in bytes.

        Returns:
            None; or why there is no room, which was not taken then.
        """
        after = replace(self, waiting=self.waiting + 1, total=self.total + size, largest=max(self.largest, size))
        if (full := after.reason()) is None:
            self.waiting, self.total, self.largest = after.waiting, after.total, after.largest
        return full

    def reason(self) -> QueueFull | None:
        """Why too much waits; None if there is room for what waits."""
        if self.waiting > self.max_waiting:
            return QueueFull(f"{self.max_waiting} ingestions have not ended yet; try again later")
        # One document alone is accepted, whatever its size.
        if self.total > max(self.max_waiting_bytes, self.largest):
            return QueueFull(
                f"The documents that wait for ingestion must not have more than {self.max_waiting_bytes} bytes; "
                "try again later"
            )
        return None


@dataclass(frozen=True, slots=True)
class _Accepted:
    """A document that is accepted.

    Attributes:
        name: its name, also if the caller gave none.
        digest: SHA-256 of its content.
    """

    document: NewContent
    name: str
    digest: str


async def accept_in_halves(
    documents: Sequence[T], accept: Callable[[Sequence[T]], Awaitable[Sequence[R]]]
) -> list[R | QueueFull]:
    """Accept documents with one transaction, or each half with its own if other transactions have taken the room.

    Args:
        accept: accepts documents with one transaction, which ends with `Acceptance.reserve`.

    Returns:
        The outcome of each document.
    """
    try:
        return [*await accept(documents)]
    except QueueFull as error:
        # A part of the documents may have room.
        if len(documents) <= 1:
            return [error] * len(documents)
    half = len(documents) // 2
    return [*await accept_in_halves(documents[:half], accept), *await accept_in_halves(documents[half:], accept)]


async def _write(session: AsyncSession, base_id: str, accepted: Sequence[_Accepted]) -> list[IngestionRow]:
    """Write documents and their ingestions, with the base locked."""
    if not accepted:
        return []
    names = {each.name for each in accepted}
    query = sa.select(DocumentRow).where(DocumentRow.base_id == base_id, DocumentRow.name.in_(names))
    rows = {row.name: row for row in await session.scalars(query)}
    if rows:
        await reset_reindexing(session, base_id, [row.id for row in rows.values()])
    now = datetime.now(UTC)
    ingestions: list[IngestionRow] = []
    for number, each in enumerate(accepted):
        # Lists and the queue are ordered by time.
        accepted_on = now + timedelta(microseconds=number)
        row = rows.get(each.name)
        if row is None:
            row = rows[each.name] = new_document(base_id, each.name, accepted_on)
            session.add(row)
        ingestions.append(new_ingestion(row, each.document, each.digest, accepted_on))
    session.add_all(ingestions)
    for each, ingestion in zip(accepted, ingestions, strict=True):
        events.accepted(session, ingestion, each.document.request_id)
    await session.flush()
    # As a statement: the session would keep the contents until its end.
    contents = [
        {"ingestion_id": row.id, "kind": CONTENT, "collection_id": "", "position": 0, "data": each.document.content}
        for row, each in zip(ingestions, accepted, strict=True)
    ]
    await session.execute(sa.insert(IngestionPayloadRow), contents)
    return ingestions


def new_document(base_id: str, name: str, now: datetime) -> DocumentRow:
    """A document without a content, which `new_ingestion` gives it."""
    return DocumentRow(
        id=str(uuid4()),
        base_id=base_id,
        name=name,
        current_revision=None,
        current_sequence=0,
        last_sequence=0,
        last_ingestion="",
        media_type="",
        bytes=0,
        content_hash="",
        chunks=0,
        created_on=now,
        modified_on=now,
    )


def new_ingestion(row: DocumentRow, document: NewContent, digest: str, now: datetime) -> IngestionRow:
    """A further ingestion of a document, which becomes its last one.

    Args:
        row: the document.
        document: its content.
        digest: SHA-256 of the content.
        now: when it was accepted.
    """
    ingestion_id = str(uuid4())
    row.last_sequence += 1
    row.last_ingestion = ingestion_id
    size = len(document.content)
    metadata = row.own_metadata if document.metadata is None else dict(document.metadata)
    if row.current_revision is None:
        row.media_type, row.bytes, row.content_hash = document.media_type, size, digest
        row.own_metadata = metadata
    return IngestionRow(
        id=ingestion_id,
        kind=INGEST,
        base_id=row.base_id,
        kb_id=document.kb_id,
        document_id=row.id,
        document_name=row.name,
        revision=ingestion_id,
        sequence=row.last_sequence,
        state=PENDING,
        message="",
        unchanged=False,
        targets=[],
        written={},
        chunks=0,
        chunks_embedded=0,
        media_type=document.media_type,
        bytes=size,
        content_hash=digest,
        own_metadata=metadata,
        owner="",
        attempts=0,
        created_on=now,
        started_on=None,
        finished_on=None,
    )


async def _digest(content: bytes) -> str:
    if len(content) < THREAD_BYTES:
        return hashlib.sha256(content).hexdigest()
    return (await asyncio.to_thread(hashlib.sha256, content)).hexdigest()
