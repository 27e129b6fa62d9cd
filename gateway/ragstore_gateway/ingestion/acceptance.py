"""`Acceptance`: writes a document that is to be ingested, within the limits of what waits for ingestion."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.database.locks import lock_name
from ragstore_gateway.errors import ConfigurationNotFound, QueueFull
from ragstore_gateway.ingestion.payloads import CONTENT
from ragstore_gateway.ingestion.tables import DocumentRow, IngestionPayloadRow, IngestionRow
from ragstore_gateway.ingestion.transactions import INGEST, PENDING, UNFINISHED, lock_base, reset_reindexing

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
    """

    name: str
    media_type: str
    content: bytes
    kb_id: str


class Acceptance:
    """Accepts documents in transactions.

    Args:
        max_waiting: maximum number of ingestions that have not ended.
        max_waiting_bytes: maximum size of the documents whose ingestion has not ended.
    """

    def __init__(self, max_waiting: int, max_waiting_bytes: int) -> None:
        self._max_waiting = max_waiting
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
        """
        size = len(document.content)
        await self._check(session, 1, size)
        if await lock_base(session, base_id) is None:
            raise ConfigurationNotFound(f"There is no knowledge base {base_id}")
        digest = await _digest(document.content)
        name = document.name or f"document-{digest[:12]}"
        now = datetime.now(UTC)
        ingestion_id = str(uuid4())
        row = await _document(session, base_id, name, now)
        row.last_sequence += 1
        row.last_ingestion = ingestion_id
        await reset_reindexing(session, base_id, row.id)
        if row.current_revision is None:
            row.media_type, row.bytes, row.content_hash = document.media_type, size, digest
        ingestion = IngestionRow(
            id=ingestion_id,
            kind=INGEST,
            base_id=base_id,
            kb_id=document.kb_id,
            document_id=row.id,
            document_name=name,
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
            owner="",
            attempts=0,
            created_on=now,
            started_on=None,
            finished_on=None,
        )
        session.add(ingestion)
        await session.flush()
        # As a statement: the session would keep the content until its end.
        content = {"ingestion_id": ingestion_id, "kind": CONTENT, "collection_id": "", "position": 0}
        await session.execute(sa.insert(IngestionPayloadRow).values(**content, data=document.content))
        return ingestion

    async def reserve(self, session: AsyncSession) -> None:
        """Check the limits again, with what other transactions have committed meanwhile: the end of a transaction.

        No other transaction accepts anything between this check and the commit.

        Args:
            session: the transaction.

        Raises:
            QueueFull: too much waits.
        """
        if await lock_name(session, WAITING):
            await self._check(session, 0, 0)

    async def _check(self, session: AsyncSession, documents: int, size: int) -> None:
        """Check that there is room for further documents."""
        bytes_waiting = sa.case((IngestionRow.kind == INGEST, IngestionRow.bytes), else_=0)
        query = sa.select(
            sa.func.count(), sa.func.coalesce(sa.func.sum(bytes_waiting), 0), sa.func.max(bytes_waiting)
        ).where(IngestionRow.state.in_(UNFINISHED))
        waiting, total, largest = (await session.execute(query)).one()
        if waiting + documents > self._max_waiting:
            raise QueueFull(f"{self._max_waiting} ingestions have not ended yet; try again later")
        total = int(total) + size
        # One document alone is accepted, whatever its size.
        if total > max(self._max_waiting_bytes, largest or 0, size):
            raise QueueFull(
                f"The documents that wait for ingestion must not have more than {self._max_waiting_bytes} bytes; "
                "try again later"
            )


async def _digest(content: bytes) -> str:
    if len(content) < THREAD_BYTES:
        return hashlib.sha256(content).hexdigest()
    return (await asyncio.to_thread(hashlib.sha256, content)).hexdigest()


async def _document(session: AsyncSession, base_id: str, name: str, now: datetime) -> DocumentRow:
    """The document of a name, created now if there is none. The base is locked."""
    query = sa.select(DocumentRow).where(DocumentRow.base_id == base_id, DocumentRow.name == name)
    row = await session.scalar(query)
    if row is None:
        row = DocumentRow(
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
        session.add(row)
    return row
