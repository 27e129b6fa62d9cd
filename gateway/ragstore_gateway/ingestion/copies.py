"""Copies the documents of a knowledge base into a new one: their kept texts are split and embedded again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.errors import BaseTooLarge
from ragstore_gateway.ingestion.acceptance import Acceptance, NewContent, new_document, new_ingestion
from ragstore_gateway.ingestion.tables import DocumentRow, DocumentTextRow
from ragstore_gateway.ingestion.transactions import lock_base

NOT_OWN: Final = "The documents of an existing collection are not copied"


async def copy_documents(
    session: AsyncSession, acceptance: Acceptance, base_id: str, copy: Configuration[KnowledgeBase]
) -> None:
    """Accept the documents that searches of a base find for a new base, with their metadata. No content is extracted.

    Args:
        session: the transaction that creates the new base.
        base_id: the knowledge base.
        copy: the new one, which has no documents.

    Raises:
        BaseTooLarge: there are more documents than may wait for ingestion.
        InvalidRequest: the base is in an existing collection.
        QueueFull: too much waits.
    """
    if copy.body.collection:
        raise InvalidRequest.at("$.documents", NOT_OWN)
    # No document changes between the statements.
    await lock_base(session, base_id)
    has_text = DocumentTextRow.revision == DocumentRow.current_revision
    own = sa.select(DocumentRow).join(DocumentTextRow, has_text).where(DocumentRow.base_id == base_id)
    count = await session.scalar(own.with_only_columns(sa.func.count())) or 0
    if count > acceptance.max_waiting:
        raise BaseTooLarge(
            f"The base has {count} documents, and at most {acceptance.max_waiting} may wait for ingestion; "
            "ragstore-gateway kb export and kb import copy it"
        )
    documents = list(await session.scalars(own.order_by(DocumentRow.name)))
    for full in await acceptance.room_for(session, [document.bytes for document in documents]):
        if full is not None:
            raise full
    now = datetime.now(UTC)
    for number, document in enumerate(documents):
        # The queue is ordered by time.
        accepted_on = now + timedelta(microseconds=number)
        row = new_document(copy.id, document.name, accepted_on)
        content = NewContent(document.name, document.media_type, b"", copy.body.name, document.own_metadata or {})
        ingestion = new_ingestion(row, content, document.content_hash, accepted_on)
        row.bytes = ingestion.bytes = document.bytes
        session.add_all([row, ingestion])
    await session.flush()
    await _copy_texts(session, base_id, copy.id)
    await acceptance.reserve(session)


async def _copy_texts(session: AsyncSession, base_id: str, copy_id: str) -> None:
    """Copy the texts of documents to the documents of the same names, as texts of their ingestions in progress."""
    copied = aliased(DocumentRow)
    texts = (
        sa.select(copied.last_ingestion, copied.id, DocumentTextRow.extracted)
        .select_from(copied)
        .join(DocumentRow, (DocumentRow.base_id == base_id) & (DocumentRow.name == copied.name))
        .join(DocumentTextRow, DocumentTextRow.revision == DocumentRow.current_revision)
        .where(copied.base_id == copy_id)
    )
    columns = ["revision", "document_id", "extracted"]
    await session.execute(sa.insert(DocumentTextRow).from_select(columns, texts))
