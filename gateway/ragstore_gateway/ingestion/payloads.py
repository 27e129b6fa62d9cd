"""Bytes that an ingestion keeps until it ends: the document, and the finished parts of a large one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.ingestion.tables import IngestionPayloadRow

CONTENT: Final = "content"
CHUNKS: Final = "chunks"
VECTORS: Final = "vectors"
"""Kinds of payloads: the document, the spans of its chunks, the mark of a batch of vectors that the engine has.

An earlier version kept the vectors of the batch, as float32, until the engine had all batches."""


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


async def put_payloads(
    session: AsyncSession, ingestion_id: str, kind: str, collection_id: str, data: Mapping[int, bytes]
) -> None:
    """Write payloads that are not there.

    Args:
        session: the transaction.
        ingestion_id: the ingestion.
        collection_id: the collection that they are for.
        data: the bytes, by position.
    """
    own = {"ingestion_id": ingestion_id, "kind": kind, "collection_id": collection_id}
    rows = [{**own, "position": position, "data": each} for position, each in data.items()]
    await session.execute(sa.insert(IngestionPayloadRow), rows)
