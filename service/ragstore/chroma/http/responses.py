"""The responses of a Chroma server, and whether they are complete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from ragstore.chroma.collection_config import distance_of, hnsw_of, legacy_distance
from ragstore.errors import ChromaFailed
from ragstore.model.collections import Collection
from ragstore.model.metadata import CollectionMetadata, Metadata

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""Errors of decoding a response that is no JSON, or not the JSON that was expected."""


class ErrorResponse(msgspec.Struct):
    """An error."""

    error: str = "unknown"
    message: str = ""


class PreflightResponse(msgspec.Struct):
    """Chroma's limits."""

    max_batch_size: int
    supports_base64_encoding: bool = False


class CollectionResponse(msgspec.Struct):
    """A collection."""

    id: str
    name: str
    configuration_json: dict[str, object]
    metadata: CollectionMetadata | None = None
    dimension: int | None = None

    def to_collection(self) -> Collection:
        """The collection in ragstore's terms."""
        metadata = self.metadata or {}
        legacy = legacy_distance(self.configuration_json, metadata)
        distance = legacy or distance_of(self.configuration_json)
        hnsw = hnsw_of(self.configuration_json)
        return Collection(self.id, self.name, metadata, self.dimension, distance, legacy is not None, hnsw)


class RecordsResponse(msgspec.Struct):
    """The response to a get."""

    ids: list[str]
    documents: list[str | None] | None = None
    metadatas: list[Metadata | None] | None = None
    embeddings: list[list[float]] | None = None


class WriteTokensResponse(msgspec.Struct):
    """The response to a get of uris, which hold the write tokens."""

    ids: list[str]
    uris: list[str | None]


class QueryResponse(msgspec.Struct):
    """The response to a query of m vectors."""

    ids: list[list[str]]
    documents: list[list[str | None]] | None = None
    metadatas: list[list[Metadata | None]] | None = None
    embeddings: list[list[list[float]]] | None = None
    distances: list[list[float | None]] | None = None


class EmptyResponse(msgspec.Struct):
    """A response without content."""


def require_columns(response: RecordsResponse | WriteTokensResponse, include: Sequence[str]) -> None:
    """Check that every requested column is there, and as long as the ids.

    A response that was damaged in transit may still be JSON, with a column missing.

    Args:
        response: Chroma's response.
        include: names of the columns that were requested.

    Raises:
        ChromaFailed: one is missing.
    """
    for name in include:
        column: list[object] | None = getattr(response, name)
        if column is None or len(column) != len(response.ids):
            raise _incomplete()


def require_query_columns(response: QueryResponse, queries: int, include: Sequence[str]) -> None:
    """Check that every query vector has a result, with every requested column.

    Args:
        response: Chroma's response.
        queries: number of query vectors.
        include: names of the columns that were requested.

    Raises:
        ChromaFailed: something is missing.
    """
    lengths = [len(ids) for ids in response.ids]
    for name in include:
        columns: list[list[object]] | None = getattr(response, name)
        if columns is None or [len(column) for column in columns] != lengths:
            raise _incomplete()
    if len(lengths) != queries:
        raise _incomplete()


def _incomplete() -> ChromaFailed:
    return ChromaFailed("Chroma returned an incomplete response")


def bare_ids(response: QueryResponse) -> set[str]:
    """Ids of the records that have neither text nor metadata.

    Another client may have written such records. Usually, though, they were deleted after Chroma's server had found
    them and before it read their columns (measured with 1.5.9: 11 of 4,578 queries beside deletions).

    Args:
        response: Chroma's response.

    Returns:
        Their ids; none when not both columns were requested.
    """
    if response.documents is None or response.metadatas is None:
        return set()
    return {
        document_id
        for ids, texts, metadatas in zip(response.ids, response.documents, response.metadatas, strict=True)
        for document_id, text, metadata in zip(ids, texts, metadatas, strict=True)
        if text is None and metadata is None
    }
