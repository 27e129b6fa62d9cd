"""`BatchingStore`: a store that asks Chroma fewer, larger questions when many callers ask at once.

Chroma's cost is for each call far more than for each record or query vector. So while one write to a collection is
under way, those that arrive wait, and leave together as one; queries with the same filters likewise. There is no
timer: a caller who is alone waits for nobody.

Writes to a collection, deletions among them, have one line and keep their order. Queries with the same filters have
one, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar
from weakref import WeakSet

from prometheus_client import Gauge

from ragstore.kit.errors import Overloaded, ServiceError
from ragstore.kit.metrics import rejections
from ragstore.model.documents import Selection, Write
from ragstore.model.queries import Found, Query
from ragstore.store.batching.queue import Line, PendingRequest, tell
from ragstore.store.batching.tracer import BatchTracer, NullBatchTracer
from ragstore.store.layer import StoreLayer
from ragstore.store.protocol import Store

T = TypeVar("T")

MERGED_QUERIES: Final = 64
"""Most query vectors in one call. Beyond that a call lasts longer than its callers would have waited."""

WORTH_A_WRITE: Final = 64
"""Documents that leave without waiting for more. Chroma needs about 20 ms for a write, and 1.5 ms for each document."""

WORTH_A_QUERY: Final = 8
"""Queries that leave without waiting for more. Chroma needs about 2 ms for a call, and 1 ms for each query in it."""

QUERIES_UNDER_WAY: Final = 2
"""Merged queries of one kind under way at once: Chroma works on one while the answers to the other are sent."""

_WRITES_REFUSED: Final = rejections("ragstore").labels("queued_writes")
_BYTES_REFUSED: Final = rejections("ragstore").labels("queued_bytes")

Change = Write | Selection
"""What waits in a collection's line of writes: documents to write, or a selection to delete."""

Outcome = ServiceError | int | None
"""What a change is told: an error, how many documents were deleted, or nothing."""


