"""`ScopedStore`: a store as seen by a caller that may see, or change, some collections only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from ragstore.errors import CollectionNotFound, CollectionReserved
from ragstore.kit import context
from ragstore.kit.errors import Forbidden
from ragstore.model.collections import DEFAULT_HNSW, Collection, Distance, HnswParameters, StoreStatus
from ragstore.model.metadata import CollectionMetadata
from ragstore.store.layer import StoreLayer, StoreOperation
from ragstore.store.name_scope import NameScope
from ragstore.store.protocol import Store

T = TypeVar("T")

WRITES: Final[frozenset[StoreOperation]] = frozenset(
    {
        "create_collection",
        "update_metadata",
        "delete_collection",
        "start_rebuild",
        "write",
        "update_documents",
        "delete",
    }
)
"""The operations that change a collection."""


class ScopedStore(StoreLayer):
    """A store in which a collection that the scope hides does not exist, and one that it protects is read-only.

    Chroma is not called for such a collection, so that the response time does not depend on whether it exists.

    Args:
        inner: the store with all collections.
        scope: the names that the caller may see, and may change.
    """

    def __init__(self, inner: Store, scope: NameScope) -> None:
        super().__init__(inner)
        self._scope = scope

    async def _intercept(self, operation: StoreOperation, name: str | None, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call on a collection that exists for the caller.

        Raises:
            CollectionNotFound: the scope hides the name.
            CollectionReserved: the call changes a collection that the caller may only read.
        """
        if name is not None and not self._scope.is_visible(name):
            context.record_denied(name)
            raise CollectionNotFound(name)
        if name is not None and operation in WRITES and not self._scope.is_writable(name):
            context.record_denied(name)
            raise CollectionReserved(name)
        return await call()

    async def status(self, *, with_count: bool = True) -> StoreStatus:
        """Check Chroma's health. The size of the data is left out if it includes collections that the scope hides."""
        if self._scope.sees_everything:
            return await self._inner.status(with_count=with_count)
        status = await self._inner.status(with_count=False)
        count = await self.count_collections() if with_count else None
        return StoreStatus(status.kind, status.chroma_version, count)

    async def create_collection(
        self, name: str, metadata: CollectionMetadata, distance: Distance, hnsw: HnswParameters = DEFAULT_HNSW
    ) -> Collection:
        """Create a collection.

        Raises:
            Forbidden: the scope hides the name, whether or not the collection exists.
            CollectionReserved: the caller may only read collections of this name.
        """
        if not self._scope.is_visible(name):
            context.record_denied(name)
            raise Forbidden("The key may not create a collection of this name")
        return await super().create_collection(name, metadata, distance, hnsw)

    async def list_collections(self, limit: int | None, offset: int) -> list[Collection]:
        """List collections by name."""
        if self._scope.sees_everything:
            return await self._inner.list_collections(limit, offset)
        everything = await self._inner.list_collections(None, 0)
        visible = [collection for collection in everything if self._scope.is_visible(collection.name)]
        return visible[offset:] if limit is None else visible[offset : offset + limit]

    async def count_collections(self) -> int:
        """The number of collections."""
        if self._scope.sees_everything:
            return await self._inner.count_collections()
        return len(await self.list_collections(None, 0))
