"""A cache of retrievals."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import msgspec

from ragstore_client.context._single_flight import SingleFlight

T = TypeVar("T")

MAX_ENTRIES = 1024
"""Default maximum number of cached retrievals."""

MAX_BYTES = 64 * 1024 * 1024
"""Default maximum size of the cached retrievals. A context of 50,000 tokens takes about 200 kB."""


class CacheKey(msgspec.Struct, frozen=True):
    """Identifies a retrieval. Retrievals of different sessions always differ.

    Attributes:
        session_id: the session.
        query: the text that is searched for.
        options: everything else that the result depends on.
    """

    session_id: str | None
    question: str
    query: str
    options: Hashable

    @property
    def size_bytes(self) -> int:
        """Size of its texts in memory. A question may be as long as its caller likes."""
        query = 0 if self.query is self.question else sys.getsizeof(self.query)
        return sys.getsizeof(self.question) + query + sys.getsizeof(self.session_id)


class _Entry(msgspec.Struct, Generic[T], frozen=True):
    value: T
    size_bytes: int
    expires: float


class ContextCache(Generic[T]):
    """A least-recently-used cache with a time to live, bounded in entries and in bytes. Threads may share it.

    Args:
        max_entries: maximum number of entries.
        max_bytes: maximum size of all entries; a larger entry is not stored.
        clock: the time in seconds.

    cachetools has a cache with a time to live, but with one bound only, and one time to live for all entries; here the
    settings of an entry decide. The rest of such a class would be as long as this one, with one more dependency.
    """

    def __init__(
        self,
        *,
        max_entries: int = MAX_ENTRIES,
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._clock = clock
        self._lock = threading.RLock()
        self._entries: OrderedDict[CacheKey, _Entry[T]] = OrderedDict()
        self._size_bytes = 0
        self._flights: weakref.WeakSet[SingleFlight[CacheKey, T]] = weakref.WeakSet()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        """Size of all entries, in bytes."""
        return self._size_bytes

    def get(self, key: CacheKey) -> T | None:
        """The value of an entry; None when there is none, or it has expired."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if self._clock() >= entry.expires:
                self._remove(key)
                return None
            self._entries.move_to_end(key)
            return entry.value

    def put(
        self,
        key: CacheKey,
        value: T,
        *,
        size_bytes: int,
        ttl_seconds: float,
        flights: SingleFlight[CacheKey, T] | None = None,
    ) -> None:
        """Store an entry, and remove others to keep the bounds: expired ones first, then the least recently used.

        Args:
            size_bytes: its size.
            ttl_seconds: how long it is stored; nothing is stored for 0.
            flights: the calls of which the running task is one; nothing is stored if the key was invalidated during it.
        """
        with self._lock:
            if flights is None or flights.holds(key):
                self._put(key, value, size_bytes, ttl_seconds)

    def single_flight(self) -> SingleFlight[CacheKey, T]:
        """Calls whose results are put into this cache. An invalidation also affects calls in flight."""
        flights: SingleFlight[CacheKey, T] = SingleFlight()
        with self._lock:
            self._flights.add(flights)
        return flights

    def _put(self, key: CacheKey, value: T, size_bytes: int, ttl_seconds: float) -> None:
        self._remove(key)
        if ttl_seconds <= 0 or size_bytes > self._max_bytes or self._max_entries < 1:
            return
        self._entries[key] = _Entry(value, size_bytes, self._clock() + ttl_seconds)
        self._size_bytes += size_bytes
        if self._full():
            now = self._clock()
            for expired in [known for known, entry in self._entries.items() if now >= entry.expires]:
                self._remove(expired)
        while self._full():
            self._remove(next(iter(self._entries)))

    def invalidate(self, selects: Callable[[CacheKey], bool]) -> None:
        """Remove entries. The results of calls in flight (`single_flight`) are not stored.

        Args:
            selects: whether an entry with a key is removed.
        """
        with self._lock:
            for key in [key for key in self._entries if selects(key)]:
                self._remove(key)
            for flights in self._flights:
                flights.forget(selects)

    def _full(self) -> bool:
        return len(self._entries) > self._max_entries or self._size_bytes > self._max_bytes

    def _remove(self, key: CacheKey) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._size_bytes -= entry.size_bytes
