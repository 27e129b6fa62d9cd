"""The chunks of an ingestion as its keyword indexes have them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec
import sqlalchemy as sa

from ragstore_gateway.database.database import Database
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.ingestion.embedded_text import embedded_text
from ragstore_gateway.ingestion.payloads import CHUNKS, payload
from ragstore_gateway.ingestion.records import chunk_id
from ragstore_gateway.ingestion.tables import CollectionRow, DocumentTextRow, IngestionRow
from ragstore_gateway.keywords.keyword_index import IndexedChunk
from ragstore_gateway.keywords.words import words
from ragstore_gateway.splitting.chunk import Chunking, ChunkSpan

_text: Final = msgspec.msgpack.Decoder(Extracted).decode
_spans: Final = msgspec.msgpack.Decoder(list[ChunkSpan]).decode


async def indexed_chunks(database: Database, row: IngestionRow) -> dict[str, list[IndexedChunk]]:
    """The chunks of a document by collection, for each collection that the ingestion has written to.

    The title and the nearest heading are indexed with each chunk, or all headings where they are embedded, too. A
    thread finds the words: those of 10 MB take 2 s.

    Args:
        row: the ingestion.
    """
    if not row.written:
        return {}
    async with database.reading() as session:
        kept = await session.get(DocumentTextRow, row.revision)
        spans = {each: await payload(session, row.id, CHUNKS, each) for each in row.written}
        chunkings = {each.id: msgspec.convert(each.chunking, Chunking) for each in await session.scalars(_own(row))}
    if kept is None:
        return {}
    return {
        collection_id: await asyncio.to_thread(
            _indexed, row, _text(kept.extracted), _spans(data), chunkings[collection_id]
        )
        for collection_id, data in spans.items()
        if data is not None and collection_id in chunkings
    }


def _own(row: IngestionRow) -> sa.Select[CollectionRow]:
    return sa.select(CollectionRow).where(CollectionRow.id.in_(row.written))


def _indexed(
    row: IngestionRow, extracted: Extracted, spans: Sequence[ChunkSpan], chunking: Chunking
) -> list[IndexedChunk]:
    if chunking.with_headings:
        return [
            IndexedChunk(chunk_id(row, index), list(words(embedded_text(extracted, span, chunking))))
            for index, span in enumerate(spans)
        ]
    title = list(words(extracted.title))
    return [IndexedChunk(chunk_id(row, index), [*title, *_words(extracted, span)]) for index, span in enumerate(spans)]


def _words(extracted: Extracted, span: ChunkSpan) -> list[str]:
    text = extracted.text[span.start : span.end]
    found = list(words(text))
    return found if span.heading in text else [*words(span.heading), *found]
