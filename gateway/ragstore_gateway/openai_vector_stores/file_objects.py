"""The documents of a knowledge base as OpenAI's API describes the files of a vector store."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from ragstore_gateway.ingestion.tables import DocumentRow, IngestionRow
from ragstore_gateway.openai_vector_stores.schemas import LastError, StoredStrategy, VectorStoreFileObject
from ragstore_gateway.openai_vector_stores.stores import state_of
from ragstore_gateway.openai_vector_stores.tables import VectorStoreFileRow

INTERNAL: Final = "The file could not be ingested"


def failure_of(message: str, chunks: int) -> LastError:
    """The error of a file whose ingestion failed.

    Args:
        message: why it failed.
        chunks: number of its chunks, as far as it was known: without any, the file has no usable text.
    """
    return LastError("server_error" if chunks else "invalid_file", message or INTERNAL)


def select_files(base_id: str) -> sa.Select[DocumentRow, IngestionRow, VectorStoreFileRow]:
    """The documents of a base, each with its last ingestion and its link to a file, if it has them."""
    return (
        sa.select(DocumentRow, IngestionRow, VectorStoreFileRow)
        .join(IngestionRow, IngestionRow.id == DocumentRow.last_ingestion, isouter=True)
        .join(VectorStoreFileRow, VectorStoreFileRow.document_id == DocumentRow.id, isouter=True)
        .where(DocumentRow.base_id == base_id)
    )


def file_of(
    strategy: StoredStrategy, document: DocumentRow, ingestion: IngestionRow | None, link: VectorStoreFileRow | None
) -> VectorStoreFileObject:
    """A document as a file of a vector store.

    Args:
        strategy: the chunking of the vector store.
        ingestion: its last ingestion.
        link: its uploaded file and attributes; None for a document that was ingested without.
    """
    state = state_of(None if ingestion is None else ingestion.state)
    return VectorStoreFileObject(
        id=document.id if link is None else link.file_id,
        created_at=int(document.created_on.timestamp()),
        usage_bytes=document.bytes,
        vector_store_id=document.base_id,
        status=state,
        last_error=failure_of(ingestion.message, ingestion.chunks) if ingestion and state == "failed" else None,
        chunking_strategy=strategy,
        attributes=document.own_metadata or {} if link is None else link.attributes,
    )
