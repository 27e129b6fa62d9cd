"""`CollectionLimitStore`: a store with a maximum number of collections."""

from __future__ import annotations

import asyncio
from typing import Final

from ragstore.errors import CollectionExists, CollectionNotFound, TooManyCollections
from ragstore.kit import context
from ragstore.model.collections import DEFAULT_HNSW, Collection, Distance, HnswParameters
from ragstore.model.metadata import CollectionMetadata
from ragstore.store.layer import StoreLayer
from ragstore.store.protocol import Store

COUNTED_SHARE: Final = 10
"""Collections are counted again when a tenth of the remaining room is used, so that up to ten replicas exceed the
maximum by few."""


class CollectionLimitStore(StoreLayer):
    """Rejects the creation of a collection beyond a maximum.

    Each replica counts before it creates, so that several replicas may exceed the maximum by a few.

    Args:
        inner: the store. It counts the collections of a database, or the collections that a key may see.
        max_collections: maximum number of collections.
    """

    def __init__(self, inner: Store, max_collections: int) -> None:
        super().__init__(inner)
        self._max_collections = max_collections
        self._creating = asyncio.Lock()
        self._room = 0

    async def create_collection(
        self, name: str, metadata: CollectionMetadata, distance: Distance, hnsw: HnswParameters = DEFAULT_HNSW
    ) -> Collection:
        """Create a collection.

        Raises:
            TooManyCollections: the maximum is reached.
        """
        async with self._creating:
            if self._room <= 0:
                self._room = await self._count_room()
            if self._room <= 0:
                try:
                    await self._inner.get_collection(name)
                except CollectionNotFound:
                    context.record_denied(name)
                    raise TooManyCollections(self._max_collections) from None
                raise CollectionExists(name)
            created = await self._inner.create_collection(name, metadata, distance, hnsw)
            self._room -= 1
            return created

    async def _count_room(self) -> int:
        """The number of collections that may be created before they are counted again.

        Chroma 1.5.9 takes 0.2 s to count 2,000 collections, so they are not counted for each creation, but more often
        the fewer are left.
        """
        left = self._max_collections - await self._inner.count_collections()
        return max(min(left, 1), left // COUNTED_SHARE)
