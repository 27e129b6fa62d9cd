"""One lock a collection, so that what reads before it writes is not overtaken."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class CollectionLocks:
    """Hands out the lock of a collection; a lock that nobody holds is forgotten."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, key: str) -> asyncio.Lock:
        """The lock of a collection.

        Args:
            key: what the collection is known by.

        Returns:
            The same lock for the same key, as long as someone holds it.
        """
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock
