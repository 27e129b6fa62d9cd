"""`ListMemory`: a store that remembers which documents matched a filter, for the next page and its total.

Chroma cannot count the matches of a filter. Their ids are read, which takes 435 ms for 200,000 documents, again for
each page. Here the ids are kept with the write generation of their collection: a number that each write, deletion or
other change through this store increments. A list that was read beside a change is not kept.

Embedded Chroma belongs to one process, so its generation misses nothing. A Chroma server has other clients. There the
first page is always read, and a later page uses what an earlier one has remembered for `MAX_AGE_SECONDS` at most, and
only while the collection has as many documents.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from ragstore.model.documents import EVERYTHING, Selection
from ragstore.store.layer import StoreLayer, StoreOperation
from ragstore.store.protocol import Store

T = TypeVar("T")

MAX_IDS: Final = 400_000
"""Maximum number of ids that are remembered, of all lists. They take about 40 MiB."""

MAX_AGE_SECONDS: Final = 30.0
"""How long a list is used whose collection other clients of a Chroma server may have changed."""

UNCERTAIN_SECONDS: Final = 300.0
"""How long nothing is remembered of a collection after a change that failed: it may still be applied."""

MAX_COLLECTIONS: Final = 10_000
"""Maximum number of collections whose generation is kept. Beyond it, everything is forgotten."""

READS: Final[frozenset[StoreOperation]] = frozenset(
    {
        "status",
        "get_collection",
        "list_collections",
        "count_collections",
        "max_batch_size",
        "get",
        "get_ids",
        "get_metadata_values",
        "count",
        "query",
        "query_exact",
    }
)
"""Operations that change nothing. All others begin a new generation."""


@dataclass(frozen=True, slots=True)
class _List:
    """The matches of a filter.

    Attributes:
        ids: their ids, in insertion order.
        generation: the collection's generation when they were read.
        total: number of all documents of the collection at that time.
        read_at: the time, in seconds.
    """

    ids: list[str]
    generation: int
    total: int
    read_at: float


class ListMemory(StoreLayer):
    """A store that remembers lists of ids; see `Store` for the contract of each method.

    Args:
        inner: the store that is wrapped.
        is_exclusive: whether no other client can change the collections.
        clock: returns the time in seconds.
    """

    def __init__(self, inner: Store, *, is_exclusive: bool, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(inner)
        self._is_exclusive = is_exclusive
        self._clock = clock
        self._latest = 0
        self._oldest = 0
        self._generations: dict[str, int] = {}
        self._uncertain: dict[str, float] = {}
        self._lists: OrderedDict[tuple[str, bytes], _List] = OrderedDict()

    @property
    def remembered(self) -> int:
        """Number of ids that are remembered."""
        return sum(len(found.ids) for found in self._lists.values())

    async def _intercept(self, operation: StoreOperation, name: str | None, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call. A change begins a new generation before and after it: reads beside it may see either state."""
        if operation in READS or name is None:
            return await call()
        self._begin_generation(name)
        try:
            return await call()
        except BaseException:
            self._uncertain[name] = self._clock() + UNCERTAIN_SECONDS
            raise
        finally:
            self._begin_generation(name)

    async def count(self, name: str, selection: Selection = EVERYTHING) -> int:
        """The exact number of selected documents."""
        if selection.ids is not None or selection.condition.is_none:
            return await super().count(name, selection)
        return len(await self._ids(name, selection, is_first=True))

    async def get_ids(self, name: str, selection: Selection) -> list[str]:
        """Read the ids of the selected documents, in insertion order, or recall them."""
        if selection.ids is not None:
            return await super().get_ids(name, selection)
        return await self._ids(name, selection, is_first=False)

    async def _ids(self, name: str, selection: Selection, *, is_first: bool) -> list[str]:
        key = (name, selection.condition.key)
        known = self._lists.get(key)
        if known is not None and await self._is_current(name, known, is_first=is_first):
            self._lists.move_to_end(key)
            return known.ids
        generation = self._generation(name)
        ids = await self._inner.get_ids(name, selection)
        total = 0 if self._is_exclusive else await self._inner.count(name)
        if generation == self._generation(name) and self._uncertain.get(name, 0.0) <= self._clock():
            self._remember(key, _List(ids, generation, total, self._clock()))
        return ids

    async def _is_current(self, name: str, known: _List, *, is_first: bool) -> bool:
        if known.generation != self._generation(name):
            return False
        if self._is_exclusive:
            return True
        if is_first or self._clock() - known.read_at > MAX_AGE_SECONDS:
            return False
        return known.total == await self._inner.count(name)

    def _remember(self, key: tuple[str, bytes], found: _List) -> None:
        self._lists.pop(key, None)
        if len(found.ids) > MAX_IDS:
            return
        self._lists[key] = found
        size = self.remembered
        while size > MAX_IDS:
            _, dropped = self._lists.popitem(last=False)
            size -= len(dropped.ids)

    def _generation(self, name: str) -> int:
        return self._generations.get(name, self._oldest)

    def _begin_generation(self, name: str) -> None:
        self._latest += 1
        if len(self._generations) >= MAX_COLLECTIONS:
            self._generations.clear()
            self._lists.clear()
            self._oldest = self._latest
        self._generations[name] = self._latest
        now = self._clock()
        self._uncertain = {other: until for other, until in self._uncertain.items() if until > now}
        for key in [key for key in self._lists if key[0] == name]:
            del self._lists[key]
