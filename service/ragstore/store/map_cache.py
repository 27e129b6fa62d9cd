"""`MapCacheStore`: a store that makes one map at a time, and caches maps until their collection changes.

A map costs up to 10 s of one core, and a reader of it comes back to it: the page requests it again when its area is
opened. A cached map belongs to the collection's id and generation, so a map of another collection of the name, or of
documents that were changed through this store, is never returned. `ScopedStore`, which wraps this store, decides which
keys may see the collection.

A Chroma server has other clients, whose changes begin no generation. There a map is used for `MAX_AGE_SHARED_SECONDS`.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from ragstore.kit.errors import Overloaded
from ragstore.model.maps import CollectionMap, MapParameters
from ragstore.store.generations import Generation, Generations, is_change
from ragstore.store.layer import StoreLayer, StoreOperation
from ragstore.store.protocol import Store

T = TypeVar("T")

MAX_AGE_SECONDS: Final = 600.0
"""How long a map is used."""

MAX_AGE_SHARED_SECONDS: Final = 30.0
"""How long a map is used whose collection other clients of a Chroma server may have changed, as lists of ids are."""

MAX_BYTES: Final = 24 * 1024**2
"""Maximum size of all cached maps. A map of 2,000 points takes about 2.5 MB, one of 10,000 points 13 MB."""


class _Key(NamedTuple):
    """The key of a map.

    Attributes:
        collection_id: id of the collection. It differs between Chroma's tenants and databases.
        condition: key of the condition.
        points: maximum number of points.
        color: the metadata field.
    """

    collection_id: str
    condition: bytes
    points: int
    color: str | None


@dataclass(frozen=True, slots=True)
class _Kept:
    """A map that is cached.

    Attributes:
        generation: the collection's generation when it was read.
        read_at: the time, in seconds.
        size: its size in bytes.
    """

    map: CollectionMap
    generation: Generation
    read_at: float
    size: int


class Maps:
    """The cached maps of all stores of a process, and the turn to make one."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._is_busy = False

    @property
    def size(self) -> int:
        """Bytes of all cached maps."""
        return sum(kept.size for kept in self._kept.values())

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Make a map in this block.

        Raises:
            Overloaded: another map is being made.
        """
        if self._is_busy:
            raise Overloaded("Another map is being made; a process makes one at a time")
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False

    def find(self, key: _Key, generation: Generation, read_after: float) -> CollectionMap | None:
        """A map of the collection's generation; None if none is cached, or if it was read before a time."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if kept.generation != generation or kept.read_at < read_after:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return kept.map

    def keep(self, key: _Key, made: CollectionMap, generation: Generation, read_at: float) -> None:
        """Cache a map, unless it is too large. The least recently used ones are dropped for it."""
        size = made.size + len(key.color or "")
        if size > MAX_BYTES:
            return
        self._kept[key] = _Kept(made, generation, read_at, size)
        for old in [old for old, kept in self._kept.items() if kept.read_at < read_at - MAX_AGE_SECONDS]:
            del self._kept[old]
        while self.size > MAX_BYTES:
            self._kept.popitem(last=False)


class MapCacheStore(StoreLayer):
    """A store that caches maps; see `Store` for the contract of each method.

    Args:
        inner: the store that is wrapped.
        maps: the maps, of several stores together.
        is_exclusive: whether no other client can change the collections.
        clock: returns the time in seconds.
    """

    def __init__(
        self, inner: Store, maps: Maps, *, is_exclusive: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(inner)
        self._maps = maps
        self._max_age = MAX_AGE_SECONDS if is_exclusive else MAX_AGE_SHARED_SECONDS
        self._clock = clock
        self._generations = Generations(clock)

    async def _intercept(self, operation: StoreOperation, name: str | None, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call, and note the change if it is one."""
        if name is None or not is_change(operation):
            return await call()
        return await self._generations.follow(operation, name, call)

    async def map_collection(self, name: str, parameters: MapParameters) -> CollectionMap:
        """Make a map of a collection, or take it from the cache."""
        collection = await self._inner.get_collection(name)
        generation, began = self._generations.of(name), self._clock()
        key = _Key(collection.id, parameters.condition.key, parameters.points, parameters.color)
        found = self._maps.find(key, generation, began - self._max_age)
        if found is not None:
            return found
        with self._maps.turn():
            made = await self._inner.map_collection(name, parameters)
        if self._generations.of(name) == generation and self._generations.is_certain(name):
            self._maps.keep(key, made, generation, began)
        return made
