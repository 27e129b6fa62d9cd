"""The bytes that an ingestion keeps until it ends, so that no finished part of it is done again."""

from __future__ import annotations

from typing import Final

from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.ingestion.tables import IngestionPayloadRow

CONTENT: Final = "content"
CHUNKS: Final = "chunks"
VECTORS: Final = "vectors"
"""Kinds of payloads: the document, the spans of its chunks, the vectors of a batch of them as float32."""


async def payload(
    session: AsyncSession, ingestion_id: str, kind: str, collection_id: str = "", position: int = 0
) -> bytes | None:
    """Read a payload.

    Args:
        ingestion_id: the ingestion.
        collection_id: the collection that it is for, if any.
        position: its index.
    """
    row = await session.get(IngestionPayloadRow, (ingestion_id, kind, collection_id, position))
    return None if row is None else row.data


async def put_payload(
    session: AsyncSession, ingestion_id: str, kind: str, collection_id: str, position: int, data: bytes
) -> None:
    """Write a payload, unless it is there already.

    Args:
        session: the transaction.
        ingestion_id: the ingestion.
        collection_id: the collection that it is for; empty for none.
        position: its index.
        data: the bytes.
    """
    key = (ingestion_id, kind, collection_id, position)
    if await session.get(IngestionPayloadRow, key) is None:
        session.add(
            IngestionPayloadRow(
                ingestion_id=ingestion_id, kind=kind, collection_id=collection_id, position=position, data=data
            )
        )
