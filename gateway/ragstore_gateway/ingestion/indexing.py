"""The chunks of documents as keyword indexes have them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.ingestion.claimed_document import ClaimedDocument
from ragstore_gateway.ingestion.embedded_text import embedded_text
from ragstore_gateway.ingestion.records import chunk_id
from ragstore_gateway.keywords.keyword_index import IndexedChunk
from ragstore_gateway.keywords.words import words
from ragstore_gateway.splitting.chunk import Chunking, ChunkSpan


async def indexed_chunks(claimed: Sequence[ClaimedDocument]) -> dict[str, dict[str, list[IndexedChunk]]]:
    """The chunks of documents, for each collection that they were written to.

    The title and the nearest heading are indexed with each chunk, or all headings where they are embedded, too. A
    thread finds the words, which takes 2 s for 10 MB.

    Args:
        claimed: the documents.

    Returns:
        The chunks by collection and document.
    """
    return await asyncio.to_thread(_all_indexed, claimed)


def _all_indexed(claimed: Sequence[ClaimedDocument]) -> dict[str, dict[str, list[IndexedChunk]]]:
    found: dict[str, dict[str, list[IndexedChunk]]] = {}
    for each in claimed:
        for collection in each.targets:
            if collection.id in each.written and collection.id in each.spans:
                chunks = _indexed(each, each.spans[collection.id], collection.chunking)
                found.setdefault(collection.id, {})[each.row.document_id] = chunks
    return found


def _indexed(claimed: ClaimedDocument, spans: Sequence[ChunkSpan], chunking: Chunking) -> list[IndexedChunk]:
    extracted = claimed.text
    if chunking.with_headings:
        return [
            IndexedChunk(chunk_id(claimed.row, index), tuple(words(embedded_text(extracted, span, chunking))))
            for index, span in enumerate(spans)
        ]
    title = list(words(extracted.title))
    return [
        IndexedChunk(chunk_id(claimed.row, index), (*title, *_words(extracted, span)))
        for index, span in enumerate(spans)
    ]


def _words(extracted: Extracted, span: ChunkSpan) -> list[str]:
    text = extracted.text[span.start : span.end]
    found = list(words(text))
    return found if span.heading in text else [*words(span.heading), *found]
