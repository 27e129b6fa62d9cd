"""`EmbeddingTable`: the embeddings of a small collection, and which of them are nearer to a query than its results."""

from __future__ import annotations

import math
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragstore.model.collections import Distance
from ragstore.model.documents import StoredEmbeddings
from ragstore.model.queries import Matches, Query
from ragstore.model.vectors import Matrix

Floats: TypeAlias = NDArray[np.float32]

TOLERANCE: Final = 1e-5
"""Relative difference of distances that counts as none. Chroma computes in float32, and so does this table."""


class EmbeddingTable:
    """Embeddings of documents, prepared for comparisons with queries.

    Args:
        stored: the embeddings.
        distance: the distance of their collection.

    Attributes:
        stored: the embeddings.
    """

    def __init__(self, stored: StoredEmbeddings, distance: Distance) -> None:
        self.stored = stored
        self._distance = distance
        self._squares: Floats = np.einsum("ij,ij->i", stored.rows, stored.rows)
        # The largest magnitude of the terms of a distance, which its rounding error is proportional to.
        self._largest = float(self._squares.max(initial=0.0))

    def of(self, ids: set[str]) -> StoredEmbeddings:
        """The embeddings of some of the documents."""
        kept = [row for row, key in enumerate(self.stored.ids) if key in ids]
        return StoredEmbeddings([self.stored.ids[row] for row in kept], self.stored.rows[kept])

    def nearer(self, query: Query, found: Matches) -> list[str]:
        """Documents that are nearer to a query than the last of its results, and are not among them.

        Args:
            found: its results.

        Returns:
            At most `top_k` ids, nearest first. All other documents if there are less than `top_k` results.
        """
        if not self.stored.ids:
            return []
        with np.errstate(all="ignore"):  # distances beyond float32 are infinite
            distances, error = self._distances(query.embedding)
        bound = found.distances[-1] - error if len(found.ids) >= query.top_k else math.inf
        known = set(found.ids)
        order = np.argsort(distances, kind="stable")[: query.top_k]
        return [self.stored.ids[row] for row in order[distances[order] < bound] if self.stored.ids[row] not in known]

    def _distances(self, vector: Floats) -> tuple[Floats, float]:
        """The distance of each embedding from a vector, and the difference that counts as none."""
        products = self.stored.rows @ vector
        square = float(vector @ vector)
        if self._distance == "l2":
            return self._squares + square - 2 * products, TOLERANCE * max(1.0, self._largest + square)
        if self._distance == "ip":
            return 1 - products, TOLERANCE * max(1.0, math.sqrt(self._largest * square))
        norms = np.sqrt(self._squares * square)
        return 1 - np.divide(products, norms, out=np.zeros_like(products), where=norms > 0), TOLERANCE


def joined(first: StoredEmbeddings, second: StoredEmbeddings) -> StoredEmbeddings:
    """Embeddings of two sets of documents."""
    if not first.ids or not second.ids:
        return first if first.ids else second
    rows: Matrix = np.concatenate([first.rows, second.rows])
    return StoredEmbeddings([*first.ids, *second.ids], rows)
