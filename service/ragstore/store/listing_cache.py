"""`ListingCacheStore`: a store that caches which documents matched a filter, for the next page and its total.

Chroma cannot count the matches of a filter. Their ids are read, which takes 435 ms for 200,000 documents, again for
each page. Here the ids are kept with the generation of their collection, which each write, deletion or other change
through this store increments. A list that was read beside a change is not kept.

Without a filter, Chroma sorts the whole collection for a page by offset: of 200,000 documents in 19 ms for the first
page and 75 ms for the last one (1.5.9). A page by ids takes 4 ms. So the ids of later pages are read and kept in
blocks. New documents come after all others and an upsert moves none, so only deletions make a block out of date.

Embedded Chroma belongs to one process, so its generation misses nothing. A Chroma server has other clients. There the
first page is always read, and a later page uses what an earlier one has cached for `MAX_AGE_SECONDS` at most. The
whole list and its end are used only while the collection has as many documents. Chroma counts 200,000 in 20 ms. A part
within the list is used without the count: a reader of its documents notices missing documents, and reads again.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar

from ragstore.model.documents import EVERYTHING, Selection
from ragstore.store.generations import WRITES, Generation, Generations, is_change
from ragstore.store.layer import StoreLayer, StoreOperation
from ragstore.store.protocol import Store

T = TypeVar("T")

MAX_IDS: Final = 400_000
"""Maximum number of cached ids, of all lists. They take about 40 MiB."""

MAX_PART: Final = 100_000
"""Number of ids that are cached of a filter that more than `MAX_IDS` documents match, from the page on that was
read."""

BLOCK: Final = 10_000
"""Number of ids that are read by one call without a filter. They take Chroma 10 ms longer than 100."""

MAX_AGE_SECONDS: Final = 30.0
"""How long a list is used whose collection other clients of a Chroma server may have changed."""

_WHOLE: Final = -1

_Key: TypeAlias = tuple[str, bytes, int]
"""A collection's name, a condition's key, and the number of a block; `_WHOLE` for a list that is read as a whole."""


@dataclass(frozen=True, slots=True)
class _List:
    """Matches of a filter, or a part of them.

    Attributes:
        ids: their ids, in insertion order.
        first: index of the first of them among all matches.
        is_end: whether they reach the last match.
        is_block: whether they are a block of a list without a filter.
        generation: the collection's generation when they were read.
        total: number of all documents of the collection at that time; None if it was not counted.
        read_at: the time, in seconds.
    """

    ids: list[str]
    first: int
    is_end: bool
    is_block: bool
    generation: Generation
    total: int | None
    read_at: float

    @property
    def is_whole(self) -> bool:
        """Whether it has all matches."""
        return self.first == 0 and self.is_end

    def page(self, offset: int, limit: int) -> list[str]:
        """The ids of a page; fewer if the list ends within it."""
        return self.ids[offset - self.first : offset - self.first + limit]


class ListingCacheStore(StoreLayer):
    """A store that caches lists of ids; see `Store` for the contract of each method.

    Args:
        inner: the store that is wrapped.
        is_exclusive: whether no other client can change the collections.
        clock: returns the time in seconds.
    """

    def __init__(self, inner: Store, *, is_exclusive: bool, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(inner)
        self._is_exclusive = is_exclusive
        self._clock = clock
        self._generations = Generations(clock)
        self._lists: OrderedDict[_Key, _List] = OrderedDict()

    @property
    def cached_count(self) -> int:
        """Number of ids that are cached."""
        return sum(len(found.ids) for found in self._lists.values())

    async def _intercept(self, operation: StoreOperation, name: str | None, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call. After a change, lists that are out of date take no memory."""
        if name is None or not is_change(operation):
            return await call()
        try:
            return await self._generations.follow(operation, name, call)
        finally:
            is_write = operation in WRITES
            for key in [key for key, of in self._lists.items() if key[0] == name and not (is_write and of.is_block)]:
                del self._lists[key]

    async def count(self, name: str, selection: Selection = EVERYTHING) -> int:
        """The exact number of selected documents."""
        if selection.ids is not None or selection.condition.is_none:
            return await super().count(name, selection)
        return len(await self._whole(name, selection, is_first=True))

    async def get_ids(self, name: str, selection: Selection, *, limit: int | None = None, offset: int = 0) -> list[str]:
        """Read the ids of the selected documents, in insertion order, or take them from the cache."""
        if selection.ids is not None:
            return await super().get_ids(name, selection, limit=limit, offset=offset)
        if limit is None:
            ids = await self._whole(name, selection, is_first=False)
            return ids[offset:] if offset else ids
        if not offset:
            return await self._beginning(name, selection, limit)
        if not selection.is_everything:
            return await self._page((name, selection.condition.key, _WHOLE), selection, offset, limit)
        ids = []
        end = offset + limit
        while offset < end:
            number = offset // BLOCK
            wanted = min(end, (number + 1) * BLOCK) - offset
            found = await self._page((name, selection.condition.key, number), selection, offset, wanted)
            ids += found
            if len(found) < wanted:
                break
            offset += wanted
        return ids

    async def _whole(self, name: str, selection: Selection, *, is_first: bool) -> list[str]:
        """All ids of a list."""
        key = (name, selection.condition.key, _WHOLE)
        known = self._lists.get(key)
        if known is not None and known.is_whole and await self._is_current(name, known, is_first=is_first):
            self._lists.move_to_end(key)
            return known.ids
        return (await self._read(key, selection, 0, None)).ids

    async def _beginning(self, name: str, selection: Selection, limit: int) -> list[str]:
        """The first ids of a list."""
        known = self._lists.get((name, selection.condition.key, _WHOLE))
        if known is not None and known.is_whole and await self._is_current(name, known, is_first=True):
            return known.page(0, limit)
        return await self._inner.get_ids(name, selection, limit=limit)

    async def _page(self, key: _Key, selection: Selection, offset: int, limit: int) -> list[str]:
        """The ids of a page that is not the first one, and within one block."""
        known = self._lists.get(key)
        if known is not None and known.first <= offset:
            is_inside = offset + limit <= known.first + len(known.ids)
            is_known = is_inside or known.is_end
            if is_known and await self._is_current(key[0], known, is_inside=is_inside):
                self._lists.move_to_end(key)
                return known.page(offset, limit)
        return (await self._read(key, selection, offset, limit)).page(offset, limit)

    async def _read(self, key: _Key, selection: Selection, offset: int, wanted: int | None) -> _List:
        """Read a list, or the block of an offset, and cache it, or the part after the offset if it is too long.

        Args:
            offset: index of the first id that is needed.
            wanted: number of ids that are needed; None for all of them, however many there are.
        """
        name, _, number = key
        is_block = number != _WHOLE
        generation, began = self._generations.of(name), self._clock()
        # Counted first: of a document that is written before the ids are read, the later count is another one.
        total = None if is_block or self._is_exclusive else await self._inner.count(name)
        first, limit = (number * BLOCK, BLOCK) if is_block else self._range(key, offset, wanted)
        ids = await self._inner.get_ids(name, selection, limit=limit, offset=first)
        if wanted is not None and first + len(ids) < offset + wanted and len(ids) > MAX_IDS:
            first, limit = offset, max(MAX_PART, wanted)
            ids = await self._inner.get_ids(name, selection, limit=limit, offset=first)
        is_end = limit is None or len(ids) < limit
        found = _List(ids, first, is_end, is_block, generation, total, began)
        if self._is_unchanged(name, found, is_inside=True) and self._generations.is_certain(name):
            self._put(key, found, offset)
        return found

    def _range(self, key: _Key, offset: int, wanted: int | None) -> tuple[int, int | None]:
        """The index of the first id of a list to read, and the maximum number of ids, unless all are wanted.

        Chroma evaluates a filter again for each call. So a list is read from its beginning unless it is known to be too
        long to be cached.
        """
        if wanted is None:
            return 0, None
        known = self._lists.get(key)
        if known is None or known.is_whole:
            return 0, MAX_IDS + 1
        return offset, max(MAX_PART, wanted)

    async def _is_current(self, name: str, known: _List, *, is_first: bool = False, is_inside: bool = False) -> bool:
        if not self._is_unchanged(name, known, is_inside=is_inside):
            return False
        if self._is_exclusive:
            return True
        if is_first or self._clock() - known.read_at > MAX_AGE_SECONDS:
            return False
        return is_inside or (known.total is not None and known.total == await self._inner.count(name))

    def _is_unchanged(self, name: str, known: _List, *, is_inside: bool) -> bool:
        """Whether this store has not changed the list; of a block, what is inside of it."""
        generation = self._generations.of(name)
        if is_inside and known.is_block:
            return known.generation.removal == generation.removal
        return known.generation == generation

    def _put(self, key: _Key, found: _List, offset: int) -> None:
        self._lists.pop(key, None)
        if len(found.ids) > MAX_IDS:
            ids = found.page(offset, MAX_PART)
            is_end = found.is_end and offset + len(ids) == found.first + len(found.ids)
            found = replace(found, ids=ids, first=offset, is_end=is_end)
        self._lists[key] = found
        size = self.cached_count
        while size > MAX_IDS:
            _, dropped = self._lists.popitem(last=False)
            size -= len(dropped.ids)
