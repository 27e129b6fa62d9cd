"""Embeddings of small whole numbers, kept in a byte for each number.

MessagePack encodes a number from -32 to 127 in one byte, which takes four as float32. Embeddings that were quantized to
int8 have such numbers. The documents of a large request are in memory together, so such embeddings are packed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from ragstore.model.vectors import Matrix, Vector, squared_norms


class PackedRow(NamedTuple):
    """An embedding.

    Attributes:
        numbers: its numbers; 0 for each that is not a whole number from -127 to 127.
        positions: indexes of those.
        others: their values.
        squared_norm: the sum of the squares of all numbers.
    """

    numbers: NDArray[np.int8]
    positions: NDArray[np.uint16]
    others: Vector
    squared_norm: float


Row: TypeAlias = PackedRow | Vector


def dimension_of(row: Row) -> int:
    """Number of an embedding's numbers."""
    return len(row.numbers if isinstance(row, PackedRow) else row)


def pack_row(vector: Vector) -> Row:
    """Pack an embedding of numbers of which half or more are small and whole.

    Of other embeddings, a body has 1.5 bytes for each number or more, of which float32 makes 2.7 times as many or less.

    Args:
        vector: the embedding, finite.

    Returns:
        The packed embedding; otherwise the vector.
    """
    numbers = np.clip(vector, -127, 127).astype(np.int8)
    # Compared by their bits: -0.0 is no whole number.
    differs = numbers.astype(np.float32).view(np.uint32) != vector.view(np.uint32)
    if 2 * np.count_nonzero(differs) > len(vector):
        return vector
    numbers[differs] = 0
    positions = np.flatnonzero(differs).astype(np.uint16)
    return PackedRow(numbers, positions, vector[differs], _squared_norm(vector))


def unpack_row(row: Row) -> Vector:
    """The embedding of a packed row."""
    if not isinstance(row, PackedRow):
        return row
    vector = row.numbers.astype(np.float32)
    vector[row.positions] = row.others
    return vector


class PackedEmbeddings:
    """A matrix of packed rows. Unpickled, it is a matrix.

    Args:
        rows: n rows of one dimension, at least one.
    """

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.shape = len(rows), dimension_of(rows[0])

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def __iter__(self) -> Iterator[Vector]:
        """The rows."""
        return map(unpack_row, self.rows)

    @overload
    def __getitem__(self, index: int) -> Vector: ...

    @overload
    def __getitem__(self, index: slice) -> Matrix: ...

    def __getitem__(self, index: int | slice) -> Vector | Matrix:
        """A row, or a matrix of some rows."""
        if not isinstance(index, slice):
            return unpack_row(self.rows[index])
        rows = self.rows[index]
        matrix: Matrix = np.empty((len(rows), self.shape[1]), dtype=np.float32)
        for number, row in enumerate(rows):
            matrix[number] = unpack_row(row)
        return matrix

    def __reduce__(self) -> tuple[object, ...]:
        """Unpickle as a matrix."""
        return np.asarray, (self[:],)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return sum(map(_bytes_of, self.rows))

    @property
    def squared_norms(self) -> NDArray[np.float64]:
        """The sum of the squares of each row."""
        return np.fromiter(map(_squared_norm, self.rows), dtype=np.float64, count=len(self.rows))


def _bytes_of(row: Row) -> int:
    if isinstance(row, PackedRow):
        return row.numbers.nbytes + row.positions.nbytes + row.others.nbytes
    return row.nbytes


def _squared_norm(row: Row) -> float:
    return row.squared_norm if isinstance(row, PackedRow) else float(squared_norms(row[np.newaxis])[0])


Embeddings: TypeAlias = Matrix | PackedEmbeddings
"""The embeddings of documents to write."""


def norms_of(embeddings: Embeddings) -> NDArray[np.float64]:
    """The squared norm of each embedding."""
    return embeddings.squared_norms if isinstance(embeddings, PackedEmbeddings) else squared_norms(embeddings)
