"""Vectors as every store receives them: float32, of the collection's dimension, of length 1 or zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.engines.engine_collection import Record, Vector
from ragstore_gateway.errors import DimensionMismatch

_SMALLEST: Final = 1e-30
"""Vectors that are shorter than this have no direction in float32. They are stored as zeros."""


def unit_vector(vector: Vector, dimension: int) -> Vector:
    """A vector with length 1, or zeros.

    Args:
        dimension: the collection's dimension.

    Raises:
        DimensionMismatch: it has another dimension.
        InvalidRequest: it has a number that is not finite.
    """
    scaled: Vector = _scaled(_checked(vector, dimension)[None, :])[0]
    return scaled


def unit_matrix(records: Sequence[Record], dimension: int) -> NDArray[np.float32]:
    """The vectors of records with length 1, or zeros, one in a row.

    Args:
        records: the records, at least one.
        dimension: the collection's dimension.

    Raises:
        DimensionMismatch: one has another dimension.
        InvalidRequest: one has a number that is not finite.
    """
    return unit_rows([record.vector for record in records], dimension)


def unit_rows(vectors: Sequence[Vector | Sequence[float]], dimension: int) -> NDArray[np.float32]:
    """Vectors with length 1, or zeros, one in a row.

    Args:
        vectors: the vectors, at least one.
        dimension: the collection's dimension.

    Raises:
        DimensionMismatch: one has another dimension.
        InvalidRequest: one has a number that is not finite.
    """
    return _scaled(np.stack([_checked(vector, dimension) for vector in vectors]))


def _checked(vector: Vector | Sequence[float], dimension: int) -> Vector:
    array = np.asarray(vector, dtype=np.float32)
    if array.shape != (dimension,):
        raise DimensionMismatch(f"The vector has the dimension {array.size}, and the collection {dimension}")
    return array


def _scaled(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    if not np.isfinite(matrix).all():
        raise InvalidRequest("A vector has numbers that are not finite")
    lengths = np.linalg.norm(matrix.astype(np.float64), axis=1, keepdims=True)
    scaled = np.divide(matrix, lengths, out=np.zeros(matrix.shape, dtype=np.float64), where=lengths > _SMALLEST)
    result: NDArray[np.float32] = scaled.astype(np.float32)
    return result
