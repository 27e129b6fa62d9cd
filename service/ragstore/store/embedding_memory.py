"""`EmbeddingMemory`: a store that remembers the embeddings of small collections, and adds what Chroma's index has lost.

Chroma's HNSW graph loses documents beside many equal embeddings, and after replacements and deletions (1.5.9): in
collections of 120 documents, where up to 200 copies of one embedding are written and deleted several times, no query
finds an eighth of the documents. The results of a query of a small collection are therefore compared with all its
embeddings. If the index lacks a nearer document, the results are read again, together with it.

With 300 embeddings of 384, reading all of them takes four times as long as a query of Chroma's index, and ten times
over a Chroma server. So they are kept, and after a change only embeddings of new and written documents are read. The
memory only names candidates, whose distances are computed from what Chroma returns. So the results are never worse than
the index's results, also if another client of a Chroma server has changed the collection.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import Counter

from ragstore.kit.deferred_metrics import record
from ragstore.kit.errors import ServiceError
from ragstore.kit.weak_registry import WeakRegistry
from ragstore.model.collections import Collection
from ragstore.model.documents import EVERYTHING, Selection, StoredEmbeddings, Write
from ragstore.model.queries import CollectionMatches, Matches, Query
from ragstore.store.embedding_table import EmbeddingTable, joined
from ragstore.store.layer import StoreLayer
from ragstore.store.protocol import Store

MAX_COLLECTION_VALUES: Final = 256_000
"""Maximum numbers of the embeddings of a small collection: 666 embeddings of 384. Chroma returns them by one call."""

MAX_COLLECTION: Final = 2000
"""Maximum number of documents of a small collection, whatever their dimension."""

MAX_VALUES: Final = 8 * 1024**2
"""Maximum numbers that are remembered, of all collections. They take 32 MiB."""

MAX_COLLECTIONS: Final = 10_000
"""Maximum number of collections of which something is remembered. The least recently used one is dropped."""

MAX_AGE_SECONDS: Final = 60.0
"""Time after which a collection is read as a whole again. Other clients of a Chroma server may have changed it, and a
change that failed or was cancelled may have been applied later."""

CORRECTED: Final = Counter(
    "ragstore_corrected_queries_total",
    "Query vectors for which Chroma's index lacked a nearer document of a small collection, which was added.",
)


@dataclass(slots=True)
class _Remembered:
    """The memory of one collection.

    Attributes:
        collection_id: its id; empty before the first read. A collection that is created again has another one.
        table: its embeddings; None if it is not small.
        total: number of its documents, without documents that were added since the last count.
        read_at: the time of the latest read of everything, in seconds.
        change: number of changes so far.
        read_change: this number at the begin of the latest read.
        written: ids that were written since then. They are not noted of a collection that is not small.
    """

    collection_id: str = ""
    table: EmbeddingTable | None = None
    total: int = 0
    read_at: float = 0.0
    change: int = 0
    read_change: int = -1
    written: set[str] = field(default_factory=set)


class EmbeddingMemory(StoreLayer):
    """A store that finds every document of small collections; see `Store` for the contract of each method.

    Args:
        inner: the store that is wrapped.
        clock: returns the time in seconds.
    """

    def __init__(self, inner: Store, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(inner)
        self._clock = clock
        self._collections: OrderedDict[str, _Remembered] = OrderedDict()
        self._locks = WeakRegistry(asyncio.Lock)

    @property
    def remembered(self) -> int:
        """Number of numbers that are remembered."""
        return sum(known.table.stored.rows.size for known in self._collections.values() if known.table is not None)

    def embeddings_of(self, name: str) -> StoredEmbeddings | None:
        """The embeddings of a collection that are remembered."""
        known = self._collections.get(name)
        return None if known is None or known.table is None else known.table.stored

    async def write(self, name: str, writes: Sequence[Write]) -> list[ServiceError | None]:
        """Write several batches, each with an outcome of its own."""
        ids = [key for write in writes for key in write.batch.ids]
        self._note_change(name, ids)
        try:
            return await super().write(name, writes)
        finally:
            self._note_change(name, ids)

    async def delete(self, name: str, selection: Selection) -> int:
        """Delete documents."""
        self._note_change(name)
        deleted: int | None = None
        try:
            deleted = await super().delete(name, selection)
        finally:
            self._note_change(name)
            known = self._collections.get(name)
            if known is not None:
                known.total = 0 if deleted is None else known.total - deleted
        return deleted

    async def query(self, name: str, queries: Sequence[Query]) -> CollectionMatches:
        """Find the nearest documents."""
        found = await super().query(name, queries)
        unfiltered = [index for index, query in enumerate(queries) if query.condition.is_none]
        if not unfiltered or found.collection.dimension is None:
            return found
        table = await self._table(found.collection, _limit(found.collection.dimension))
        if table is not None:
            for index in unfiltered:
                lacking = table.nearer(queries[index], found.matches[index])
                if lacking:
                    found.matches[index] = await self._with(name, queries[index], found.matches[index], lacking)
        return found

    async def _with(self, name: str, query: Query, matches: Matches, lacking: list[str]) -> Matches:
        """The results of a query together with documents that the index lacks, as Chroma returns them now."""
        candidates = [*matches.ids, *lacking]
        corrected = await self._inner.query_exact(name, [query], len(candidates), candidates)
        if corrected is None:
            return matches
        record(CORRECTED.inc)
        return corrected.matches[0]

    async def _table(self, collection: Collection, limit: int) -> EmbeddingTable | None:
        """The embeddings of a collection, with all changes that ended before this call; None if it is not small."""
        known = self._collections.setdefault(collection.name, _Remembered())
        self._collections.move_to_end(collection.name)
        change = known.change
        if not self._is_current(known, collection, limit, change):
            # Of several queries that wait, all use the first read that begins after they came.
            async with self._locks.get(collection.name):
                if not self._is_current(known, collection, limit, change):
                    await self._read(known, collection, limit)
                    self._drop_least_used()
        return known.table

    def _is_current(self, known: _Remembered, collection: Collection, limit: int, change: int) -> bool:
        """Whether a collection was read after a change, or is known not to be small."""
        if known.collection_id != collection.id:
            return False
        age = self._clock() - known.read_at
        if known.table is None:
            # Chroma counts 200,000 documents in 20 ms. A large collection is counted less often.
            return known.total > limit and age <= MAX_AGE_SECONDS * (known.total // limit)
        return known.read_change >= change and age <= MAX_AGE_SECONDS

    async def _read(self, known: _Remembered, collection: Collection, limit: int) -> None:
        """Read the ids of a collection, and the embeddings of documents that are new or were written."""
        name, began = collection.name, self._clock()
        table = known.table
        if known.collection_id != collection.id or began - known.read_at > MAX_AGE_SECONDS:
            table = None
        change, written = known.change, known.written
        # Until the end of this read, it is unknown; so what is written meanwhile is noted.
        known.collection_id, known.table, known.written = "", None, set()
        known.total = await self._inner.count(name)
        if known.total <= limit:
            ids = await self._inner.get_ids(name, EVERYTHING, limit=limit)
            unchanged = set(ids) & set(table.stored.ids) - written if table is not None else set()
            read = await self._inner.get_embeddings(name, [key for key in ids if key not in unchanged])
            stored = read if table is None else joined(table.of(unchanged), read)
            known.table = EmbeddingTable(stored, collection.distance)
        if table is None:
            known.read_at = began
        known.collection_id, known.read_change = collection.id, change

    def _note_change(self, name: str, ids: Iterable[str] = ()) -> None:
        """Note a change of a collection, before and after it, since a read beside it sees either state.

        Args:
            ids: ids of the documents that are written.
        """
        known = self._collections.get(name)
        if known is not None:
            known.change += 1
            if known.table is not None or not known.collection_id:
                known.written.update(ids)

    def _drop_least_used(self) -> None:
        while self.remembered > MAX_VALUES or len(self._collections) > MAX_COLLECTIONS:
            self._collections.popitem(last=False)


def _limit(dimension: int) -> int:
    """Maximum number of documents of a small collection, at least 1."""
    return max(1, min(MAX_COLLECTION, MAX_COLLECTION_VALUES // dimension))
