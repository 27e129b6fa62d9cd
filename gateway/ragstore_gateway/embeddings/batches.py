"""Splits texts into batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def batches(texts: Iterable[str], max_texts: int, max_bytes: int) -> Iterator[list[str]]:
    """Split texts into batches, in order.

    Args:
        max_texts: maximum number of texts in a batch.
        max_bytes: maximum size of the texts of a batch, as UTF-8. A larger text is a batch of its own.

    Yields:
        The batches; none is empty.
    """
    batch: list[str] = []
    size = 0
    for text in texts:
        own = len(text.encode("utf-8", "surrogatepass"))
        if batch and (len(batch) >= max_texts or size + own > max_bytes):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += own
    if batch:
        yield batch
