"""Embeddings as float32 vectors and matrices, and the one codec between them and what callers send."""

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
"""Numbers in an embedding. Chroma allocates memory for 100 embeddings with the first one of a collection. Where that
fails, so do all writes and reads of the collection: with 8 GiB, after one document of 6.3 million numbers (measured
with 1.5.9)."""


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


def parse_embedding(given: list[float] | bytes, path: str) -> Vector:
    """An embedding as sent, as a vector.

    Args:
        given: numbers, or the bytes of little-endian float32.
        path: its JSON path, for errors.

    Returns:
        Vector of shape (dimension,), float32, finite.

    Raises:
        InvalidDocuments: it is empty, too long, not whole numbers of float32, or not finite as float32.
    """
    if not given:
        raise InvalidDocuments.at(path, f"{NOT_NUMBERS} and must not be empty")
    if isinstance(given, bytes):
        if len(given) % 4:
            raise InvalidDocuments.at(path, f"{NOT_NUMBERS}; its bytes are not little-endian float32")
        vector = from_bytes(given)
    else:
        vector = _float32(given)
    if len(vector) > MAX_DIMENSION:
        raise InvalidDocuments.at(path, f"An embedding has at most {MAX_DIMENSION} numbers; this one has {len(vector)}")
    finite = np.isfinite(vector)
    if not finite.all():
        place = int(np.argmin(finite))
        raise InvalidDocuments.at(f"{path}[{place}]", f"{NOT_NUMBERS} that are finite as float32")
    return vector


def _float32(numbers: list[float]) -> Vector:
    """Numbers as float32; those beyond its range are infinite.

    Struct takes a third of numpy's time for it (768 numbers: 9 and 30 µs), but stops at a number beyond the range.
    """
    try:
        return np.frombuffer(struct.pack(f"{len(numbers)}f", *numbers), dtype=np.float32)
    except OverflowError:
        with np.errstate(over="ignore"):
            return np.array(numbers, dtype=np.float32)
