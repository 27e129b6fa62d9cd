"""`CollectionLimitStore`: a store with a maximum number of collections."""

from __future__ import annotations

import asyncio

from ragstore.errors import CollectionExists, CollectionNotFound, TooManyCollections
from ragstore.kit import context
from ragstore.model.collections import DEFAULT_HNSW, Collection, Distance, HnswParameters
from ragstore.model.metadata import CollectionMetadata
from ragstore.store.layer import StoreLayer
from ragstore.store.protocol import Store


class CollectionLimitStore(StoreLayer):
    """Rejects the creation of a collection beyond a maximum.

    Each replica counts before it creates, so that several replicas may exceed the maximum by a few.

    Args:
        inner: the store. Its count decides: that of a database, or of the collections that a key may see.
        max_collections: maximum number of collections.
    """

    def __init__(self, inner: Store, max_collections: int) -> None:
        super().__init__(inner)
        self._max_collections = max_collections
        self._creating = asyncio.Lock()

    async def create_collection(
        self, name: str, metadata: CollectionMetadata, distance: Distance, hnsw: HnswParameters = DEFAULT_HNSW
    ) -> Collection:
        """Create a collection.

        Raises:
            TooManyCollections: there are as many as there may be.
        """
        async with self._creating:
            if await self._inner.count_collections() >= self._max_collections:
                try:
                    await self._inner.get_collection(name)
                except CollectionNotFound:
                    context.record_denied(name)
                    raise TooManyCollections(self._max_collections) from None
                raise CollectionExists(name)
            return await self._inner.create_collection(name, metadata, distance, hnsw)
