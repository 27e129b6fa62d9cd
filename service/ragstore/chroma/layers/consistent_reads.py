"""Consistent reads: a document is returned as one write left it.

Chroma's server stores embeddings apart from texts and metadata, and reads one after the other. A document that is
written in between is torn: it has parts of two writes. Beside upserts of the same id, 146 of 4,000 gets had the text
of one with the embedding of another, and 133 of 2,000 queries the text of one with the distance of another (measured
with 1.5.9). So reads are optimistic: a read that found an id that was written meanwhile is repeated, and after some
attempts it is repeated under the write lock.

Writes of other replicas are not seen here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from ragstore.chroma.layers.layered_backend import BackendLayer, NextCall
from ragstore.chroma.operations import AddRecords, GetRecords, Operation, QueryRecords, UpdateMetadatas, UpsertRecords
from ragstore.chroma.records import Records
from ragstore.kit.weak_registry import WeakRegistry

T = TypeVar("T")

MAX_OPTIMISTIC_READS: Final = 3
"""Reads of documents that are being written, before one takes the write lock."""


class _Traffic:
    """The calls in flight on one collection.

    Attributes:
        lock: held by the write in flight, or by a read that writes wait for.
        writing: ids of the write in flight.
        reads: for each read in flight, the ids of each write that overlaps it.
    """

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.writing: frozenset[str] = frozenset()
        self.reads: list[list[frozenset[str]]] = []

    def begin_write(self, ids: Iterable[str]) -> None:
        """Register a write with the reads in flight. The caller holds the lock."""
        self.writing = frozenset(ids)
        for overlapping in self.reads:
            overlapping.append(self.writing)

    def end_write(self) -> None:
        """Unregister the write."""
        self.writing = frozenset()

    def begin_read(self) -> list[frozenset[str]]:
        """Register a read.

        Returns:
            The ids of each write that overlaps it, which later writes add to.
        """
        overlapping = [self.writing] if self.writing else []
        self.reads.append(overlapping)
        return overlapping

    def end_read(self, overlapping: list[frozenset[str]]) -> None:
        """Unregister a read."""
        # By identity: two reads may overlap the same writes.
        self.reads = [other for other in self.reads if other is not overlapping]


class ConsistentReadLayer(BackendLayer):
    """Repeats reads that a write may have torn."""

    def __init__(self) -> None:
        self._traffic = WeakRegistry(_Traffic)

    @property
    def active_collections(self) -> int:
        """Number of collections with calls in flight."""
        return len(self._traffic)

    def concerns(self, kind: type[Operation[object]]) -> bool:
        """Concerns reads in two steps and the writes that tear them."""
        return issubclass(kind, (AddRecords, UpsertRecords, UpdateMetadatas, GetRecords, QueryRecords))

    async def call(self, next_call: NextCall[T], operation: Operation[T]) -> T:
        """Execute a write under the collection's lock, or a read until no write tore it."""
        written = _written_ids(operation)
        if written is not None:
            traffic = self._traffic.get(operation.collection)
            async with traffic.lock:
                traffic.begin_write(written)
                try:
                    return await next_call(operation)
                finally:
                    traffic.end_write()
        if not operation.is_two_step_read:
            return await next_call(operation)
        traffic = self._traffic.get(operation.collection)
        for _ in range(MAX_OPTIMISTIC_READS):
            overlapping = traffic.begin_read()
            try:
                result = await next_call(operation)
            finally:
                traffic.end_read(overlapping)
            if not overlapping or all(ids.isdisjoint(_ids_in(result)) for ids in overlapping):
                return result
        async with traffic.lock:
            return await next_call(operation)


def _written_ids(operation: Operation[object]) -> list[str] | None:
    """The ids that an operation writes; None where it is no write."""
    if isinstance(operation, UpdateMetadatas):
        return operation.ids
    return operation.records.ids if isinstance(operation, (AddRecords, UpsertRecords)) else None


def _ids_in(result: object) -> Iterator[str]:
    """The ids in the result of a get, or of a query of several vectors."""
    for records in result if isinstance(result, list) else (result,):
        if isinstance(records, Records):
            yield from records.ids
