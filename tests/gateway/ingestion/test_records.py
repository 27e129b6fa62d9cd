"""From the chunks of a document to the batches that are embedded."""

from __future__ import annotations

from collections.abc import Iterator

from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.ingestion.records import BATCH, batches_of
from ragstore_gateway.splitting.chunk import ChunkSpan


class Spans(list[ChunkSpan]):
    """The spans of chunks.

    Attributes:
        read: the number of spans that were read in order.
    """

    read = 0

    def __iter__(self) -> Iterator[ChunkSpan]:
        """The spans, each of which is counted."""
        for span in super().__iter__():
            self.read += 1
            yield span


def test_the_chunks_of_a_large_document_are_read_batch_by_batch() -> None:
    extracted = Extracted(text="abcd" * 20_000, media_type="text/plain")
    spans = Spans(ChunkSpan(start, start + 4, 1, None, "", {}) for start in range(0, 80_000, 4))
    batches = batches_of(extracted, spans)
    assert next(batches) == (0, spans[:BATCH])
    assert spans.read == BATCH + 1
    assert [first for first, _ in batches] == [*range(BATCH, 20_000, BATCH)]
