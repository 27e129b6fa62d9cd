"""Validates writes that Chroma would reject late, store in part, or lose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ragstore.chroma.errors import wrong_dimension
from ragstore.chroma.records import MAX_FLOAT32
from ragstore.errors import BatchTooLarge, InvalidDocuments
from ragstore.kit.errors import ServiceError
from ragstore.model.collections import Collection
from ragstore.model.documents import Batch, Write
from ragstore.model.vectors import Matrix

MIN_SQUARED_NORM: Final = 1e-36
"""Below this, the sum of squares of an embedding loses digits in float32, whose normal numbers begin at 1.2e-38."""


def validate_writes(collection: Collection, writes: Sequence[Write], limit: int) -> list[ServiceError | None]:
    """Validate writes.

    Args:
        collection: their collection.
        writes: the writes, in their order; the first valid one sets the dimension where the collection has none.
        limit: maximum number of documents in one of them.

    Returns:
        An error or None for each.
    """
    dimension = collection.dimension
    errors: list[ServiceError | None] = []
    for write in writes:
        error = _error_in(collection, write.batch, dimension, limit)
        if error is None:
            dimension = write.batch.dimension
        errors.append(error)
    return errors


def _error_in(collection: Collection, batch: Batch, dimension: int | None, limit: int) -> ServiceError | None:
    if len(batch) > limit:
        # One write is one transaction of Chroma, so a batch that does not fit into one is rejected.
        return BatchTooLarge(limit, len(batch))
    if dimension not in (None, batch.dimension):
        return wrong_dimension(dimension, batch.dimension, "$.documents[0].embedding")
    if collection.distance == "cosine":
        return _lost_norm(batch.embeddings)
    return None


def _lost_norm(embeddings: Matrix) -> InvalidDocuments | None:
    """The error for embeddings that a cosine collection would lose.

    Chroma divides them by their norm, in float32. Where the squared norm is out of float32's range, it stores NaN or
    zero (measured with 1.5.9).
    """
    squares = np.einsum("ij,ij->i", embeddings, embeddings, dtype=np.float64)
    lost = (squares > MAX_FLOAT32) | ((squares < MIN_SQUARED_NORM) & embeddings.any(axis=1))
    if not lost.any():
        return None
    message = "Embedding is too long or too short for a cosine distance: its norm must be 0 or from 1e-18 to 1e19"
    return InvalidDocuments.at(f"$.documents[{int(np.argmax(lost))}].embedding", message)
