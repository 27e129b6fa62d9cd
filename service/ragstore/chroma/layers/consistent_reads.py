"""`ConsistentReadBackend`: what is read of a document is of one write.

Chroma's server keeps embeddings apart from texts and metadata, and reads the one after the other. A document that is
written in between comes with parts of two writes: beside upserts of the same id, 146 of 4,000 gets had the text of one
with the embedding of another, and 133 of 2,000 queries told the text of one with the distance of another (measured with
1.5.9). So a read that found an id that was written meanwhile is made again; after some attempts, once more while
writes wait.

Writes of other replicas are not seen here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TypeVar

from ragstore.chroma.backend import Backend, RecordBatch, Records
from ragstore.chroma.layers.intercepting import Asked, InterceptingBackend
from ragstore.kit.weak_registry import WeakRegistry

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
        written = [self.writing] if self.writing else []
        self.reads.append(written)
        try:
            yield written
        finally:
            # By identity: two reads may have seen the same writes.
            self.reads = [other for other in self.reads if other is not written]


class ConsistentReadBackend(InterceptingBackend):
    """A backend that gives each document as one write left it; see `Backend` for what each method does.

    Args:
        inner: the backend that is wrapped.
    """

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self._traffic = WeakRegistry(_Traffic)

    async def _through(
        self, asked: Asked, call: Callable[[], Awaitable[T]], *, repeatable: bool = True, two_step_read: bool = False
    ) -> T:
        """Make a call; one that reads in two steps until nothing of what was found was written meanwhile."""
        if not two_step_read:
            return await call()
        traffic = self._traffic.get(asked.collection)
        for _ in range(ATTEMPTS):
            with traffic.read() as written:
                answer = await call()
            if all(ids.isdisjoint(_found_in(answer)) for ids in written):
                return answer
        async with traffic.turn:
            return await call()

    async def add(self, collection_id: str, records: RecordBatch, marks: list[str]) -> set[str]:
        """Write those records whose ids are free."""
        async with self._traffic.get(collection_id).write(records.ids):
            return await super().add(collection_id, records, marks)

    async def upsert(self, collection_id: str, records: RecordBatch) -> None:
        """Write records in one transaction."""
        async with self._traffic.get(collection_id).write(records.ids):
            await super().upsert(collection_id, records)


def _found_in(answer: object) -> Iterator[str]:
    """The ids of what a get, or a query of several vectors, has found."""
    for records in answer if isinstance(answer, list) else (answer,):
        if isinstance(records, Records):
            yield from records.ids
