"""What is transferred: documents with their embeddings as bytes, the same on the wire and in files."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from ragstore.metadata import Metadata
from ragstore.store.base import Matrix

COSINE_TOLERANCE: Final = 1e-6
"""Relative error up to which an embedding of a cosine collection counts as kept, if rounded. Chroma's is below 3e-7."""

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


def same_but_rounded(wanted: Document, found: Document) -> bool:
    """Whether two documents differ by nothing but rounding of their embeddings.

    Args:
        wanted: a document.
        found: what is stored of it.

    Returns:
        True also for documents that do not differ at all.
    """
    if encoded((wanted.text, wanted.metadata)) != encoded((found.text, found.metadata)):
        return False
    if len(wanted.embedding) != len(found.embedding):
        return False
    one, other = (np.frombuffer(document.embedding, dtype="<f4") for document in (wanted, found))
    return bool(np.allclose(one, other, rtol=COSINE_TOLERANCE, atol=0))