class BatchingStore(StoreLayer):
    """A store that merges what callers ask at the same time; see `Store` for what each method promises.

    Args:
        inner: the store that is wrapped.
        max_batch_size: most documents in one merged write.
        queued_writes: most writes that wait; a further one is refused.
        queued_bytes: most bytes of embeddings and texts that wait; what exceeds them is refused.
        follower: follows callers through the lines.
    """

    def __init__(
        self,
        inner: Store,
        max_batch_size: int,
        queued_writes: int,
        queued_bytes: int,
        follower: BatchTracer | None = None,
    ) -> None:
        super().__init__(inner)
        self._max_batch_size = max_batch_size
        self._queued_writes = queued_writes
        self._queued_bytes = queued_bytes
        self._follower = follower or NullBatchTracer()
        self._writes = 0
        self._bytes = 0
        self._change_lines: dict[str, Line[Change, Outcome]] = {}
        self._query_lines: dict[tuple[str, int, bool, bytes], Line[Query, Found]] = {}
        _stores.add(self)

    @property
    def queued(self) -> tuple[int, int, int]:
        """Writes not answered yet, their bytes, and queries that wait."""
        return self._writes, self._bytes, sum(map(len, self._query_lines.values()))

    @property
    def most_queued(self) -> tuple[int, int]:
        """Most writes and bytes that may be queued."""
        return self._queued_writes, self._queued_bytes

    async def close(self) -> None:
        """Finish what is under way and let go of Chroma."""
        _stores.discard(self)
        await asyncio.gather(*(line.finish() for line in self._change_lines.values()))
        await asyncio.gather(*(line.finish() for line in self._query_lines.values()))
        await super().close()

    async def write(self, name: str, writes: Sequence[Write]) -> list[ServiceError | None]:
        """Write several batches, each with an outcome of its own."""
        return await _all([self._written(name, write) for write in writes])

    async def delete(self, name: str, selection: Selection) -> int:
        """Delete documents. It keeps its place among the writes, so that none of the same id is overtaken."""
        deleted = await self._change(name, selection)
        return deleted if isinstance(deleted, int) else 0

    async def query(self, name: str, queries: Sequence[Query]) -> Found:
        """Find the nearest documents."""
        found = await _all([self._query(name, query) for query in queries])
        return Found(found[0].collection, [hits for part in found for hits in part.hits])

    async def _written(self, name: str, write: Write) -> ServiceError | None:
        try:
            outcome = await self._change(name, write)
        except ServiceError as error:
            return error
        return outcome if isinstance(outcome, ServiceError) else None

    async def _change(self, name: str, change: Change) -> Outcome:
        count, size = (len(change.batch), _size(change)) if isinstance(change, Write) else (0, 0)
        if self._writes >= self._queued_writes:
            _WRITES_REFUSED.inc()
            raise Overloaded("Too many writes are waiting")
        if self._writes and self._bytes + size > self._queued_bytes:
            _BYTES_REFUSED.inc()
            raise Overloaded("Too many writes are waiting")
        self._writes += 1
        self._bytes += size
        try:
            line = self._change_lines.get(name)
            if line is None:
                line = self._change_lines[name] = Line(
                    "write",
                    name,
                    self._follower,
                    lambda waiters: self._serve_changes(name, waiters),
                    self._max_batch_size,
                    1,
                    min(WORTH_A_WRITE, self._max_batch_size),
                    lambda: self._change_lines.pop(name, None),
                )
            # Adds and upserts are two writes to Chroma. Together, the first could be done and the second fail; tried
            # apart then, an add would find its own documents.
            alike = change.kind if isinstance(change, Write) else None
            return await line.join(PendingRequest(change, count, size, alike))
        finally:
            self._writes -= 1
            self._bytes -= size

    async def _serve_changes(self, name: str, waiters: list[PendingRequest[Change, Outcome]]) -> None:
        changes = [waiter.asked for waiter in waiters]
        if isinstance(changes[0], Selection):
            tell(waiters[0], await self._inner.delete(name, changes[0]))
            return
        writes = [change for change in changes if isinstance(change, Write)]
        for waiter, outcome in zip(waiters, await self._inner.write(name, writes), strict=True):
            tell(waiter, outcome)

    async def _query(self, name: str, query: Query) -> Found:
        # What queries must have in common to leave together.
        key = (name, len(query.embedding), query.with_embeddings, query.condition.key)
        line = self._query_lines.get(key)
        if line is None:
            line = self._query_lines[key] = Line(
                "query",
                name,
                self._follower,
                lambda waiters: self._serve_queries(name, waiters),
                MERGED_QUERIES,
                QUERIES_UNDER_WAY,
                WORTH_A_QUERY,
                lambda: self._query_lines.pop(key, None),
            )
        return await line.join(PendingRequest(query, 1, query.embedding.nbytes, "query"))

    async def _serve_queries(self, name: str, waiters: list[PendingRequest[Query, Found]]) -> None:
        found = await self._inner.query(name, [waiter.asked for waiter in waiters])
        for waiter, hits in zip(waiters, found.hits, strict=True):
            tell(waiter, Found(found.collection, [hits]))


_stores: Final[WeakSet[BatchingStore]] = WeakSet()


def _gauge(name: str, documentation: str, of: Callable[[BatchingStore], int]) -> Gauge:
    """A gauge that is read when Prometheus asks: several databases add up, and calls pay nothing."""
    gauge = Gauge(name, documentation)
    gauge.set_function(lambda: sum(map(of, _stores)))
    return gauge


QUEUED_WRITES: Final = _gauge("ragstore_queued_writes", "Writes not answered yet.", lambda store: store.queued[0])
QUEUED_BYTES: Final = _gauge(
    "ragstore_queued_bytes", "Bytes of embeddings and texts of writes not answered yet.", lambda store: store.queued[1]
)
QUEUED_QUERIES: Final = _gauge(
    "ragstore_queued_queries", "Queries that have not left for Chroma yet.", lambda store: store.queued[2]
)
MOST_WRITES: Final = _gauge(
    "ragstore_queued_writes_limit", "Most writes that may be queued.", lambda store: store.most_queued[0]
)
MOST_BYTES: Final = _gauge(
    "ragstore_queued_bytes_limit", "Most bytes that may be queued.", lambda store: store.most_queued[1]
)


async def _all(asked: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Wait for several. One alone gets no task, and so its place in the line at once."""
    return [await asked[0]] if len(asked) == 1 else await asyncio.gather(*asked)


def _size(write: Write) -> int:
    return int(write.batch.embeddings.nbytes) + sum(map(len, write.batch.texts))
