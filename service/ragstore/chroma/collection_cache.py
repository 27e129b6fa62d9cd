"""What is known of collections, so that a name need not be looked up for every call."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from ragstore.chroma.backend import StaleCollectionId
from ragstore.errors import CollectionNotFound, DimensionMismatch
from ragstore.model.collections import Collection

T = TypeVar("T")

LOOKUP_SECONDS: Final = 1.0
"""How long a collection's metadata may be out of date when another replica changes it. Its id is never trusted blindly:
Chroma refuses one that is gone, and the lookup is made again."""

MAX_LOOKUPS: Final = 10_000
"""Lookups kept. Beyond that the oldest goes."""


class CollectionCache:
    """Collections as they were looked up a moment ago.

    Args:
        look_up: asks Chroma; raises CollectionNotFound when there is none of the name.
    """

    def __init__(self, look_up: Callable[[str], Awaitable[Collection]]) -> None:
        self._look_up = look_up
        self._known: dict[str, tuple[float, Collection]] = {}

    def remember(self, collection: Collection) -> Collection:
        """Keep what Chroma told of a collection.

        Args:
            collection: as it is now.

        Returns:
            The same.
        """
        if len(self._known) >= MAX_LOOKUPS:
            self._known.pop(next(iter(self._known)))
        self._known[collection.name] = (time.monotonic() + LOOKUP_SECONDS, collection)
        return collection

    def forget(self, name: str) -> None:
        """Look a collection up anew next time."""
        self._known.pop(name, None)

    async def fresh(self, name: str) -> Collection:
        """A collection, looked up now.

        Raises:
            CollectionNotFound: there is none.
        """
        self.forget(name)
        return self.remember(await self._look_up(name))

    async def with_collection(self, name: str, work: Callable[[Collection], Awaitable[T]]) -> T:
        """Do work on a collection. When what is known of it proves stale, look it up and do the work again.

        Args:
            name: the collection's name.
            work: what to do with it, which raises StaleCollectionId or DimensionMismatch before it changes anything.

        Returns:
            What the work returns.

        Raises:
            CollectionNotFound: there is none of the name.
        """
        known = await self._at_hand(name)
        try:
            return await work(known)
        except StaleCollectionId:
            fresh = await self.fresh(name)
        except DimensionMismatch:
            fresh = await self.fresh(name)
            if fresh.id == known.id and fresh.dimension == known.dimension:
                raise
        try:
            return await work(fresh)
        except StaleCollectionId:
            raise CollectionNotFound(name) from None

    async def _at_hand(self, name: str) -> Collection:
        """A collection as known, or looked up. One without a dimension may have got one by now."""
        expires, collection = self._known.get(name, (0.0, None))
        if collection is not None and collection.dimension is not None and time.monotonic() < expires:
            return collection
        return await self.fresh(name)
