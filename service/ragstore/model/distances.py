"""Distances between embeddings, as Chroma computes them."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragstore.model.collections import Distance
from ragstore.model.vectors import Matrix, Vector

_MAX: Final = float(np.finfo(np.float32).max)


def distances_to(embeddings: Matrix, query: Vector, distance: Distance) -> NDArray[np.float32]:
    """The distance of each embedding from a query.

    They are computed in float64 and rounded to float32. Chroma computes in float32, so its distances may differ in the
    last digits. Equal embeddings have equal distances.

    Args:
        embeddings: matrix of shape (n, dimension).
        query: vector of the same dimension.
        distance: `l2` is the squared Euclidean distance; `ip` one minus the inner product; `cosine` the same of
            embeddings that are divided by their norm. A zero embedding has the cosine distance 1 from every other.

    Returns:
        n finite distances.
    """
    rows, other = embeddings.astype(np.float64), query.astype(np.float64)
    if distance == "l2":
        rows -= other
        exact = np.einsum("ij,ij->i", rows, rows)
    else:
        exact = np.einsum("ij,j->i", rows, other)
        if distance == "cosine":
            norms = np.sqrt(np.einsum("ij,ij->i", rows, rows) * (other @ other))
            exact = np.divide(exact, norms, out=np.zeros_like(exact), where=norms > 0)
        exact = 1.0 - exact
    rounded: NDArray[np.float32] = np.clip(exact, -_MAX, _MAX).astype(np.float32)
    return rounded
