"""`DeadlineStore`: a store that answers within its caller's budget.

The budget belongs to the request, so it travels with the request's context, and this store stands outermost: work that
several callers share further in is not ended by the first of them to leave. What expires is 504. A write that expired
may still happen, all of it or nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar

from ragstore.errors import ChromaTimeout, RagstoreError
from ragstore.metadata import CollectionMetadata, Metadata, Scalar
from ragstore.store.base import (
    EVERYTHING,
    Collection,
    Distance,
    Documents,
    Found,
    Query,
    Selection,
    StoreStatus,
    Write,
)
from ragstore.store.wrapping import WrappingStore

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


def set_deadline(seconds: float) -> float:
    """Begin a budget for this task and those it starts.

    Args:
        seconds: how long it lasts.

    Returns:
        When it ends, in the event loop's time.
    """
    deadline = asyncio.get_running_loop().time() + seconds
    _deadline.set(deadline)
    return deadline


@asynccontextmanager
async def in_time() -> AsyncIterator[None]:
    """End the block when the budget ends; without one, it takes as long as it takes.

    Raises:
        ChromaTimeout: the budget is used up.
    """
    try:
        async with asyncio.timeout_at(_deadline.get()):
            yield
    except TimeoutError:
        raise ChromaTimeout("Chroma did not answer within the request's time") from None


class DeadlineStore(WrappingStore):
    """A store that keeps to its caller's budget; see `Store` for what each method promises."""

    async def status(self) -> StoreStatus:
        """Ask Chroma how it is."""
        async with in_time():
            return await self._inner.status()

    async def create_collection(self, name: str, metadata: CollectionMetadata, distance: Distance) -> Collection:
        """Create a collection."""
        async with in_time():
            return await self._inner.create_collection(name, metadata, distance)

    async def get_collection(self, name: str) -> Collection:
        """Look a collection up."""
        async with in_time():
            return await self._inner.get_collection(name)

    async def list_collections(self, limit: int | None, offset: int) -> list[Collection]:
        """List collections by name."""
        async with in_time():
            return await self._inner.list_collections(limit, offset)

    async def count_collections(self) -> int:
        """How many collections there are."""
        async with in_time():
            return await self._inner.count_collections()

    async def update_metadata(self, name: str, metadata: dict[str, Scalar | None], *, merge: bool) -> Collection:
        """Replace a collection's metadata or merge into it."""
        async with in_time():
            return await self._inner.update_metadata(name, metadata, merge=merge)

    async def delete_collection(self, name: str) -> None:
        """Delete a collection and its documents."""
        async with in_time():
            await self._inner.delete_collection(name)

    async def write(self, name: str, writes: Sequence[Write]) -> list[RagstoreError | None]:
        """Write several batches, each with an outcome of its own."""
        async with in_time():
            return await self._inner.write(name, writes)

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
        async with in_time():
            return await self._inner.get(name, selection, limit=limit, offset=offset, with_embeddings=with_embeddings)

    async def get_metadatas(self, name: str, selection: Selection, *, limit: int, offset: int) -> list[Metadata]:
        """Read documents' metadata alone, in insertion order."""
        async with in_time():
            return await self._inner.get_metadatas(name, selection, limit=limit, offset=offset)

    async def count(self, name: str, selection: Selection = EVERYTHING) -> int:
        """How many documents are meant, exactly."""
        async with in_time():
            return await self._inner.count(name, selection)

    async def delete(self, name: str, selection: Selection) -> int:
        """Delete documents."""
        async with in_time():
            return await self._inner.delete(name, selection)

    async def query(self, name: str, queries: Sequence[Query]) -> Found:
        """Find the nearest documents."""
        async with in_time():
            return await self._inner.query(name, queries)
