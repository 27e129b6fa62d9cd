"""`CollectionCache`: recent lookups of collections, so that a call need not look its collection up by name."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from ragstore.chroma.errors import StaleCollectionId
from ragstore.errors import CollectionNotFound, DimensionMismatch
from ragstore.model.collections import Collection

T = TypeVar("T")

LOOKUP_SECONDS: Final = 1.0
"""How long a collection's metadata may be out of date when another replica changes it. A cached id is never wrong for
long: Chroma rejects the id of a collection that is gone, and the lookup is repeated."""

MAX_LOOKUPS: Final = 10_000
"""Cached lookups. Beyond that the oldest is dropped."""


class CollectionCache:
    """A cache of collections by name.

    Args:
        look_up: looks a collection up in Chroma; raises CollectionNotFound when it does not exist.
    """

    def __init__(self, look_up: Callable[[str], Awaitable[Collection]]) -> None:
        self._look_up = look_up
        self._entries: dict[str, tuple[float, Collection]] = {}

    def put(self, collection: Collection) -> Collection:
        """Cache a collection.

        Args:
            collection: the collection as it is now.

        Returns:
            The same.
        """
        if len(self._entries) >= MAX_LOOKUPS:
            self._entries.pop(next(iter(self._entries)))
        self._entries[collection.name] = (time.monotonic() + LOOKUP_SECONDS, collection)
        return collection

    def discard(self, name: str) -> None:
        """Drop a collection from the cache."""
        self._entries.pop(name, None)

    async def refresh(self, name: str) -> Collection:
        """Look a collection up in Chroma and cache it.

        Raises:
            CollectionNotFound: it does not exist.
        """
        self.discard(name)
        return self.put(await self._look_up(name))

    async def with_collection(self, name: str, work: Callable[[Collection], Awaitable[T]]) -> T:
        """Do work on a collection. When the cached lookup proves stale, refresh it and do the work again.

        Args:
            name: the collection's name.
            work: the work, which raises StaleCollectionId or DimensionMismatch before it changes anything.

        Returns:
            The result of the work.

        Raises:
            CollectionNotFound: no collection has this name.
        """
        known = await self._cached(name)
        try:
            return await work(known)
        except StaleCollectionId:
            fresh = await self.refresh(name)
        except DimensionMismatch:
            fresh = await self.refresh(name)
            if fresh.id == known.id and fresh.dimension == known.dimension:
                raise
        try:
            return await work(fresh)
        except StaleCollectionId:
            raise CollectionNotFound(name) from None

    async def _cached(self, name: str) -> Collection:
        """A collection from the cache, or looked up. One without a dimension may have one by now."""
        expires, collection = self._entries.get(name, (0.0, None))
        if collection is not None and collection.dimension is not None and time.monotonic() < expires:
            return collection
        return await self.refresh(name)
