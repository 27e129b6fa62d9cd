"""Copies the documents of a knowledge base into a new one: their kept texts are split and embedded again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.errors import BaseTooLarge
from ragstore_gateway.ingestion.acceptance import Acceptance, NewContent, new_document, new_ingestion
from ragstore_gateway.ingestion.tables import DocumentRow, DocumentTextRow, IngestionRow
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
        TenantLimitExceeded: the tenant of the copy has its maximum.
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
    found = await session.execute(own.with_only_columns(DocumentRow.name, DocumentRow.bytes))
    sizes = {each.name: each.bytes for each in found}
    for full in await acceptance.room_for(session, list(sizes.values())):
        if full is not None:
            raise full
    room = await acceptance.storage.room(session, copy.id, ())
    for name, size in sizes.items():
        if (exceeded := room.take(name, size)) is not None:
            raise exceeded
    await _copy_documents(session, own, copy)
    await _copy_texts(session, base_id, copy.id)
    await acceptance.reserve(session)


async def _copy_documents(
    session: AsyncSession, own: sa.Select[DocumentRow], copy: Configuration[KnowledgeBase]
) -> None:
    """Add copies of documents and their ingestions, by statements: objects of the session take four times as long."""
    documents, ingestions = cast("sa.Table", DocumentRow.__table__), cast("sa.Table", IngestionRow.__table__)
    now = datetime.now(UTC)
    row = new_document(copy.id, "", now)
    template = new_ingestion(row, NewContent("", "", b"", copy.body.name), "", now)
    kept = [documents.c[name] for name in ("name", "media_type", "bytes", "content_hash", "metadata")]
    found = await session.execute(own.with_only_columns(*kept).order_by(DocumentRow.name))
    shared = _columns(row, documents)
    values = [
        {
            **shared,
            **each,
            "id": str(uuid4()),
            "last_ingestion": str(uuid4()),
            # The queue is ordered by time.
            "created_on": now + timedelta(microseconds=number),
        }
        for number, each in enumerate(found.mappings())
    ]
    if not values:
        return
    await session.execute(sa.insert(documents), values)
    given = documents.c
    of_document: dict[str, sa.ColumnElement[Any]] = {
        "id": given.last_ingestion,
        "revision": given.last_ingestion,
        "document_id": given.id,
        "document_name": given.name,
        **{name: given[name] for name in ("media_type", "bytes", "content_hash", "metadata", "created_on")},
    }
    literals = {
        name: sa.literal(value, ingestions.c[name].type) for name, value in _columns(template, ingestions).items()
    }
    columns = {**literals, **of_document}
    query = sa.select(*columns.values()).where(given.base_id == copy.id)
    await session.execute(sa.insert(ingestions).from_select(list(columns), query))


def _columns(row: DocumentRow | IngestionRow, table: sa.Table) -> dict[str, Any]:
    """The values of a row by the names of the table's columns. Columns that the database fills are left out."""
    attributes = row.__mapper__.get_property_by_column
    keys = {column.name: attributes(column).key for column in table.columns}
    return {name: getattr(row, key) for name, key in keys.items() if key in vars(row)}


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
