"""The part of chromadb's `ServerAPI` that the embedded store calls, with the types it is called with.

chromadb types these methods for every caller it has, sparse vectors and ints included; this is the narrow view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypedDict
from uuid import UUID

from ragstore.chroma.backend import ChromaFilter, WrittenMetadata
from ragstore.model.metadata import CollectionMetadata, Metadata, Scalar
from ragstore.model.vectors import Vector


class Scope(TypedDict):
    """Where a call looks."""

    tenant: str
    database: str


class FoundCollection(Protocol):
    """A collection as chromadb gives it."""

    id: UUID
    name: str
    metadata: CollectionMetadata | None
    dimension: int | None
    configuration_json: dict[str, object]


class GetResult(TypedDict):
    """The answer to a get; columns that were not asked for are None."""

    ids: list[str]
    documents: list[str | None] | None
    metadatas: list[Metadata | None] | None
    embeddings: list[list[float]] | None
    uris: list[str | None] | None


class QueryResult(TypedDict):
    """The answer to a query of m vectors: m lists a column."""

    ids: list[list[str]]
    documents: list[list[str | None]] | None
    metadatas: list[list[Metadata | None]] | None
    embeddings: list[list[list[float]]] | None
    distances: list[list[float]] | None


class ChromaApi(Protocol):
    """What is called. The methods mean what chromadb's `ServerAPI` says of them."""

    def get_version(self) -> str: ...  # noqa: D102  # described in chromadb, as all below

    def get_max_batch_size(self) -> int: ...  # noqa: D102

    def get_tenant(self, name: str) -> object: ...  # noqa: D102

    def create_tenant(self, name: str) -> None: ...  # noqa: D102

    def get_database(self, name: str, tenant: str) -> object: ...  # noqa: D102

    def create_database(self, name: str, tenant: str) -> None: ...  # noqa: D102

    def count_collections(self, *, tenant: str, database: str) -> int: ...  # noqa: D102

    def list_collections(  # noqa: D102
        self,
        limit: int | None,
        offset: int | None,
        *,
        tenant: str,
        database: str,
    ) -> Sequence[FoundCollection]: ...

    def create_collection(  # noqa: D102
        self,
        name: str,
        *,
        configuration: Mapping[str, object],
        metadata: CollectionMetadata | None,
        tenant: str,
        database: str,
    ) -> FoundCollection: ...

    def get_collection(self, name: str, *, tenant: str, database: str) -> FoundCollection: ...  # noqa: D102

    def delete_collection(self, name: str, *, tenant: str, database: str) -> None: ...  # noqa: D102

    def _modify(self, id: UUID, *, new_metadata: dict[str, Scalar | None], tenant: str, database: str) -> None: ...

    def _upsert(
        self,
        collection_id: UUID,
        *,
        ids: list[str],
        embeddings: list[Vector],
        metadatas: list[WrittenMetadata],
        documents: list[str],
        uris: list[str] | None,
        tenant: str,
        database: str,
    ) -> bool: ...

    def _get(
        self,
        collection_id: UUID,
        *,
        ids: list[str] | None,
        where: ChromaFilter,
        where_document: ChromaFilter,
        limit: int | None,
        offset: int,
        include: list[str],
        tenant: str,
        database: str,
    ) -> GetResult: ...

    def _count(self, collection_id: UUID, *, tenant: str, database: str) -> int: ...

    def _delete(self, collection_id: UUID, *, ids: list[str], tenant: str, database: str) -> object: ...

    def _query(
        self,
        collection_id: UUID,
        *,
        query_embeddings: list[Vector],
        n_results: int,
        where: ChromaFilter,
        where_document: ChromaFilter,
        include: list[str],
        tenant: str,
        database: str,
    ) -> QueryResult: ...
