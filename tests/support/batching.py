"""Helpers of the batching tests: a store with small batches, and a write that is in flight."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ragstore.errors import ChromaFailed
from ragstore.model.documents import EVERYTHING
from ragstore.store.batching.store import BatchingStore
from ragstore.store.protocol import Store
from tests.support.factories import batch, upsert_documents
from tests.support.spies import Call, SpyStore

MAX_BATCH_SIZE = 20


def batching_store(inner: SpyStore, max_queued_writes: int = 1000, max_queued_bytes: int = 2**28) -> BatchingStore:
    """A store whose batches have up to 20 documents."""
    return BatchingStore(inner, MAX_BATCH_SIZE, max_queued_writes, max_queued_bytes)


def assert_idle(store: BatchingStore) -> None:
    """Assert that the store keeps nothing of earlier requests."""
    assert store.idle
    assert store.queued == 0
    assert store.load == (0, 0, 0)


@asynccontextmanager
async def write_in_flight(store: Store, inner: SpyStore, collection: str) -> AsyncIterator[None]:
    """Keep a write of the document `first` in flight while the block runs."""
    inner.entry_gate.clear()
    first = asyncio.create_task(upsert_documents(store, collection, batch("first")))
    await inner.wait_for_calls(1)
    yield
    inner.entry_gate.set()
    await first


def fail_batches(call: Call) -> BaseException | None:
    """A failure for calls with several requests."""
    return ChromaFailed("Chroma failed") if len(call.parts) > 1 else None


async def ids_in(store: Store, collection: str) -> list[str]:
    """The ids of all documents."""
    return (await store.get(collection, EVERYTHING)).ids
