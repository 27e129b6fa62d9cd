"""Changes of the metadata of a document without a new content: its chunks are written again from what is stored."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.ingestion.acceptance import NewContent, new_ingestion
from ragstore_gateway.ingestion.payloads import CONTENT
from ragstore_gateway.ingestion.tables import DocumentRow, DocumentTextRow, IngestionPayloadRow, IngestionRow
from ragstore_gateway.ingestion.transactions import INGEST, UNFINISHED


async def change_metadata(
    session: AsyncSession, document: DocumentRow, metadata: Mapping[str, Any], kb_id: str
) -> None:
    """Accept an ingestion that gives a document other metadata, if it has others. Until then, searches find the old.

    A document without a content and without a text has none: its first ingestion has failed.

    Args:
        session: the transaction, which has locked the document.
        metadata: the metadata, as chunks are to have it.
        kb_id: name of the knowledge base.
    """
    last = await session.get(IngestionRow, document.last_ingestion)
    is_waiting = last is not None and last.kind == INGEST and last.state in UNFINISHED
    before = last if last is not None and is_waiting else document
    revision = last.revision if last is not None and is_waiting else document.current_revision
    if revision is None or (before.own_metadata or {}) == metadata:
        return
    new = NewContent(document.name, before.media_type, b"", kb_id, metadata)
    ingestion = new_ingestion(document, new, before.content_hash, datetime.now(UTC))
    ingestion.bytes = before.bytes
    session.add(ingestion)
    await session.flush()
    if not (is_waiting and await _copy_content(session, revision, ingestion)):
        await _copy_text(session, revision, ingestion)


async def _copy_content(session: AsyncSession, ingestion_id: str, to: IngestionRow) -> bool:
    """Copy the content of an ingestion that has not ended; whether it has one."""
    own = (IngestionPayloadRow.ingestion_id == ingestion_id, IngestionPayloadRow.kind == CONTENT)
    if (await session.execute(sa.select(IngestionPayloadRow.ingestion_id).where(*own))).first() is None:
        return False
    copied = sa.select(
        sa.literal(to.id),
        IngestionPayloadRow.kind,
        IngestionPayloadRow.collection_id,
        IngestionPayloadRow.position,
        IngestionPayloadRow.data,
    ).where(*own)
    columns = ["ingestion_id", "kind", "collection_id", "position", "data"]
    await session.execute(sa.insert(IngestionPayloadRow).from_select(columns, copied))
    return True


async def _copy_text(session: AsyncSession, revision: str, to: IngestionRow) -> None:
    """Copy the text of a revision."""
    own = DocumentTextRow.revision == revision
    copied = sa.select(sa.literal(to.revision), DocumentTextRow.document_id, DocumentTextRow.extracted).where(own)
    columns = ["revision", "document_id", "extracted"]
    await session.execute(sa.insert(DocumentTextRow).from_select(columns, copied))
