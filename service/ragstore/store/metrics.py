"""`MetricsStore`: metrics of the outermost end of the stack, the calls of the routes.

`ragstore.chroma.layers.metrics` measures the other end, each call to Chroma. The layers in between have metrics of
their own: the queues in `batching`, the plans in `filter_planning`, the circuit in `circuit_breaker`. Labels are
resolved once, when this module is imported: resolving them costs more than incrementing a counter.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from prometheus_client import Counter, Histogram

from ragstore.kit.deferred_metrics import BUCKETS, record
from ragstore.kit.errors import ServiceError
from ragstore.model.documents import Selection, Write
from ragstore.model.metadata_updates import MetadataUpdates
from ragstore.model.queries import CollectionMatches, Query
from ragstore.store.layer import StoreLayer, StoreOperation

T = TypeVar("T")

MEASURED_OPERATIONS: Final[Mapping[StoreOperation, str]] = {
    "write": "write",
    "update_documents": "update_documents",
    "delete": "delete",
    "query": "query",
    "get": "get",
    "get_ids": "get_ids",
    "get_metadata_values": "get_metadatas",
    "count": "count",
    "map_collection": "map",
}
"""Operations of the store that are measured, those on documents, with their label value, which is public."""

STORE_SECONDS: Final = Histogram(
    "ragstore_store_duration_seconds", "Time of a call to the store, including waits.", ["operation"], buckets=BUCKETS
)
DOCUMENTS: Final = Counter("ragstore_documents_written_total", "Documents written, by kind of write.", ["kind"])
DELETED: Final = Counter("ragstore_documents_deleted_total", "Documents deleted.")
QUERIES: Final = Counter("ragstore_queries_total", "Query vectors, with a filter or without.", ["filtered"])


class MetricsStore(StoreLayer):
    """A store that measures calls and counts documents; see `Store` for the contract of each method."""

    _seconds: Final = {operation: STORE_SECONDS.labels(label) for operation, label in MEASURED_OPERATIONS.items()}
    _documents: Final = {kind: DOCUMENTS.labels(kind) for kind in ("add", "upsert", "update")}
    _filtered: Final = QUERIES.labels("yes")
    _unfiltered: Final = QUERIES.labels("no")

    async def _intercept(self, operation: StoreOperation, name: str | None, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call, and measure it if it concerns documents."""
        seconds = self._seconds.get(operation)
        if seconds is None:
            return await call()
        started = time.perf_counter()
        try:
            return await call()
        finally:
            record(seconds.observe, time.perf_counter() - started)

    async def write(self, name: str, writes: Sequence[Write]) -> list[ServiceError | None]:
        """Write several batches, each with an outcome of its own."""
        outcomes = await super().write(name, writes)
        for write, outcome in zip(writes, outcomes, strict=True):
            if outcome is None:
                record(self._documents[write.kind].inc, len(write.batch))
        return outcomes

    async def update_documents(self, name: str, updates: Sequence[MetadataUpdates]) -> list[ServiceError | None]:
        """Change metadata of documents several times, each with an outcome of its own."""
        outcomes = await super().update_documents(name, updates)
        for update, outcome in zip(updates, outcomes, strict=True):
            if outcome is None:
                record(self._documents["update"].inc, len(update))
        return outcomes

    async def delete(self, name: str, selection: Selection) -> int:
        """Delete documents."""
        deleted = await super().delete(name, selection)
        record(DELETED.inc, deleted)
        return deleted

    async def query(self, name: str, queries: Sequence[Query]) -> CollectionMatches:
        """Find the nearest documents."""
        for query in queries:
            record((self._unfiltered if query.condition.is_none else self._filtered).inc)
        return await super().query(name, queries)
