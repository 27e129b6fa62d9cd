"""The positions and the neighbours of embeddings on a map.

Of clustered embeddings, the first two principal components keep a third of the neighbours. So a map has the exact
neighbours of each point, too, by which a reader of it can place the points better.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragstore.model.collections import Distance
from ragstore.model.maps import MAX_NEIGHBOURS
from ragstore.model.vectors import Matrix

Doubles: TypeAlias = NDArray[np.float64]

COMPONENTS: Final = 2

OVERSAMPLING: Final = 10
"""Number of directions beside the components. The more there are, the fewer iterations are necessary."""

ITERATIONS: Final = 12
"""Number of iterations for the principal components. The part of a direction that is not among the first twelve is
multiplied by the ratio of its variance to the variance of a component, twelve times."""

STEP_NUMBERS: Final = 1_000_000
"""Number of distances that are computed in a step, and of numbers of the rows that they belong to. After a step, the
computation can be interrupted. A step takes up to 40 bytes of memory for each of them."""

NO_DISTANCE: Final = 1e-14
"""A cosine distance below this, or a position relative to the longest embedding, is a rounding error, which equal
embeddings have, too. It becomes 0."""

DIGITS: Final = 7
"""Significant digits of the numbers of a map. The embeddings are float32, which has as many."""

_MAX: Final = float(np.finfo(np.float32).max)


class Projection(NamedTuple):
    """Embeddings on a map.

    Attributes:
        positions: matrix of shape (n, 2).
        neighbours: matrix of shape (n, k): for each row, the indexes of the k nearest other rows, nearest first.
        distances: matrix of shape (n, k): their distances.
    """

    positions: Doubles
    neighbours: NDArray[np.int64]
    distances: Doubles


def project(embeddings: Matrix, distance: Distance) -> Generator[None, None, Projection]:
    """Compute the two first principal components and the nearest neighbours of embeddings.

    Args:
        embeddings: matrix of shape (n, dimension), finite.
        distance: as `distances_to` defines it. With `cosine`, embeddings of length 1 are placed.

    Yields:
        Where the computation can be interrupted.

    Returns:
        The map of the embeddings. It depends on nothing else.
    """
    rows = embeddings.astype(np.float64)
    if distance == "cosine":
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, np.newaxis]
        np.divide(rows, norms, out=rows, where=norms > 0)
    elif distance == "l2" and len(rows):
        # It changes no distance, and keeps digits where all embeddings are far from zero.
        rows -= rows.mean(axis=0)
    yield
    positions = yield from principal_components(rows)
    neighbours, distances = yield from nearest_rows(rows, distance)
    return Projection(rounded(positions), neighbours, rounded(distances))


def principal_components(rows: Doubles) -> Generator[None, None, Doubles]:
    """The first two principal components of rows, by subspace iteration.

    The covariance matrix of 2,800 numbers has 10 s of eigenvectors, in one step. The iteration multiplies by the rows.

    Args:
        rows: matrix of shape (n, dimension).

    Yields:
        After each iteration.

    Returns:
        Matrix of shape (n, 2). The number that is farthest from zero in a component's direction is positive.
    """
    count, dimension = rows.shape
    size = min(COMPONENTS + OVERSAMPLING, count, dimension)
    if size == 0:
        return np.zeros((count, COMPONENTS))
    mean = rows.mean(axis=0)
    directions = np.random.default_rng(0).standard_normal((dimension, size))
    directions, _ = np.linalg.qr(directions)
    for _ in range(ITERATIONS):
        # The rows without their mean, which are never in memory.
        directions, _ = np.linalg.qr(rows.T @ (rows @ directions - mean @ directions))
        yield
    projected = rows @ directions - mean @ directions
    _, vectors = np.linalg.eigh(projected.T @ projected)
    chosen = vectors[:, ::-1][:, :COMPONENTS]
    loadings = directions @ chosen
    farthest = np.argmax(np.abs(loadings), axis=0)
    signs = np.where(loadings[farthest, np.arange(chosen.shape[1])] < 0, -1.0, 1.0)
    positions = np.zeros((count, COMPONENTS))
    positions[:, : chosen.shape[1]] = projected @ (chosen * signs)
    longest = np.sqrt(np.einsum("ij,ij->i", rows, rows).max())
    positions[np.abs(positions) < NO_DISTANCE * longest] = 0.0
    return positions


def nearest_rows(rows: Doubles, distance: Distance) -> Generator[None, None, tuple[NDArray[np.int64], Doubles]]:
    """The nearest other rows of each row, by comparison with all rows.

    Args:
        rows: matrix of shape (n, dimension); of length 1 or 0 for `cosine`.
        distance: the distance function.

    Yields:
        After each block of rows.

    Returns:
        Their indexes, and their distances: two matrices of shape (n, k). Of equal distances, the lower index is first.
    """
    count = len(rows)
    size = max(0, min(MAX_NEIGHBOURS, count - 1))
    indexes, nearest = np.zeros((count, size), dtype=np.int64), np.zeros((count, size))
    if size == 0:
        return indexes, nearest
    squares = np.einsum("ij,ij->i", rows, rows)
    step = max(1, STEP_NUMBERS // max(rows.shape))
    for begin in range(0, count, step):
        block = rows[begin : begin + step]
        own = np.arange(len(block))
        distances = block @ rows.T
        if distance == "l2":
            distances *= -2
            distances += squares
            distances += squares[begin : begin + step, np.newaxis]
        else:
            np.subtract(1.0, distances, out=distances)
        distances[own, begin + own] = np.inf
        found = np.argpartition(distances, size - 1, axis=1)[:, :size]
        values = np.take_along_axis(distances, found, axis=1)
        if distance == "l2":
            # The sum of squares has lost digits of small distances.
            for each in range(size):
                differences = rows[found[:, each]] - block
                values[:, each] = np.einsum("ij,ij->i", differences, differences)
        elif distance == "cosine":
            np.clip(values, 0.0, 2.0, out=values)
            values[values < NO_DISTANCE] = 0.0
        order = np.lexsort((found, values), axis=1)
        indexes[begin : begin + step] = np.take_along_axis(found, order, axis=1)
        nearest[begin : begin + step] = np.take_along_axis(values, order, axis=1)
        yield
    return indexes, nearest


def rounded(numbers: Doubles) -> Doubles:
    """Numbers with the digits of float32, within its range."""
    limited = np.clip(numbers, -_MAX, _MAX)
    magnitudes = np.floor(np.log10(np.abs(limited), where=limited != 0, out=np.zeros_like(limited)))
    # Powers of ten from 1e23 on are not exact. Such numbers may keep more digits, which makes no difference.
    places = np.clip(DIGITS - 1 - magnitudes, -300, 300)
    factors = np.power(10.0, np.abs(places))
    scaled = np.rint(np.where(places >= 0, limited * factors, limited / factors))
    result: Doubles = np.where(places >= 0, scaled / factors, scaled * factors) + 0.0
    return result
