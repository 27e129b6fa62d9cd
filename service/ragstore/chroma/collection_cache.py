"""`CollectionCache`: recent lookups of collections, so that a call need not look its collection up by name."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
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
        self._used: Counter[str] = Counter()
        self._unused: dict[str, asyncio.Event] = {}
        self._held: dict[str, asyncio.Event] = {}
        self._replaced: dict[str, str] = {}

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
        while name in self._held:
            await self._held[name].wait()
        self.discard(name)
        found = await self._look_up(name)
        while found.id in self._replaced:  # it was looked up before it was replaced
            found = await self._look_up(name)
        return self.put(found)

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
            with self.using([known.id]):
                return await work(known)
        except StaleCollectionId:
            fresh = await self.refresh(name)
        except DimensionMismatch:
            fresh = await self.refresh(name)
            if fresh.id == known.id and fresh.dimension == known.dimension:
                raise
        try:
            with self.using([fresh.id]):
                return await work(fresh)
        except StaleCollectionId:
            raise CollectionNotFound(name) from None

    # -- replacement of a collection by its copy ----------------------------------------------

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Have lookups of a name wait until the end of the block, at which nothing of it is cached."""
        held = self._held[name] = asyncio.Event()
        try:
            yield
        finally:
            del self._held[name]
            self.discard(name)
            held.set()

    def replace(self, collection_id: str, new: Collection) -> None:
        """Note that a collection was replaced by its copy, which has its name now. It is not looked up any more."""
        self._replaced[collection_id] = new.id

    def current_id(self, collection_id: str) -> str:
        """The id of a collection that may have been replaced since it was looked up."""
        while collection_id in self._replaced:
            collection_id = self._replaced[collection_id]
        return collection_id

    @contextmanager
    def using(self, collection_ids: Sequence[str]) -> Iterator[None]:
        """Note that work on collections is in progress."""
        self._used.update(collection_ids)
        try:
            yield
        finally:
            self._used.subtract(collection_ids)
            for each in collection_ids:
                if not self._used[each]:
                    del self._used[each]
                    if each in self._unused:
                        self._unused[each].set()

    async def wait_until_unused(self, collection_id: str) -> None:
        """Wait until no work on a collection that was replaced is in progress."""
        while self._used[collection_id]:
            unused = self._unused[collection_id] = asyncio.Event()
            await unused.wait()
        self._unused.pop(collection_id, None)

    async def _cached(self, name: str) -> Collection:
        """A collection from the cache, or looked up. One without a dimension may have one by now."""
        expires, collection = self._entries.get(name, (0.0, None))
        if collection is not None and collection.dimension is not None and time.monotonic() < expires:
            return collection
        return await self.refresh(name)
