"""What is transferred: documents with their embeddings as bytes, the same on the wire and in files."""

from __future__ import annotations

import math
from typing import Final, Literal, TypeAlias

import msgspec
import numpy as np

from ragstore.model.collections import Distance
from ragstore.model.metadata import Metadata, MetadataValue
from ragstore.model.vectors import Matrix

COSINE_TOLERANCE: Final = 1e-6
"""Relative error up to which an embedding of a cosine collection counts as kept, if rounded. Chroma's is below 3e-7."""

FLOAT_TOLERANCE: Final = 1e-15
"""The same for metadata floats."""

Likeness: TypeAlias = Literal["equal", "rounded", "other"]

_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


class Document(msgspec.Struct, frozen=True):
    """A document.

    Attributes:
        id: its id.
        text: its text.
        metadata: its metadata.
        embedding: little-endian float32; JSON has it as base64, MessagePack as a binary.
    """

    id: str
    text: str
    metadata: Metadata
    embedding: bytes

    @property
    def size(self) -> int:
        """About as many bytes as it takes in memory and in a request."""
        return len(self.embedding) + 2 * len(self.text) + 64 * len(self.metadata) + len(self.id)


def encoded(value: object) -> bytes:
    """JSON of a struct. Equal structs give equal bytes: the keys of metadata are sorted."""
    return _ENCODER.encode(value)


def matrix_of(documents: list[Document]) -> Matrix:
    """The embeddings of documents.

    Args:
        documents: one or more, with embeddings of one dimension.

    Returns:
        Matrix of shape (n, dimension), float32.
    """
    rows = b"".join(document.embedding for document in documents)
    return np.frombuffer(rows, dtype="<f4").astype(np.float32, copy=False).reshape(len(documents), -1)


def likeness(wanted: Document, found: Document, distance: Distance) -> Likeness:
    """How what is stored of a document compares with it.

    Chroma rounds in two places: embeddings of cosine collections, and metadata floats with more than 15 digits.

    Args:
        wanted: a document.
        found: what is stored under its id.
        distance: of the collection.

    Returns:
        `equal` byte for byte, `rounded` where Chroma's rounding is all that differs, or `other`.
    """
    if encoded(wanted) == encoded(found):
        return "equal"
    if wanted.text != found.text or not _same_metadata(wanted.metadata, found.metadata):
        return "other"
    if wanted.embedding == found.embedding:
        return "rounded"
    return "rounded" if distance == "cosine" and _same_embedding(wanted.embedding, found.embedding) else "other"


def _same_metadata(wanted: Metadata, found: Metadata) -> bool:
    return wanted.keys() == found.keys() and all(_same_value(value, found[key]) for key, value in wanted.items())


def _same_value(wanted: MetadataValue, found: MetadataValue) -> bool:
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(_same_value, wanted, found))
    if isinstance(wanted, float) and isinstance(found, float):
        return math.isclose(wanted, found, rel_tol=FLOAT_TOLERANCE)
    return type(wanted) is type(found) and wanted == found


def _same_embedding(wanted: bytes, found: bytes) -> bool:
    if len(wanted) != len(found):
        return False
    one, other = (np.frombuffer(embedding, dtype="<f4") for embedding in (wanted, found))
    return bool(np.allclose(one, other, rtol=COSINE_TOLERANCE, atol=0))
