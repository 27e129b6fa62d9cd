"""`MeasuredStore`: a store that wraps a store and counts what passes, for Prometheus.

It stands at several layers of the stack, and what happens between two of them shows in the difference: `asked` is what
callers ask, `merged` what coalescing makes of it, `planned` what Chroma is asked in the end.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal, TypeAlias, TypeVar

from prometheus_client import Counter, Histogram

from ragstore.errors import RagstoreError
from ragstore.metadata import Metadata
from ragstore.store.base import EVERYTHING, Documents, Found, Query, Selection, Store, Write
from ragstore.store.wrapping import WrappingStore

T = TypeVar("T")

Layer: TypeAlias = Literal["asked", "merged", "planned"]

SECONDS: Final = Histogram(
    "ragstore_store_seconds",
    "Time of a call, waits included.",
    ["layer", "operation"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
PARTS: Final = Histogram(
    "ragstore_store_parts",
    "Writes or queries in one call: more than one in the layer `merged` were asked apart.",
    ["layer", "operation"],
    buckets=(1, 2, 4, 8, 16, 32, 64, 128),
)
QUERIES: Final = Counter(
    "ragstore_store_queries_total",
    "Query vectors; filtered ones in `merged` that are not in `planned` were asked without their filter.",
    ["layer", "filtered"],
)
DOCUMENTS: Final = Counter("ragstore_documents_written_total", "Documents written, by what was asked.", ["kind"])
DELETED: Final = Counter("ragstore_documents_deleted_total", "Documents deleted.")
FAILURES: Final = Counter(
    "ragstore_store_failures_total", "Calls that failed, by the HTTP status of their error.", ["layer", "status"]
)


class MeasuredStore(WrappingStore):
    """A store that counts what passes; see `Store` for what each method promises.

    Args:
        inner: the store that is wrapped.
        layer: where in the stack it stands.
    """

    def __init__(self, inner: Store, layer: Layer) -> None:
        super().__init__(inner)
        self._layer = layer

    async def write(self, name: str, writes: Sequence[Write]) -> list[RagstoreError | None]:
        """Write several batches, each with an outcome of its own."""
        PARTS.labels(self._layer, "write").observe(len(writes))
        outcomes = await self._measured("write", lambda: self._inner.write(name, writes))
        if self._layer == "asked":
            for write, outcome in zip(writes, outcomes, strict=True):
                if outcome is None:
                    DOCUMENTS.labels(write.kind).inc(len(write.batch))
        return outcomes

    async def delete(self, name: str, selection: Selection) -> int:
        """Delete documents."""
        deleted = await self._measured("delete", lambda: self._inner.delete(name, selection))
        if self._layer == "asked":
            DELETED.inc(deleted)
        return deleted

    async def query(self, name: str, queries: Sequence[Query]) -> Found:
        """Find the nearest documents."""
        PARTS.labels(self._layer, "query").observe(len(queries))
        for query in queries:
            filtered = query.where is not None or query.where_document is not None
            QUERIES.labels(self._layer, "yes" if filtered else "no").inc()
        return await self._measured("query", lambda: self._inner.query(name, queries))

    async def get(
        self,
        name: str,
        selection: Selection,
        *,
        limit: int | None = None,
        offset: int = 0,
        with_embeddings: bool = False,
    ) -> Documents:
        """Read documents in insertion order."""
        return await self._measured(
            "get",
            lambda: self._inner.get(name, selection, limit=limit, offset=offset, with_embeddings=with_embeddings),
        )

    async def get_ids(self, name: str, selection: Selection) -> list[str]:
        """Read the ids of all documents that are meant, in insertion order."""
        return await self._measured("get_ids", lambda: self._inner.get_ids(name, selection))

    async def get_metadatas(self, name: str, selection: Selection, *, limit: int, offset: int) -> list[Metadata]:
        """Read documents' metadata alone, in insertion order."""
        return await self._measured(
            "get_metadatas", lambda: self._inner.get_metadatas(name, selection, limit=limit, offset=offset)
        )

    async def count(self, name: str, selection: Selection = EVERYTHING) -> int:
        """How many documents are meant, exactly."""
        return await self._measured("count", lambda: self._inner.count(name, selection))

    async def _measured(self, operation: str, call: Callable[[], Awaitable[T]]) -> T:
        started = time.perf_counter()
        try:
            return await call()
        except RagstoreError as error:
            FAILURES.labels(self._layer, str(error.status)).inc()
            raise
        finally:
            SECONDS.labels(self._layer, operation).observe(time.perf_counter() - started)
