"""`StoreLayer`: the base of stores that wrap another store. It passes every call on.

Every call goes through `_intercept`. A layer that concerns all calls (a deadline, the scope of a key) overrides that
one method, and so misses none, including methods that are added later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeAlias, TypeVar

from ragstore.filters.values import Scalar
from ragstore.kit.errors import ServiceError
from ragstore.model.collections import DEFAULT_HNSW, Collection, CollectionCount, Distance, HnswParameters, StoreStatus
from ragstore.model.documents import EVERYTHING, Documents, Selection, StoredEmbeddings, Write
from ragstore.model.maps import CollectionMap, MapParameters
from ragstore.model.metadata import CollectionMetadata
from ragstore.model.metadata_updates import MetadataUpdates
from ragstore.model.queries import CollectionMatches, Query
from ragstore.model.rebuilds import Rebuild
from ragstore.store.protocol import Store

T = TypeVar("T")

StoreOperation: TypeAlias = Literal[
    "status",
    "max_batch_size",
    "create_collection",
    "get_collection",
    "list_collections",
    "count_collections",
    "count_each",
    "update_metadata",
    "delete_collection",
    "start_rebuild",
    "get_rebuild",
    "write",
    "update_documents",
    "get",
    "get_ids",
    "get_embeddings",
    "get_metadata_values",
    "count",
    "delete",
    "query",
    "query_exact",
    "map_collection",
]
"""A method of `Store` that calls Chroma."""


class StoreLayer:
    """Passes every call on through `_intercept`; see `Store` for the contract of each method.

    Args:
        inner: the store that is wrapped.
    """

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    @property
    def inner(self) -> Store:
        """The store that is wrapped."""
        return self._inner

    async def _intercept(self, operation: StoreOperation, name: str | None, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call; a layer adds here what it does for all calls.

        Args:
            operation: the method.
            name: the collection's name; None for a method without one.
            call: makes the call to the wrapped store.

        Returns:
            The result of the call.
        """
        return await call()

    async def start(self) -> None:
        """Start, without waiting for Chroma."""
        await self._inner.start()

    async def close(self) -> None:
        """Close the connection to Chroma."""
        await self._inner.close()

    async def status(self, *, with_count: bool = True) -> StoreStatus:
        """Check Chroma's health, and count its collections if `with_count`."""
        return await self._intercept("status", None, lambda: self._inner.status(with_count=with_count))

    async def max_batch_size(self) -> int:
        """The maximum number of documents in one write."""
        return await self._intercept("max_batch_size", None, self._inner.max_batch_size)

    async def create_collection(
        self, name: str, metadata: CollectionMetadata, distance: Distance, hnsw: HnswParameters = DEFAULT_HNSW
    ) -> Collection:
        """Create a collection."""
        return await self._intercept(
            "create_collection", name, lambda: self._inner.create_collection(name, metadata, distance, hnsw)
        )

    async def get_collection(self, name: str) -> Collection:
        """Get a collection."""
        return await self._intercept("get_collection", name, lambda: self._inner.get_collection(name))

    async def list_collections(self, limit: int | None, offset: int) -> list[Collection]:
        """List collections by name."""
        return await self._intercept("list_collections", None, lambda: self._inner.list_collections(limit, offset))

    async def count_collections(self) -> int:
        """The number of collections."""
        return await self._intercept("count_collections", None, self._inner.count_collections)

    async def count_each(self, collections: Sequence[Collection], max_seconds: float) -> list[CollectionCount]:
        """Count the documents of collections, within a time."""
        return await self._intercept("count_each", None, lambda: self._inner.count_each(collections, max_seconds))

    async def update_metadata(self, name: str, metadata: dict[str, Scalar | None], *, merge: bool) -> Collection:
        """Replace a collection's metadata or merge into it."""
        return await self._intercept(
            "update_metadata", name, lambda: self._inner.update_metadata(name, metadata, merge=merge)
        )

    async def delete_collection(self, name: str) -> None:
        """Delete a collection and its documents."""
        await self._intercept("delete_collection", name, lambda: self._inner.delete_collection(name))

    async def start_rebuild(self, name: str, hnsw: HnswParameters, sample: int) -> Rebuild:
        """Begin to rebuild a collection's index."""
        return await self._intercept("start_rebuild", name, lambda: self._inner.start_rebuild(name, hnsw, sample))

    async def get_rebuild(self, name: str) -> Rebuild:
        """Get the state of the latest rebuild of a collection's index."""
        return await self._intercept("get_rebuild", name, lambda: self._inner.get_rebuild(name))

    async def write(self, name: str, writes: Sequence[Write]) -> list[ServiceError | None]:
        """Write several batches, each with an outcome of its own."""
        return await self._intercept("write", name, lambda: self._inner.write(name, writes))

    async def update_documents(self, name: str, updates: Sequence[MetadataUpdates]) -> list[ServiceError | None]:
        """Change metadata of documents several times, each with an outcome of its own."""
        return await self._intercept("update_documents", name, lambda: self._inner.update_documents(name, updates))

    async def get(
        self,
        name: str,
        selection: Selection,
        *,
        limit: int | None = None,
        offset: int = 0,
        with_embeddings: bool = False,
    ) -> Documents:
        """Read documents in insertion order."""
        return await self._intercept(
            "get",
            name,
            lambda: self._inner.get(name, selection, limit=limit, offset=offset, with_embeddings=with_embeddings),
        )

    async def get_ids(self, name: str, selection: Selection, *, limit: int | None = None, offset: int = 0) -> list[str]:
        """Read the ids of the selected documents, in insertion order."""
        return await self._intercept(
            "get_ids", name, lambda: self._inner.get_ids(name, selection, limit=limit, offset=offset)
        )

    async def get_embeddings(self, name: str, ids: list[str]) -> StoredEmbeddings:
        """Read the embeddings of documents by their ids. Ids without a document are skipped."""
        return await self._intercept("get_embeddings", name, lambda: self._inner.get_embeddings(name, ids))

    async def get_metadata_values(self, name: str, key: str) -> set[str]:
        """Get the distinct values of a metadata key, as text."""
        return await self._intercept("get_metadata_values", name, lambda: self._inner.get_metadata_values(name, key))

    async def count(self, name: str, selection: Selection = EVERYTHING) -> int:
        """The exact number of selected documents."""
        return await self._intercept("count", name, lambda: self._inner.count(name, selection))

    async def delete(self, name: str, selection: Selection) -> int:
        """Delete documents."""
        return await self._intercept("delete", name, lambda: self._inner.delete(name, selection))

    async def query(self, name: str, queries: Sequence[Query]) -> CollectionMatches:
        """Find the nearest documents."""
        return await self._intercept("query", name, lambda: self._inner.query(name, queries))

    async def query_exact(
        self, name: str, queries: Sequence[Query], max_matches: int, ids: list[str] | None = None
    ) -> CollectionMatches | None:
        """Find the nearest documents by comparison with every match, if few match."""
        return await self._intercept(
            "query_exact", name, lambda: self._inner.query_exact(name, queries, max_matches, ids)
        )

    async def map_collection(self, name: str, parameters: MapParameters) -> CollectionMap:
        """Make a map of a sample of the documents."""
        return await self._intercept("map_collection", name, lambda: self._inner.map_collection(name, parameters))
