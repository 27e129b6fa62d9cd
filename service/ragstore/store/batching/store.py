"""`BatchingStore`: a store that sends Chroma fewer, larger calls when many requests arrive concurrently.

Chroma's cost is per call far more than per record or query vector. While one write to a collection is in flight,
further writes to it wait, and are then sent as one batch; queries with the same filter likewise. There is no timer: a
lone request never waits.

All writes to a collection, deletes included, share one queue and keep their order. Queries that have the same
dimension, filter and columns share a queue, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakSet

from prometheus_client import Gauge

from ragstore.kit.errors import Overloaded, ServiceError
from ragstore.kit.metrics import rejections
from ragstore.model.documents import Selection, Write
from ragstore.model.metadata_updates import MetadataUpdates
from ragstore.model.queries import CollectionMatches, Query
from ragstore.store.batching.queue import BatchQueue, PendingRequest
from ragstore.store.batching.tracer import BatchTracer, NullBatchTracer
from ragstore.store.layer import StoreLayer
from ragstore.store.protocol import Store

T = TypeVar("T")

MAX_QUERY_BATCH: Final = 64
"""Maximum number of query vectors in one call. A larger call takes longer than its clients would have waited."""

MIN_WRITE_BATCH: Final = 64
"""Documents that are sent without waiting for more. Chroma takes about 20 ms for a write, and 1.5 ms for each
document."""

MIN_QUERY_BATCH: Final = 8
"""Queries that are sent without waiting for more. Chroma takes about 2 ms for a call, and 1 ms for each query in it."""

QUERY_CONCURRENCY: Final = 2
"""Batches of one query queue that are in flight concurrently: Chroma works on one while the response to the other is
sent."""

_WRITES_REJECTED: Final = rejections("ragstore").labels("queued_writes")
_BYTES_REJECTED: Final = rejections("ragstore").labels("queued_bytes")

Mutation = Write | MetadataUpdates | Selection
"""A request in a collection's queue of writes: documents to write, metadata to change, or a selection to delete."""

MutationResult = ServiceError | int | None
"""The response to a mutation: an error, the number of deleted documents, or None for a write that succeeded."""


class QueueLoad(NamedTuple):
    """The load of a store's queues.

    Attributes:
        writes: writes and deletes without a response yet.
        bytes: bytes of their embeddings and texts.
        queries: queries that wait for their batch.
    """

    writes: int
    bytes: int
    queries: int


