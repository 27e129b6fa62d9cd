"""Parts of transactions that delete documents, or cancel their ingestions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.ingestion import events, metrics
from ragstore_gateway.ingestion.collections import live_collections
from ragstore_gateway.ingestion.removals import add_removal
from ragstore_gateway.ingestion.tables import DocumentRow, IngestionPayloadRow, IngestionRow
from ragstore_gateway.ingestion.transactions import (
    CANCELLED,
    DOCUMENT_DELETED,
    PENDING,
    PROCESSING,
    activate_if_complete,
    end_ingestion,
)
from ragstore_gateway.keywords.keyword_index import remove_keywords

BATCH: Final = 500
"""Maximum number of ids in a statement."""


async def delete_documents(session: AsyncSession, base_id: str, document_ids: Sequence[str]) -> list[str]:
    """Delete documents of a knowledge base, their vectors after the transaction.

    Args:
        session: the transaction, with the base locked.
        base_id: the knowledge base.
        document_ids: the documents.

    Returns:
        The ingestions of the documents that this cancelled.
    """
    cancelled: list[str] = []
    live = await live_collections(session, base_id) if document_ids else []
    for start in range(0, len(document_ids), BATCH):
        ids = document_ids[start : start + BATCH]
        cancelled += await _cancel(session, IngestionRow.document_id.in_(ids), DOCUMENT_DELETED)
        for collection in live:
            await remove_keywords(session, collection.id, ids)
            for document_id in ids:
                add_removal(session, collection, document_id)
        await session.execute(sa.delete(DocumentRow).where(DocumentRow.id.in_(ids)))
    if document_ids:
        events.documents_deleted(session, base_id, document_ids)
        await session.flush()
        await activate_if_complete(session, base_id)
    return cancelled


async def cancel_all(session: AsyncSession, base_id: str, message: str) -> list[str]:
    """End all ingestions of a knowledge base that have not ended.

    Args:
        session: the transaction.
        base_id: the knowledge base.
        message: why.

    Returns:
        Their ids.
    """
    return await _cancel(session, IngestionRow.base_id == base_id, message)


async def _cancel(session: AsyncSession, chosen: sa.ColumnElement[bool], message: str) -> list[str]:
    # Ingestions that have not begun have written nothing but their payloads. A new collection of a large base has tens
    # of thousands, which would take minutes one after the other.
    values = {"state": CANCELLED, "message": message, "finished_on": datetime.now(UTC)}
    pending = sa.update(IngestionRow).where(chosen, IngestionRow.state == PENDING).values(values)
    cancelled = list(await session.scalars(pending.returning(IngestionRow.id)))
    for start in range(0, len(cancelled), BATCH):
        own = IngestionPayloadRow.ingestion_id.in_(cancelled[start : start + BATCH])
        await session.execute(sa.delete(IngestionPayloadRow).where(own))
    metrics.ended(CANCELLED, len(cancelled))
    events.cancelled_in_queue(session, cancelled, message)
    query = sa.select(IngestionRow).where(chosen, IngestionRow.state == PROCESSING).with_for_update()
    rows = list(await session.scalars(query))
    for row in rows:
        await end_ingestion(session, row, CANCELLED, message)
    return [*cancelled, *(row.id for row in rows)]
