"""Records as Chroma stores and returns them, by columns, and the conversions that both backends share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal, TypeAlias

import numpy as np

from ragstore.filters.values import MetadataValue
from ragstore.model.large_bodies.packed_embeddings import Embeddings
from ragstore.model.large_bodies.packed_metadata import PackedValue, size_of_metadata
from ragstore.model.large_bodies.packed_text import Text
from ragstore.model.metadata import Metadata
from ragstore.model.vectors import Matrix

ChromaFilter: TypeAlias = dict[str, object] | None
"""A filter in Chroma's own language."""

UpsertMetadata: TypeAlias = Mapping[str, PackedValue | None] | None
"""Metadata for an upsert. Chroma merges: a null removes a key that the document had."""

Column: TypeAlias = Literal["documents", "metadatas", "embeddings"]
"""A column of records that a read may request, by Chroma's name."""

MAX_FLOAT32: Final = 3.4028234663852886e38
"""Replaces a distance that is too large for float32. Chroma returns null over HTTP, and inf or NaN embedded."""


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records to write, by columns.

    Attributes:
        ids: n distinct ids.
        embeddings: matrix of shape (n, dimension).
        texts: n texts.
        metadatas: n metadatas.
    """

    ids: list[str]
    embeddings: Embeddings
    texts: Sequence[Text]
    metadatas: Sequence[UpsertMetadata]


def size_of_rows(records: RecordBatch) -> Iterator[int]:
    """About the size of each record in bytes: its embedding, and the characters of its text and metadata."""
    embedding_bytes = np.dtype(np.float32).itemsize * records.embeddings.shape[1]
    for text, metadata in zip(records.texts, records.metadatas, strict=True):
        yield embedding_bytes + len(text) + size_of_metadata(metadata)


def is_larger(records: RecordBatch, max_bytes: int) -> bool:
    """Whether records are larger than a size."""
    return any(size > max_bytes for size in accumulate(size_of_rows(records)))


@dataclass(frozen=True, slots=True)
class Records:
    """The result of a get, by columns. A column that was not requested is None."""

    ids: list[str]
    texts: list[str] | None = None
    metadatas: list[Metadata] | None = None
    embeddings: Matrix | None = None


@dataclass(frozen=True, slots=True)
class QueryResult(Records):
    """The result of one query vector, nearest first."""

    distances: tuple[float, ...] = ()


def to_matrix(rows: Sequence[Sequence[float]] | None) -> Matrix:
    """Embeddings as Chroma returns them, as a matrix.

    Args:
        rows: n vectors of one dimension, or None for no vectors.

    Returns:
        Matrix of shape (n, dimension), float32.
    """
    return np.asarray(rows, dtype=np.float32) if rows else np.empty((0, 0), dtype=np.float32)


def to_texts(texts: Sequence[str | None] | None) -> list[str] | None:
    """A column of texts. A record that another client wrote without text has an empty one."""
    return None if texts is None else [text or "" for text in texts]


def to_metadatas(metadatas: Sequence[Mapping[str, MetadataValue] | None] | None) -> list[Metadata] | None:
    """A column of metadatas. Chroma returns None for an empty one."""
    return None if metadatas is None else [dict(metadata) if metadata else {} for metadata in metadatas]


def query_results(
    ids: Sequence[list[str]],
    texts: Sequence[Sequence[str | None]] | None,
    metadatas: Sequence[Sequence[Mapping[str, MetadataValue] | None]] | None,
    embeddings: Sequence[Sequence[Sequence[float]]] | None,
    distances: Sequence[Sequence[float | None]] | None,
) -> list[QueryResult]:
    """Split Chroma's response to a query of m vectors into m results.

    Args:
        ids: m lists of ids.
        texts: m lists of texts, or None when not requested.
        metadatas: m lists of metadatas, or None when not requested.
        embeddings: m lists of vectors, or None when not requested.
        distances: m lists of distances; null means too large for float32.

    Returns:
        m results.
    """
    return [
        QueryResult(
            ids=ids[index],
            texts=None if texts is None else to_texts(texts[index]),
            metadatas=None if metadatas is None else to_metadatas(metadatas[index]),
            embeddings=None if embeddings is None else to_matrix(embeddings[index]),
            distances=tuple(
                MAX_FLOAT32 if distance is None else distance for distance in (distances or [()] * len(ids))[index]
            ),
        )
        for index in range(len(ids))
    ]
