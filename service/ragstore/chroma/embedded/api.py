"""The part of chromadb's `ServerAPI` that the embedded backend calls, and its opening.

chromadb types these methods for all its callers, sparse vectors and ints included; this is the narrow view. chromadb's
own `Collection` calls the same methods. Calling them directly saves a lookup and a second validation a call. Some are
private: chromadb is capped to a minor series, and a test notices when one of them changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypedDict, cast
from uuid import UUID

from ragstore.chroma.records import ChromaFilter, UpsertMetadata
from ragstore.filters.values import Scalar
from ragstore.model.metadata import CollectionMetadata, Metadata
from ragstore.model.vectors import Vector

if TYPE_CHECKING:
    from chromadb.api.client import Client


class Scope(TypedDict):
    """The tenant and database of a call."""

    tenant: str
    database: str


class ChromaCollection(Protocol):
    """A collection as chromadb returns it."""

    id: UUID
    name: str
    metadata: CollectionMetadata | None
    dimension: int | None
    configuration_json: dict[str, object]


class GetResult(TypedDict):
    """The result of a get. Columns that were not requested are None."""

    ids: list[str]
    documents: list[str | None] | None
    metadatas: list[Metadata | None] | None
    embeddings: list[list[float]] | None
    uris: list[str | None] | None


class QueryResult(TypedDict):
    """The result of a query of m vectors: m lists in each column."""

    ids: list[list[str]]
    documents: list[list[str | None]] | None
    metadatas: list[list[Metadata | None]] | None
    embeddings: list[list[list[float]]] | None
    distances: list[list[float]] | None


class ChromaApi(Protocol):
    """The methods that are called. chromadb's `ServerAPI` documents them."""

    def start(self) -> None: ...  # noqa: D102  # described in chromadb, as all below

    def stop(self) -> None: ...  # noqa: D102

    def get_version(self) -> str: ...  # noqa: D102

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
    ) -> Sequence[ChromaCollection]: ...

    def create_collection(  # noqa: D102
        self,
        name: str,
        *,
        configuration: Mapping[str, object],
        metadata: CollectionMetadata | None,
        tenant: str,
        database: str,
    ) -> ChromaCollection: ...

    def get_collection(self, name: str, *, tenant: str, database: str) -> ChromaCollection: ...  # noqa: D102

    def delete_collection(self, name: str, *, tenant: str, database: str) -> None: ...  # noqa: D102

    def _modify(
        self,
        id: UUID,
        *,
        new_name: str | None = None,
        new_metadata: dict[str, Scalar | None] | None = None,
        tenant: str,
        database: str,
    ) -> None: ...

    def _upsert(
        self,
        collection_id: UUID,
        *,
        ids: list[str],
        embeddings: list[Vector],
        metadatas: list[UpsertMetadata],
        documents: list[str],
        uris: list[str] | None,
        tenant: str,
        database: str,
    ) -> bool: ...

    def _update(
        self, collection_id: UUID, *, ids: list[str], metadatas: list[UpsertMetadata], tenant: str, database: str
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
        ids: list[str] | None,
        where: ChromaFilter,
        where_document: ChromaFilter,
        include: list[str],
        tenant: str,
        database: str,
    ) -> QueryResult: ...


def open_api(path: str) -> ChromaApi:
    """Open a folder of Chroma's data. Loads chromadb.

    Args:
        path: the folder.

    Returns:
        The API that chromadb's own client uses.
    """
    import chromadb
    from chromadb.config import Settings

    client = chromadb.PersistentClient(path=path, settings=Settings(anonymized_telemetry=False))
    return cast("ChromaApi", cast("Client", client)._server)
