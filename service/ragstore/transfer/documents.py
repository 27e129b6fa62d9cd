"""Documents with their embeddings as bytes, and the comparison of stored documents with sent ones."""

from __future__ import annotations

import math
from typing import Final, Literal, TypeAlias

import msgspec
import numpy as np

from ragstore_client import Distance, Scalar, StoredMetadata

COSINE_TOLERANCE: Final = 1e-6
"""Relative difference up to which two embeddings of a cosine collection are the same.

Chroma 1.5.9 stores such an embedding divided by its norm and multiplies it again when it is read. Both steps round to
float32: each number changes by less than 3e-7 each time it is stored.
"""

FLOAT_TOLERANCE: Final = 1e-15
"""The same for metadata floats, whose last digit Chroma changes when there are more than 15."""

Comparison: TypeAlias = Literal["equal", "rounded", "different"]

_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
_SMALLEST: Final = float(np.finfo(np.float32).tiny)
"""Smallest float32 with all its digits."""


class Document(msgspec.Struct, frozen=True):
    """A document.

    Attributes:
        embedding: little-endian float32; base64 in JSON.
    """

    id: str
    text: str
    metadata: StoredMetadata
    embedding: bytes

    @property
    def size_bytes(self) -> int:
        """Approximate size in memory and in a request."""
        return len(self.embedding) + 2 * len(self.text) + 64 * len(self.metadata) + len(self.id)


def to_json(value: object) -> bytes:
    """Encode a struct as JSON. Equal structs give equal bytes: the keys of metadata are sorted."""
    return _ENCODER.encode(value)


def compare(expected: Document, found: Document, distance: Distance) -> Comparison:
    """Compare a stored document with the sent document.

    Chroma rounds embeddings of cosine collections, and metadata floats with more than 15 digits.

    Args:
        expected: the document that was sent.
        found: the document that is stored under its id.
        distance: the collection's distance function.

    Returns:
        `equal` byte for byte; `rounded` if Chroma's rounding is the only difference; otherwise `different`.
    """
    if to_json(expected) == to_json(found):
        return "equal"
    if expected.text != found.text or not _same_metadata(expected.metadata, found.metadata):
        return "different"
    if expected.embedding == found.embedding:
        return "rounded"
    return "rounded" if distance == "cosine" and _same_embedding(expected.embedding, found.embedding) else "different"


def _same_metadata(expected: StoredMetadata, found: StoredMetadata) -> bool:
    return expected.keys() == found.keys() and all(_same_value(value, found[key]) for key, value in expected.items())


def _same_value(expected: Scalar | list[Scalar], found: Scalar | list[Scalar]) -> bool:
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(_same_value, expected, found))
    if isinstance(expected, float) and isinstance(found, float):
        return math.isclose(expected, found, rel_tol=FLOAT_TOLERANCE)
    return type(expected) is type(found) and expected == found


def _same_embedding(expected: bytes, found: bytes) -> bool:
    if len(expected) != len(found):
        return False
    one, other = (np.frombuffer(embedding, dtype="<f4").astype(np.float64) for embedding in (expected, found))
    # Divided by the norm, the smallest numbers lose digits.
    return bool(np.allclose(one, other, rtol=COSINE_TOLERANCE, atol=_SMALLEST * float(np.linalg.norm(one))))
