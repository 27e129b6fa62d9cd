"""What Chroma's HTTP API answers."""

from __future__ import annotations

import msgspec

from ragstore.metadata import CollectionMetadata, Metadata


class Problem(msgspec.Struct):
    """An error as Chroma tells it."""

    error: str = "unknown"
    message: str = ""


class Preflight(msgspec.Struct):
    """What Chroma says of its limits."""

    max_batch_size: int
    supports_base64_encoding: bool = False


class Collection(msgspec.Struct):
    """A collection as Chroma tells it."""

    id: str
    name: str
    metadata: CollectionMetadata | None = None
    dimension: int | None = None
    configuration_json: dict[str, object] = {}


class Records(msgspec.Struct):
    """The answer to a get."""

    ids: list[str]
    documents: list[str | None] | None = None
    metadatas: list[Metadata | None] | None = None
    embeddings: list[list[float]] | None = None


class Marks(msgspec.Struct):
    """The answer to a get of uris."""

    ids: list[str]
    uris: list[str | None]


class Neighbours(msgspec.Struct):
    """The answer to a query of m vectors."""

    ids: list[list[str]]
    documents: list[list[str | None]] | None = None
    metadatas: list[list[Metadata | None]] | None = None
    embeddings: list[list[list[float]]] | None = None
    distances: list[list[float | None]] | None = None


class Nothing(msgspec.Struct):
    """An answer that says nothing more."""
