"""`ScopedStore`: a store as seen by a key that may see some collections only."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from fnmatch import translate
from typing import TypeVar

from ragstore.errors import CollectionNotFound
from ragstore.kit import context
from ragstore.kit.errors import Forbidden
from ragstore.model.collections import DEFAULT_HNSW, Collection, Distance, HnswParameters, StoreStatus
from ragstore.model.metadata import CollectionMetadata
from ragstore.store.layer import StoreLayer, StoreOperation
from ragstore.store.protocol import Store

T = TypeVar("T")


class ScopedStore(StoreLayer):
    """A store in which a collection whose name matches none of the patterns does not exist.

    Chroma is not called for such a collection, so that the response time does not depend on whether it exists.

    Args:
        inner: the store with all collections.
        patterns: patterns of collection names, in the syntax of file names, such as `repo_*`.
    """

    def __init__(self, inner: Store, patterns: Sequence[str]) -> None:
        super().__init__(inner)
        self._matches = re.compile("|".join(map(translate, patterns))).match

    async def _intercept(self, operation: StoreOperation, name: str | None, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call on a collection whose name matches.

        Raises:
            CollectionNotFound: the name does not match.
        """
        if name is not None and not self._matches(name):
            context.record_denied(name)
            raise CollectionNotFound(name)
        return await call()

    async def status(self, *, with_count: bool = True) -> StoreStatus:
        """Check Chroma's health. The size of the data is left out: it includes other keys' collections."""
        status = await self._inner.status(with_count=False)
        count = await self.count_collections() if with_count else None
        return StoreStatus(status.kind, status.chroma_version, count)

    async def create_collection(
        self, name: str, metadata: CollectionMetadata, distance: Distance, hnsw: HnswParameters = DEFAULT_HNSW
    ) -> Collection:
        """Create a collection.

        Raises:
            Forbidden: the name does not match, whether or not the collection exists.
        """
        if not self._matches(name):
            context.record_denied(name)
            raise Forbidden("The key may not create a collection of this name")
        return await self._inner.create_collection(name, metadata, distance, hnsw)

    async def list_collections(self, limit: int | None, offset: int) -> list[Collection]:
        """List collections by name."""
        visible = [
            collection for collection in await self._inner.list_collections(None, 0) if self._matches(collection.name)
        ]
        return visible[offset:] if limit is None else visible[offset : offset + limit]

    async def count_collections(self) -> int:
        """The number of collections."""
        return len(await self.list_collections(None, 0))