class BatchingStore(StoreLayer):
    """A store that merges concurrent requests into batches; see `Store` for the contract of each method.

    Args:
        inner: the store that is wrapped.
        max_batch_size: maximum number of documents in one write to Chroma.
        max_queued_writes: maximum number of writes without a response; further ones are rejected.
        max_queued_bytes: maximum bytes of their embeddings and texts; what exceeds them is rejected.
        tracer: traces the batches.
    """

    def __init__(
        self,
        inner: Store,
        max_batch_size: int,
        max_queued_writes: int,
        max_queued_bytes: int,
        tracer: BatchTracer | None = None,
    ) -> None:
        super().__init__(inner)
        self.max_queued_writes = max_queued_writes
        self.max_queued_bytes = max_queued_bytes
        self._max_batch_size = max_batch_size
        self._tracer = tracer or NullBatchTracer()
        self._unfinished_writes = 0
        self._unfinished_bytes = 0
        self._write_queues: dict[str, BatchQueue[Mutation, MutationResult]] = {}
        self._query_queues: dict[tuple[str, int, bool, bytes], BatchQueue[Query, CollectionMatches]] = {}
        _stores.add(self)

    @property
    def load(self) -> QueueLoad:
        """The writes without a response, their bytes, and the queries that wait."""
        return QueueLoad(self._unfinished_writes, self._unfinished_bytes, sum(map(len, self._query_queues.values())))

    @property
    def queued(self) -> int:
        """Number of writes, deletes and queries that wait for their batch, without requests whose client left."""
        return sum(map(len, self._write_queues.values())) + sum(map(len, self._query_queues.values()))

    @property
    def idle(self) -> bool:
        """Whether nothing is queued or in flight, and nothing of earlier requests is kept."""
        return not (self._write_queues or self._query_queues or self._unfinished_writes or self._unfinished_bytes)

    async def close(self) -> None:
        """Wait for the requests in progress and close the connection to Chroma."""
        _stores.discard(self)
        await asyncio.gather(*(queue.drain() for queue in self._write_queues.values()))
        await asyncio.gather(*(queue.drain() for queue in self._query_queues.values()))
        await super().close()

    async def write(self, name: str, writes: Sequence[Write]) -> list[ServiceError | None]:
        """Write several batches, each with an outcome of its own."""
        return await _gather([self._write(name, write) for write in writes])

    async def update_documents(self, name: str, updates: Sequence[MetadataUpdates]) -> list[ServiceError | None]:
        """Change metadata of documents several times, each with an outcome of its own."""
        return await _gather([self._write(name, update) for update in updates])

    async def delete(self, name: str, selection: Selection) -> int:
        """Delete documents. Deletes and writes of a collection keep the order in which they arrived."""
        deleted = await self._mutate(name, selection)
        return deleted if isinstance(deleted, int) else 0

    async def query(self, name: str, queries: Sequence[Query]) -> CollectionMatches:
        """Find the nearest documents."""
        found = await _gather([self._query(name, query) for query in queries])
        return CollectionMatches(found[0].collection, [hits for part in found for hits in part.matches])

    async def _write(self, name: str, write: Write | MetadataUpdates) -> ServiceError | None:
        try:
            result = await self._mutate(name, write)
        except ServiceError as error:
            return error
        return result if isinstance(result, ServiceError) else None

    async def _mutate(self, name: str, mutation: Mutation) -> MutationResult:
        count, size_bytes, batch_key = _weight(mutation)
        if self._unfinished_writes >= self.max_queued_writes:
            _WRITES_REJECTED.inc()
            raise Overloaded("Too many writes are waiting")
        if self._unfinished_writes and self._unfinished_bytes + size_bytes > self.max_queued_bytes:
            _BYTES_REJECTED.inc()
            raise Overloaded("Too many writes are waiting")
        self._unfinished_writes += 1
        self._unfinished_bytes += size_bytes
        try:
            return await self._write_queue(name).submit(PendingRequest(mutation, count, size_bytes, batch_key))
        finally:
            self._unfinished_writes -= 1
            self._unfinished_bytes -= size_bytes

    def _write_queue(self, name: str) -> BatchQueue[Mutation, MutationResult]:
        """The queue of a collection's writes and deletes."""
        queue = self._write_queues.get(name)
        if queue is None:
            queue = self._write_queues[name] = BatchQueue(
                "write",
                name,
                self._tracer,
                send=lambda batch: self._send_mutations(name, batch),
                max_batch=self._max_batch_size,
                concurrency=1,
                min_batch=min(MIN_WRITE_BATCH, self._max_batch_size),
                on_empty=lambda: self._write_queues.pop(name, None),
            )
        return queue

    async def _send_mutations(self, name: str, batch: list[PendingRequest[Mutation, MutationResult]]) -> None:
        mutations = [pending.request for pending in batch]
        if isinstance(mutations[0], Selection):
            batch[0].resolve(await self._inner.delete(name, mutations[0]))
            return
        updates = [mutation for mutation in mutations if isinstance(mutation, MetadataUpdates)]
        if updates:
            outcomes = await self._inner.update_documents(name, updates)
        else:
            outcomes = await self._inner.write(name, [each for each in mutations if isinstance(each, Write)])
        for pending, outcome in zip(batch, outcomes, strict=True):
            pending.resolve(outcome)

    async def _query(self, name: str, query: Query) -> CollectionMatches:
        key = (name, len(query.embedding), query.with_embeddings, query.condition.key)
        queue = self._query_queues.get(key)
        if queue is None:
            queue = self._query_queues[key] = BatchQueue(
                "query",
                name,
                self._tracer,
                send=lambda batch: self._send_queries(name, batch),
                max_batch=MAX_QUERY_BATCH,
                concurrency=QUERY_CONCURRENCY,
                min_batch=MIN_QUERY_BATCH,
                on_empty=lambda: self._query_queues.pop(key, None),
            )
        return await queue.submit(PendingRequest(query, 1, query.embedding.nbytes, "query"))

    async def _send_queries(self, name: str, batch: list[PendingRequest[Query, CollectionMatches]]) -> None:
        found = await self._inner.query(name, [pending.request for pending in batch])
        for pending, hits in zip(batch, found.matches, strict=True):
            pending.resolve(CollectionMatches(found.collection, [hits]))


_stores: Final[WeakSet[BatchingStore]] = WeakSet()


def _gauge(name: str, documentation: str, read: Callable[[BatchingStore], int]) -> Gauge:
    """A gauge that is computed when metrics are scraped: the sum over all databases. Requests do no work for it."""
    gauge = Gauge(name, documentation)
    gauge.set_function(lambda: sum(map(read, _stores)))
    return gauge


QUEUED_WRITES: Final = _gauge(
    "ragstore_queued_writes", "Writes without a response yet.", lambda store: store.load.writes
)
QUEUED_BYTES: Final = _gauge(
    "ragstore_queued_bytes",
    "Bytes of embeddings and texts of writes without a response yet.",
    lambda store: store.load.bytes,
)
QUEUED_QUERIES: Final = _gauge(
    "ragstore_queued_queries", "Queries that wait for their batch.", lambda store: store.load.queries
)
MAX_WRITES: Final = _gauge(
    "ragstore_queued_writes_limit", "Maximum number of queued writes.", lambda store: store.max_queued_writes
)
MAX_BYTES: Final = _gauge(
    "ragstore_queued_bytes_limit", "Maximum number of queued bytes.", lambda store: store.max_queued_bytes
)


async def _gather(coroutines: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Await several coroutines. A single one gets no task of its own, and so enters its queue without a delay."""
    return [await coroutines[0]] if len(coroutines) == 1 else await asyncio.gather(*coroutines)


def _weight(mutation: Mutation) -> tuple[int, int, str | None]:
    """The number of documents of a mutation, their bytes, and the key of the batches that it may be part of."""
    if isinstance(mutation, Write):
        # An add and an upsert are two calls to Chroma. In one batch, the first could succeed and the second fail; sent
        # again by itself, the add would then find its own documents.
        return len(mutation.batch), _size_bytes(mutation), mutation.kind
    if isinstance(mutation, MetadataUpdates):
        return len(mutation), 0, "update"
    return 0, 0, None


def _size_bytes(write: Write) -> int:
    return int(write.batch.embeddings.nbytes) + sum(map(len, write.batch.texts))
