"""From the chunks of a document to the records of an engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID, uuid5

from ragstore_gateway.embeddings.batches import batches
from ragstore_gateway.embeddings.embedder import Vectors
from ragstore_gateway.engines.engine_collection import DOCUMENT_KEY, MAX_BATCH, REVISION_KEY, MetadataValue, Record
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.ingestion.tables import IngestionRow
from ragstore_gateway.splitting.chunk import ChunkSpan

BATCH: Final = 32
"""Maximum number of chunks that are embedded with one call: what most providers take as one request."""

BATCH_BYTES: Final = 256 * 1024


def batches_of(extracted: Extracted, spans: Sequence[ChunkSpan]) -> Iterator[tuple[int, Sequence[ChunkSpan]]]:
    """Divide the chunks of a document into batches, always the same ones. The texts are read batch by batch.

    Args:
        extracted: the document.
        spans: its chunks.

    Yields:
        For each batch, the index of its first chunk, and its chunks.
    """
    first = 0
    for texts in batches((extracted.text[span.start : span.end] for span in spans), BATCH, BATCH_BYTES):
        yield first, spans[first : first + len(texts)]
        first += len(texts)


def chunk_id(row: IngestionRow, index: int) -> str:
    """The id of a chunk in an engine.

    Args:
        row: the ingestion.
        index: the index of the chunk.
    """
    return str(uuid5(UUID(row.document_id), f"{row.revision}:{index}"))


def records_of(
    row: IngestionRow, extracted: Extracted, spans: Sequence[ChunkSpan], first: int, vectors: Vectors
) -> list[Record]:
    """The records of a batch of chunks, for an engine.

    Args:
        row: the ingestion.
        extracted: the document.
        spans: the chunks.
        first: the index of the first one.
        vectors: the embedding of each chunk.
    """
    ingested_at = row.created_on.isoformat(timespec="seconds")
    records = []
    for index, (span, vector) in enumerate(zip(spans, vectors, strict=True), first):
        metadata: dict[str, MetadataValue] = {
            **(row.own_metadata or {}),
            "chunk_index": index,
            # The strategy's own metadata: `layers` has an index within the layer.
            **span.metadata,
            DOCUMENT_KEY: row.document_id,
            REVISION_KEY: row.revision,
            "document_name": row.document_name,
            "char_start": span.start,
            "char_end": span.end,
            "token_count": span.token_count,
            "content_hash": row.content_hash,
            "ingested_at": ingested_at,
        }
        if span.page is not None:
            metadata["page_number"] = span.page
        if span.last_page is not None:
            metadata["page_end"] = span.last_page
        if span.heading:
            metadata["section_heading"] = span.heading
        id = chunk_id(row, index)
        records.append(Record(id, extracted.text[span.start : span.end], vector, metadata))
    return records


def parts_of(ready: Mapping[int, list[Record]]) -> Iterator[dict[int, list[Record]]]:
    """Divide batches into parts that an engine takes with one call, each as large as it may be.

    Args:
        ready: the records of batches, by the position of the batch in the document.

    Yields:
        The batches of each part, by position.
    """
    part: dict[int, list[Record]] = {}
    size = 0
    for position in sorted(ready):
        own = len(ready[position])
        if part and size + own > MAX_BATCH:
            yield part
            part, size = {}, 0
        part[position] = ready[position]
        size += own
    if part:
        yield part
