"""Copies what is known about the pages of a knowledge base's websites, beside copies of its documents."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.ingestion.tables import DocumentRow
from ragstore_gateway.sources.tables import SourceDocumentRow


async def copy_pages(session: AsyncSession, base_id: str, copy: Configuration[KnowledgeBase]) -> None:
    """Let the sources of a copied base own the copies of the documents that they made.

    Without this, a run of the copy would skip each page, because its document would be a person's. Documents of upload
    sources are left out: their files are not copied, so that a run of the copy would remove them.

    Args:
        session: the transaction that has copied the documents.
        base_id: the knowledge base.
        copy: the new one.
    """
    websites = [source.name for source in copy.body.sources if source.type == "web"]
    if not websites:
        return
    copied = aliased(DocumentRow)
    given = {
        SourceDocumentRow.document_id: copied.id,
        SourceDocumentRow.base_id: copied.base_id,
        SourceDocumentRow.ingestion_id: copied.last_ingestion,
    }
    columns = list(SourceDocumentRow.__table__.columns)
    values = {column.name: column for column in columns} | {column.key: value for column, value in given.items()}
    pages = (
        sa.select(*values.values())
        .select_from(copied)
        .join(DocumentRow, (DocumentRow.base_id == base_id) & (DocumentRow.name == copied.name))
        .join(
            SourceDocumentRow,
            (SourceDocumentRow.document_id == DocumentRow.id)
            & (SourceDocumentRow.ingestion_id == DocumentRow.last_ingestion),
        )
        .where(copied.base_id == copy.id, SourceDocumentRow.source.in_(websites))
    )
    await session.execute(sa.insert(SourceDocumentRow).from_select(list(values), pages))
