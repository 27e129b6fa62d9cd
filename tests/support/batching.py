"""What the tests of coalesced writes share: a store that merges small batches, and a write that is under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ragstore.errors import ChromaFailed
from ragstore.model.documents import EVERYTHING
from ragstore.store.batching.store import BatchingStore
from ragstore.store.protocol import Store
from tests.support.factories import batch, upsert_documents
from tests.support.spies import Call, Recording

MAX_BATCH_SIZE = 20


def coalescing(inner: Recording, queued_writes: int = 1000, queued_bytes: int = 2**28) -> BatchingStore:
    """A store that merges up to 20 documents."""
    return BatchingStore(inner, MAX_BATCH_SIZE, queued_writes, queued_bytes)


def assert_empty(store: BatchingStore) -> None:
    """It keeps nothing of a line that ended."""
    assert not store._change_lines
    assert not store._query_lines
    assert (store._writes, store._bytes) == (0, 0)


@asynccontextmanager
async def under_way(store: Store, inner: Recording, collection: str) -> AsyncIterator[None]:
    """A write of the document `first` is under way as long as the block lasts."""
    inner.before.clear()
    first = asyncio.create_task(upsert_documents(store, collection, batch("first")))
    await inner.asked(1)
    yield
    inner.before.set()
    await first


def of_several(call: Call) -> BaseException | None:
    """The failure of a call that was made for several callers."""
    return ChromaFailed("Chroma failed") if len(call.parts) > 1 else None


async def ids_in(store: Store, collection: str) -> list[str]:
    """The ids of all documents."""
    return (await store.get(collection, EVERYTHING)).ids
