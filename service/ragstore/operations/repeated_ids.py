"""Splitting of a batch with repeated ids."""

from __future__ import annotations

from collections.abc import Iterator

from ragstore.model.documents import Batch


def split_at_repeated_ids(batch: Batch) -> Iterator[tuple[int, Batch]]:
    """Split a batch into chunks with distinct ids. Writing them in order has the effect of writing the batch.

    Args:
        batch: a batch whose ids may repeat.

    Yields:
        The index of a chunk's first document in the batch, and the chunk.
    """
    first = 0
    seen: set[str] = set()
    for index, document_id in enumerate(batch.ids):
        if document_id in seen:
            yield first, chunk_of(batch, first, index)
            first = index
            seen.clear()
        seen.add(document_id)
    yield first, chunk_of(batch, first, len(batch))


def chunk_of(batch: Batch, first: int, end: int) -> Batch:
    """The documents of a batch from an index to another."""
    if end - first == len(batch):
        return batch
    rows = slice(first, end)
    return Batch(batch.ids[rows], batch.texts[rows], batch.metadatas[rows], batch.embeddings[rows])
