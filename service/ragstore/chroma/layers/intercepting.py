"""`InterceptingBackend`: a backend whose every call goes through one place, for backends that change how calls end.

`WatchingBackend` is for those that only look at calls.

Retries and the circuit breaker wrap the backend, not the store: what a store does in several calls (look ids up, then
write; look documents up, then delete and count them) is not idempotent as a whole, while each call to Chroma is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from ragstore.chroma.backend import Backend, ChromaFilter, QueryResult, RecordBatch, Records
from ragstore.model.collections import Collection, Distance, StoreStatus
from ragstore.model.metadata import CollectionMetadata
from ragstore.model.vectors import Matrix

T = TypeVar("T")

Operation: TypeAlias = Literal[
    "status",
    "max_batch_size",
    "create_collection",
    "get_collection",
    "list_collections",
    "count_collections",
    "replace_metadata",
    "delete_collection",
    "add",
    "marks",
    "withdraw",
    "upsert",
    "get",
    "count",
    "delete",
    "query",
]
"""An operation of `Backend`."""


class Asked(NamedTuple):
    """What a call asks of Chroma, as far as others may be told.

    Attributes:
        operation: which one.
        collection: the collection's name or id; empty where it is none's.
        size: how many records, ids or query vectors it names; None where it names none.
    """

    operation: Operation
    collection: str = ""
    size: int | None = None


class InterceptingBackend(ABC):
    """Passes every call on through `_through`; see `Backend` for what each method does.

    Args:
        inner: the backend that is wrapped.
    """

    def __init__(self, inner: Backend) -> None:
        self._inner = inner

    @abstractmethod
    async def _through(
        self, asked: Asked, call: Callable[[], Awaitable[T]], *, repeatable: bool = True, two_step_read: bool = False
    ) -> T:
        """Make a call.

        Args:
            asked: what it asks.
            call: makes it, anew each time.
            repeatable: whether doing it twice leaves and answers what doing it once does.
            two_step_read: whether Chroma reads in two steps, so that a concurrent write may fail it or tear it.

        Returns:
            Its answer.
        """

    @property
    def conditional(self) -> bool:
        """Whether `add` passes over ids that are taken."""
        return self._inner.conditional

    async def start(self) -> None:
        """Begin; does not wait for Chroma."""
        await self._inner.start()

    async def close(self) -> None:
        """Let go of Chroma."""
        await self._inner.close()

    async def status(self) -> StoreStatus:
        """Ask Chroma how it is: always asked, and asked once, since probes want to know how it is now."""
        return await self._inner.status()

    async def max_batch_size(self) -> int:
        """Most records that Chroma takes in one write."""
        return await self._through(Asked("max_batch_size"), self._inner.max_batch_size)

    async def create_collection(self, name: str, metadata: CollectionMetadata, distance: Distance) -> Collection:
        """Create a collection."""
        return await self._through(
            Asked("create_collection", name),
            lambda: self._inner.create_collection(name, metadata, distance),
            repeatable=False,
        )

    async def get_collection(self, name: str) -> Collection:
        """Look a collection up."""
        return await self._through(Asked("get_collection", name), lambda: self._inner.get_collection(name))

    async def list_collections(self, limit: int | None, offset: int) -> list[Collection]:
        """List collections."""
        return await self._through(Asked("list_collections"), lambda: self._inner.list_collections(limit, offset))

    async def count_collections(self) -> int:
        """How many collections there are."""
        return await self._through(Asked("count_collections"), self._inner.count_collections)

    async def replace_metadata(self, collection_id: str, metadata: CollectionMetadata) -> None:
        """Replace a collection's metadata."""
        await self._through(
            Asked("replace_metadata", collection_id), lambda: self._inner.replace_metadata(collection_id, metadata)
        )

    async def delete_collection(self, name: str) -> None:
        """Delete a collection."""
        await self._through(
            Asked("delete_collection", name), lambda: self._inner.delete_collection(name), repeatable=False
        )

    async def add(self, collection_id: str, records: RecordBatch, marks: list[str]) -> set[str]:
        """Write those records whose ids are free. The marks make it repeatable."""
        return await self._through(
            Asked("add", collection_id, len(marks)), lambda: self._inner.add(collection_id, records, marks)
        )

    async def marks(self, collection_id: str, ids: list[str]) -> dict[str, str | None]:
        """Which ids are taken, and by which add."""
        return await self._through(
            Asked("marks", collection_id, len(ids)), lambda: self._inner.marks(collection_id, ids)
        )

    async def withdraw(self, collection_id: str, ids: list[str], mark: str) -> None:
        """Delete records that an add has written."""
        await self._through(
            Asked("withdraw", collection_id, len(ids)), lambda: self._inner.withdraw(collection_id, ids, mark)
        )

    async def upsert(self, collection_id: str, records: RecordBatch) -> None:
        """Write records in one transaction."""
        await self._through(
            Asked("upsert", collection_id, len(records.ids)), lambda: self._inner.upsert(collection_id, records)
        )

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
        return await self._through(
            Asked("get", collection_id, None if ids is None else len(ids)),
            lambda: self._inner.get(
                collection_id,
                ids=ids,
                where=where,
                where_document=where_document,
                limit=limit,
                offset=offset,
                include=include,
            ),
            two_step_read="embeddings" in include,
        )

    async def count(self, collection_id: str) -> int:
        """How many records a collection holds."""
        return await self._through(Asked("count", collection_id), lambda: self._inner.count(collection_id))

    async def delete(self, collection_id: str, ids: list[str]) -> None:
        """Delete records."""
        await self._through(Asked("delete", collection_id, len(ids)), lambda: self._inner.delete(collection_id, ids))

    async def query(
        self,
        collection_id: str,
        embeddings: Matrix,
        n_results: int,
        *,
        where: ChromaFilter = None,
        where_document: ChromaFilter = None,
        include: tuple[str, ...] = (),
    ) -> list[QueryResult]:
        """Find the nearest records for each row of a matrix."""
        return await self._through(
            Asked("query", collection_id, len(embeddings)),
            lambda: self._inner.query(
                collection_id, embeddings, n_results, where=where, where_document=where_document, include=include
            ),
            two_step_read=True,
        )


class WatchingBackend(InterceptingBackend):
    """A backend that looks at each call to Chroma, probes among them, and changes none."""

    async def status(self) -> StoreStatus:
        """Ask Chroma how it is."""
        return await self._through(Asked("status"), self._inner.status)

    async def max_batch_size(self) -> int:
        """Most records that Chroma takes in one write. Backends keep the answer, so this is no call."""
        return await self._inner.max_batch_size()
