"""Embeddings as float32 vectors and matrices, and the one codec between them and their wire formats."""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragstore.errors import InvalidDocuments

Matrix: TypeAlias = NDArray[np.float32]

Vector: TypeAlias = NDArray[np.float32]

NOT_NUMBERS: Final = "Embedding must be an array of numbers"

MAX_DIMENSION: Final = 65_536
"""Maximum dimension of an embedding. Chroma allocates memory for 100 embeddings with the first one of a collection. If
that fails, so do all writes and reads of the collection: with 8 GiB, after one document with 6.3 million numbers
(measured with 1.5.9)."""


MIN_SQUARED_NORM: Final = 1e-36
"""Below this, the sum of squares of an embedding loses digits in float32, whose normal numbers begin at 1.2e-38."""

LOST_NORM: Final = "Embedding is too long or too short for a cosine distance: its norm must be 0 or from 1e-18 to 1e19"


def squared_norms(embeddings: Matrix) -> NDArray[np.float64]:
    """The sum of the squares of each row. It is 0 for a row of zeros only: for the smallest float32 it is 2e-90."""
    squares: NDArray[np.float64] = np.einsum("ij,ij->i", embeddings, embeddings, dtype=np.float64)
    return squares


def has_lost_norm(squares: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Find the embeddings that a cosine collection would lose.

    Chroma divides them by their norm, in float32. Where the squared norm is out of float32's range, it stores NaN or
    zero (measured with 1.5.9).

    Args:
        squares: the squared norms of n embeddings.

    Returns:
        n values: whether it would lose the embedding.
    """
    too_short = (squares < MIN_SQUARED_NORM) & (squares > 0)
    lost: NDArray[np.bool_] = (squares > np.finfo(np.float32).max) | too_short
    return lost


def to_bytes(vector: Vector) -> bytes:
    """A vector as the bytes of little-endian float32."""
    return vector.astype("<f4", copy=False).tobytes()


def from_bytes(data: bytes) -> Vector:
    """The vector of some bytes of little-endian float32, read-only.

    Raises:
        ValueError: their number is no multiple of four.
    """
    vector: Vector = np.frombuffer(data, dtype="<f4").astype(np.float32, copy=False)
    return vector


def parse_embedding(embedding: list[float] | bytes, path: str) -> Vector:
    """Parse an embedding of a request.

    Args:
        embedding: numbers, or the bytes of little-endian float32.
        path: its JSON path, for errors.

    Returns:
        Vector of shape (dimension,), float32, finite.

    Raises:
        InvalidDocuments: it is empty or too long, its bytes are not a multiple of four, or a number is not finite as
            float32.
    """
    if not embedding:
        raise InvalidDocuments.at(path, f"{NOT_NUMBERS} and must not be empty")
    if isinstance(embedding, bytes):
        if len(embedding) % 4:
            raise InvalidDocuments.at(path, f"{NOT_NUMBERS}; its bytes are not little-endian float32")
        vector = from_bytes(embedding)
    else:
        vector = _float32(embedding)
    if len(vector) > MAX_DIMENSION:
        raise InvalidDocuments.at(path, f"An embedding has at most {MAX_DIMENSION} numbers; this one has {len(vector)}")
    finite = np.isfinite(vector)
    if not finite.all():
        index = int(np.argmin(finite))
        raise InvalidDocuments.at(f"{path}[{index}]", f"{NOT_NUMBERS} that are finite as float32")
    return vector


def _float32(numbers: list[float]) -> Vector:
    """Numbers as float32; those beyond its range become infinite.

    `struct` takes a third of numpy's time (768 numbers: 9 and 30 µs), but raises on a number beyond the range.
    """
    try:
        return np.frombuffer(struct.pack(f"{len(numbers)}f", *numbers), dtype=np.float32)
    except OverflowError:
        with np.errstate(over="ignore"):
            return np.array(numbers, dtype=np.float32)
