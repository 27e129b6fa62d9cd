"""Validates writes that Chroma would reject late, store in part, or lose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import structlog

from ragstore.chroma.errors import wrong_dimension
from ragstore.errors import BatchTooLarge, DimensionMismatch, InvalidDocuments
from ragstore.kit.errors import InvalidRequest, ServiceError
from ragstore.model.collections import Collection
from ragstore.model.documents import Batch, Write
from ragstore.model.large_bodies.packed_embeddings import Embeddings, norms_of
from ragstore.model.received_documents import Fault, embedding_path, rejection
from ragstore.model.vectors import LOST_NORM, has_lost_norm

_log = structlog.get_logger(__name__)

MAX_DEVIATION: Final = 0.01
"""Maximum difference of a norm from 1 that counts as normalised: float16 and int8 embeddings are within it."""


def validate_writes(collection: Collection, writes: Sequence[Write], limit: int) -> list[ServiceError | None]:
    """Validate writes.

    Args:
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


def warn_of_lengths(collection: Collection, writes: Sequence[Write]) -> None:
    """Log a warning if the first embeddings of an `l2` or `ip` collection are not normalised.

    Args:
        collection: the collection before the writes.
    """
    if collection.dimension is not None or collection.distance == "cosine":
        return
    for write in writes:
        if (np.abs(np.sqrt(norms_of(write.batch.embeddings)) - 1) > MAX_DEVIATION).any():
            _log.warning(
                "embeddings are not normalised",
                collection=collection.name,
                distance=collection.distance,
                advice="Chroma's index loses documents; normalise the embeddings, or use the distance cosine",
            )
            return


def _error_in(collection: Collection, batch: Batch, dimension: int | None, limit: int) -> ServiceError | None:
    if len(batch) > limit:
        # One write is one transaction of Chroma, so a batch that does not fit into one is rejected.
        return BatchTooLarge(limit, len(batch))
    if dimension not in (None, batch.dimension):
        message = wrong_dimension(dimension, batch.dimension).detail
        return rejection([Fault(embedding_path(row), message, DimensionMismatch) for row in range(len(batch))])
    if collection.distance == "cosine":
        return _lost_norm(batch.embeddings)
    return None


def _lost_norm(embeddings: Embeddings) -> InvalidRequest | None:
    """The error for embeddings that a cosine collection would lose."""
    rows = np.flatnonzero(has_lost_norm(norms_of(embeddings)))
    if not len(rows):
        return None
    return rejection([Fault(embedding_path(int(row)), LOST_NORM, InvalidDocuments) for row in rows])
