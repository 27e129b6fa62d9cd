"""Splitting a batch whose ids repeat."""

from __future__ import annotations

from collections.abc import Iterator

from ragstore.model.documents import Batch


def without_repeats(batch: Batch) -> Iterator[tuple[int, Batch]]:
    """Parts of a batch that say the same when they are written one after the other.

    Args:
        batch: a batch whose ids may repeat.

    Yields:
        The place where each part begins and the part, in which no two ids are alike.
    """
    first = 0
    seen: set[str] = set()
    for place, document_id in enumerate(batch.ids):
        if document_id in seen:
            yield first, _part(batch, first, place)
            first = place
            seen.clear()
        seen.add(document_id)
    yield first, _part(batch, first, len(batch))


def _part(batch: Batch, first: int, end: int) -> Batch:
    if end - first == len(batch):
        return batch
    part = slice(first, end)
    return Batch(batch.ids[part], batch.texts[part], batch.metadatas[part], batch.embeddings[part])
