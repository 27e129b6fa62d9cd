"""`in-memory`: collections in the memory of one process. They are empty after a restart."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ragstore.filters import where as language
from ragstore_client import Where
from ragstore_gateway.engines import filters
from ragstore_gateway.engines.engine_collection import MAX_PASSAGES, MetadataValue, Passage, Record, Vector
from ragstore_gateway.engines.ranking import ranked, relevance
from ragstore_gateway.engines.vectors import unit_matrix, unit_vector
from ragstore_gateway.errors import CollectionMissing, DimensionMismatch


class InMemoryCollection:
    """Records of one dimension. The vectors are rows of a matrix that grows by doubling.

    Attributes:
        records: the records, by row.
        lock: held by what reads or changes the rows.
    """

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.lock = threading.Lock()
        self.records: list[Record] = []
        self._rows: dict[str, int] = {}
        self._matrix: NDArray[np.float32] = np.zeros((16, dimension), dtype=np.float32)

    @property
    def vectors(self) -> NDArray[np.float32]:
        """The vectors, one for each record."""
        return self._matrix[: len(self.records)]

    def put(self, records: Sequence[Record], vectors: NDArray[np.float32]) -> None:
        """Store records."""
        for record, vector in zip(records, vectors, strict=True):
            row = self._rows.setdefault(record.id, len(self.records))
            if row == len(self.records):
                self.records.append(record)
                if row == len(self._matrix):
                    self._matrix = np.concatenate([self._matrix, np.zeros_like(self._matrix)])
            self.records[row] = record
            self._matrix[row] = vector

    def rows(self, where: language.Where | None) -> list[int]:
        """The rows that a filter selects.

        Args:
            where: the filter; None selects everything.
        """
        return [row for row, record in enumerate(self.records) if language.matches(where, record.metadata)]

    def rows_of(self, ids: Sequence[str]) -> list[int]:
        """The rows of records.

        Args:
            ids: their ids. An id without a record is skipped.
        """
        return [self._rows[id] for id in dict.fromkeys(ids) if id in self._rows]

    def remove(self, rows: Sequence[int]) -> None:
        """Remove rows.

        Args:
            rows: their numbers.
        """
        kept = np.ones(len(self.records), dtype=bool)
        kept[list(rows)] = False
        self._matrix = np.concatenate([self.vectors[kept], np.zeros((16, self.dimension), dtype=np.float32)])
        self.records = [record for record, keep in zip(self.records, kept, strict=True) if keep]
        self._rows = {record.id: row for row, record in enumerate(self.records)}


class InMemoryStore:
    """A collection in memory. See `EngineCollection`.

    Threads read and change the records: a filter of 500 comparisons takes 2 ms for each record.

    Args:
        collections: the collections of the process, by name.
        collection: name of this one.
    """

    def __init__(self, collections: dict[str, InMemoryCollection], collection: str, dimension: int) -> None:
        self._collections = collections
        self._name = collection
        self._dimension = dimension

    async def create(self) -> None:
        """Create the collection."""
        found = self._collections.setdefault(self._name, InMemoryCollection(self._dimension))
        if found.dimension != self._dimension:
            raise DimensionMismatch(
                f"The collection has the dimension {found.dimension}, and the embedding model {self._dimension}"
            )

    async def write(self, records: Sequence[Record]) -> None:
        """Store records."""
        found = self._collections.get(self._name)
        if found is None:
            raise CollectionMissing("The collection does not exist in the engine (in-memory)")
        if records:
            # Metadata are copied: the caller may change its mapping.
            copies = [Record(each.id, each.text, each.vector, dict(each.metadata)) for each in records]
            await asyncio.to_thread(_put, found, copies)

    async def search(
        self, vector: Vector, limit: int, *, min_relevance: float = 0.0, where: Where | None = None
    ) -> list[Passage]:
        """Find the nearest records."""
        parsed = language.parse(where)
        query = unit_vector(vector, self._dimension)
        found = self._collections.get(self._name)
        if found is None:
            return []
        return ranked(await asyncio.to_thread(_passages, found, parsed, query), min(limit, MAX_PASSAGES), min_relevance)

    async def compare(self, vector: Vector, ids: Sequence[str]) -> list[Passage]:
        """Compare records with a vector."""
        query = unit_vector(vector, self._dimension)
        found = self._collections.get(self._name)
        return [] if found is None else await asyncio.to_thread(_compared, found, ids, query)

    async def delete(self, where: Where) -> int:
        """Delete the records that a filter selects."""
        filters.parse_deletion(where)
        parsed = language.parse(where)
        found = self._collections.get(self._name)
        return 0 if found is None else await asyncio.to_thread(_delete, found, parsed)

    async def delete_ids(self, ids: Sequence[str]) -> None:
        """Delete records by their ids."""
        found = self._collections.get(self._name)
        if found is not None:
            await asyncio.to_thread(_delete_ids, found, frozenset(ids))

    async def count(self, where: Where | None = None) -> int:
        """Count the records that a filter selects."""
        parsed = language.parse(where)
        found = self._collections.get(self._name)
        return 0 if found is None else await asyncio.to_thread(_count, found, parsed)

    async def drop(self) -> None:
        """Remove the collection."""
        self._collections.pop(self._name, None)


def _put(collection: InMemoryCollection, records: Sequence[Record]) -> None:
    with collection.lock:
        collection.put(records, unit_matrix(records, collection.dimension))


def _passages(
    collection: InMemoryCollection, where: language.Where | None, query: NDArray[np.float32]
) -> list[Passage]:
    with collection.lock:
        return _scored(collection, collection.rows(where), query)


def _compared(collection: InMemoryCollection, ids: Sequence[str], query: NDArray[np.float32]) -> list[Passage]:
    with collection.lock:
        rows = collection.rows_of(ids)
        passages = _scored(collection, rows, query)
        return [replace(each, vector=collection.vectors[row].copy()) for each, row in zip(passages, rows, strict=True)]


def _scored(collection: InMemoryCollection, rows: Sequence[int], query: NDArray[np.float32]) -> list[Passage]:
    if not rows:
        return []
    scores = collection.vectors[rows] @ query
    return [_passage(collection.records[row], float(score)) for row, score in zip(rows, scores, strict=True)]


def _delete(collection: InMemoryCollection, where: language.Where | None) -> int:
    with collection.lock:
        rows = collection.rows(where)
        if rows:
            collection.remove(rows)
        return len(rows)


def _delete_ids(collection: InMemoryCollection, ids: Set[str]) -> None:
    with collection.lock:
        rows = [row for row, record in enumerate(collection.records) if record.id in ids]
        if rows:
            collection.remove(rows)


def _count(collection: InMemoryCollection, where: language.Where | None) -> int:
    with collection.lock:
        return len(collection.rows(where))


def _passage(record: Record, cosine: float) -> Passage:
    metadata: Mapping[str, MetadataValue] = dict(record.metadata)
    return Passage(record.id, record.text, relevance(cosine), metadata)
