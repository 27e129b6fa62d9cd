"""What is measured for Prometheus at the stack's two ends: what callers ask, and each call to Chroma.

What lies between the two tells of itself: the lines in `coalescing`, the ways in `planning`, the circuit in `breaking`.
Series are looked up once, when a store is made: a lookup costs more than what it counts.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar, get_args

from prometheus_client import Counter, Gauge, Histogram

from ragstore.errors import ChromaTimeout, ChromaUnavailable, RagstoreError
from ragstore.store.base import (
    Found,
    Query,
    Selection,
    Write,
)
from ragstore.store.intercepting import Asked, Operation, WatchingBackend
from ragstore.store.wrapping import StoreOperation, WrappingStore
from ragstore.tally import note

T = TypeVar("T")

ON_DOCUMENTS: Final[tuple[StoreOperation, ...]] = (
    "write",
    "delete",
    "query",
    "get",
    "get_ids",
    "get_metadatas",
    "count",
)
"""Operations of the store that are measured."""

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Bounds of histograms of time, in seconds."""

STORE_SECONDS: Final = Histogram(
    "ragstore_store_duration_seconds", "Time of a call to the store, waits included.", ["operation"], buckets=BUCKETS
)
DOCUMENTS: Final = Counter("ragstore_documents_written_total", "Documents written, by what was asked.", ["kind"])
DELETED: Final = Counter("ragstore_documents_deleted_total", "Documents deleted.")
QUERIES: Final = Counter("ragstore_queries_total", "Query vectors asked, with a filter or without.", ["filtered"])

CHROMA_SECONDS: Final = Histogram(
    "ragstore_chroma_duration_seconds",
    "Time of one call to Chroma, failed ones included.",
    ["operation"],
    buckets=BUCKETS,
)
CHROMA_FAILURES: Final = Counter(
    "ragstore_chroma_failures_total",
    "Calls to Chroma that failed: away, too slow, or answered with an error of its own.",
    ["reason"],
)
CHROMA_CALLS: Final = Gauge("ragstore_chroma_calls_in_progress", "Calls that Chroma has not answered yet.")

_UNAVAILABLE: Final = CHROMA_FAILURES.labels("unavailable")
_TIMEOUT: Final = CHROMA_FAILURES.labels("timeout")
_ERROR: Final = CHROMA_FAILURES.labels("error")


class MeasuredStore(WrappingStore):
    """A store that counts what callers ask; see `Store` for what each method promises."""

    _seconds: Final = {operation: STORE_SECONDS.labels(operation) for operation in ON_DOCUMENTS}
    _documents: Final = {kind: DOCUMENTS.labels(kind) for kind in ("add", "upsert")}
    _filtered: Final = QUERIES.labels("yes")
    _unfiltered: Final = QUERIES.labels("no")

    async def _through(self, operation: StoreOperation, name: str | None, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call, and measure it where it is about documents."""
        seconds = self._seconds.get(operation)
        if seconds is None:
            return await call()
        started = time.perf_counter()
        try:
            return await call()
        finally:
            note(seconds.observe, time.perf_counter() - started)

    async def write(self, name: str, writes: Sequence[Write]) -> list[RagstoreError | None]:
        """Write several batches, each with an outcome of its own."""
        outcomes = await super().write(name, writes)
        for write, outcome in zip(writes, outcomes, strict=True):
            if outcome is None:
                note(self._documents[write.kind].inc, len(write.batch))
        return outcomes

    async def delete(self, name: str, selection: Selection) -> int:
        """Delete documents."""
        deleted = await super().delete(name, selection)
        note(DELETED.inc, deleted)
        return deleted

    async def query(self, name: str, queries: Sequence[Query]) -> Found:
        """Find the nearest documents."""
        for query in queries:
            note((self._unfiltered if query.condition.is_none else self._filtered).inc)
        return await super().query(name, queries)


class MeasuredBackend(WatchingBackend):
    """A backend that measures each call to Chroma; see `Backend` for what each method does."""

    _seconds: Final = {
        operation: CHROMA_SECONDS.labels(operation)
        for operation in get_args(Operation)
        if operation != "max_batch_size"
    }

    async def _through(
        self, asked: Asked, call: Callable[[], Awaitable[T]], *, repeatable: bool = True, racy: bool = False
    ) -> T:
        """Make a call, and measure it."""
        started = time.perf_counter()
        note(CHROMA_CALLS.inc)
        try:
            return await call()
        except ChromaUnavailable:
            _UNAVAILABLE.inc()
            raise
        except ChromaTimeout:
            _TIMEOUT.inc()
            raise
        except RagstoreError as error:
            if error.status >= 500:  # what is the caller's fault or absent is no failure of Chroma's
                _ERROR.inc()
            raise
        finally:
            note(CHROMA_CALLS.dec)
            note(self._seconds[asked.operation].observe, time.perf_counter() - started)
