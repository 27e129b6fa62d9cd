"""`UntornBackend`: what is read of a document is of one write.

Chroma's server keeps embeddings apart from texts and metadata, and reads the one after the other. A document that is
written in between comes with parts of two writes: beside upserts of the same id, 146 of 4,000 gets had the text of one
with the embedding of another, and 133 of 2,000 queries told the text of one with the distance of another (measured with
1.5.9). So a read that found an id that was written meanwhile is made again; after some attempts, once more while
writes wait.

Writes of other replicas are not seen here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from ragstore.store.backend import Backend, ChromaFilter, Neighbours, Records, WrittenRecords
from ragstore.store.base import Matrix
from ragstore.store.intercepting import Asked, InterceptingBackend

T = TypeVar("T")

ATTEMPTS: Final = 3
"""Most reads of documents that are being written, before writes wait for one."""


class _Traffic:
    """What is under way in one collection.

    Attributes:
        turn: held by the write that is under way, or by a read that writes wait for.
        writing: ids that are being written.
        reads: for each read under way, what was written since it began, with what was being written then.
    """

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.writing: frozenset[str] = frozenset()
        self.reads: list[list[frozenset[str]]] = []

    @asynccontextmanager
    async def write(self, ids: list[str]) -> AsyncIterator[None]:
        """The time of a write, told to the reads under way.

        Args:
            ids: what it writes.
        """
        async with self.turn:
            self.writing = frozenset(ids)
            for written in self.reads:
                written.append(self.writing)
            try:
                yield
            finally:
                self.writing = frozenset()

    @contextmanager
    def read(self) -> Iterator[list[frozenset[str]]]:
        """The time of a read; gives the ids of each write that falls into it, as far as it has begun."""
        written = [self.writing]
        self.reads.append(written)
        try:
            yield written
        finally:
            # By identity: two reads may have seen the same writes.
            self.reads = [other for other in self.reads if other is not written]


class UntornBackend(InterceptingBackend):
    """A backend that gives each document as one write left it; see `Backend` for what each method does.

    Args:
        inner: the backend that is wrapped.
    """

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self._traffic: WeakValueDictionary[str, _Traffic] = WeakValueDictionary()

    async def _through(
        self, asked: Asked, call: Callable[[], Awaitable[T]], *, repeatable: bool = True, racy: bool = False
    ) -> T:
        """Make a call that reads from one place, or writes no embedding."""
        return await call()

    async def add(self, collection_id: str, records: WrittenRecords, marks: list[str]) -> set[str]:
        """Write those records whose ids are free."""
        async with self._of(collection_id).write(records.ids):
            return await self._inner.add(collection_id, records, marks)

    async def upsert(self, collection_id: str, records: WrittenRecords) -> None:
        """Write records in one transaction."""
        async with self._of(collection_id).write(records.ids):
            await self._inner.upsert(collection_id, records)

    async def get(
        self,
        collection_id: str,
        *,
        ids: list[str] | None = None,
        where: ChromaFilter = None,
        where_document: ChromaFilter = None,
        limit: int | None = None,
        offset: int = 0,
        include: tuple[str, ...] = (),
    ) -> Records:
        """Read records in insertion order."""

        async def read() -> Records:
            return await self._inner.get(
                collection_id,
                ids=ids,
                where=where,
                where_document=where_document,
                limit=limit,
                offset=offset,
                include=include,
            )

        if "embeddings" not in include:
            return await read()
        return await self._whole(collection_id, read, lambda found: found.ids)

    async def query(
        self,
        collection_id: str,
        embeddings: Matrix,
        n_results: int,
        *,
        where: ChromaFilter = None,
        where_document: ChromaFilter = None,
        include: tuple[str, ...] = (),
    ) -> list[Neighbours]:
        """Find the nearest records for each row of a matrix."""
        return await self._whole(
            collection_id,
            lambda: self._inner.query(
                collection_id, embeddings, n_results, where=where, where_document=where_document, include=include
            ),
            lambda found: (document_id for neighbours in found for document_id in neighbours.ids),
        )

    async def _whole(
        self, collection_id: str, read: Callable[[], Awaitable[T]], ids_of: Callable[[T], Iterable[str]]
    ) -> T:
        """Read until nothing of what was found was written meanwhile.

        Args:
            collection_id: the collection.
            read: reads once.
            ids_of: ids of the documents that were found.

        Returns:
            What was found.
        """
        traffic = self._of(collection_id)
        for _ in range(ATTEMPTS):
            with traffic.read() as written:
                found = await read()
            if all(ids.isdisjoint(ids_of(found)) for ids in written):
                return found
        async with traffic.turn:
            return await read()

    def _of(self, collection_id: str) -> _Traffic:
        """The traffic of a collection; it is forgotten when there is none."""
        traffic = self._traffic.get(collection_id)
        if traffic is None:
            traffic = self._traffic[collection_id] = _Traffic()
        return traffic
