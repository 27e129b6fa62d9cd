"""Batch ingestion, asynchronous: a window of batches on their way, outcomes in the order of the documents.

Memory holds the window and the batch that is being filled, however long the documents go on. Nothing is read ahead of
that: a slow service slows the source.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable

from ragstore_client._batches import Batch, Batcher, BatchLimits, Delivery, Outcome, Part, deliver
from ragstore_client._calls import documents_body
from ragstore_client._exceptions import RagstoreError
from ragstore_client._inflight import Progress, Window, delivered
from ragstore_client._models import NewDocument


async def ingest(
    send: Callable[[bytes], Awaitable[object]],
    documents: Iterable[NewDocument] | AsyncIterable[NewDocument],
    limits: BatchLimits,
    concurrency: int,
) -> AsyncIterator[Outcome]:
    """Store documents, and tell what became of each, as the synchronous one does."""
    batcher = Batcher(limits)
    progress = Progress(batcher)
    window: Window[asyncio.Task[Delivery]] = Window(concurrency)
    try:
        async for batch in _batches(documents, batcher, progress):
            while window and (progress.failure or not window.admits(batch)):
                for outcome in progress.note(await window.pop()):
                    yield outcome
            if progress.failure:
                for outcome in progress.unsent(batch):
                    yield outcome
            else:
                window.push(batch, asyncio.create_task(_carry(send, batch, limits)))
        while window:
            for outcome in progress.note(await window.pop()):
                yield outcome
    finally:
        dropped = window.drop()
        for pending in dropped:
            pending.cancel()
        await asyncio.gather(*dropped, return_exceptions=True)
    progress.end()


async def _carry(send: Callable[[bytes], Awaitable[object]], batch: Batch, limits: BatchLimits) -> Delivery:
    steps = deliver(batch, limits)
    try:
        part = next(steps)
        while True:
            part = steps.send(await _error_of(send, part))
    except StopIteration as end:
        return delivered(end)


async def _error_of(send: Callable[[bytes], Awaitable[object]], part: Part) -> RagstoreError | None:
    try:
        await send(documents_body(entry.body for entry in part))
    except RagstoreError as error:
        return error
    return None


async def _batches(
    documents: Iterable[NewDocument] | AsyncIterable[NewDocument],
    batcher: Batcher,
    progress: Progress,
) -> AsyncIterator[Batch]:
    source = documents if isinstance(documents, AsyncIterable) else _asynchronous(documents)
    try:
        async for document in source:
            batch = batcher.put(document)
            if batch is not None:
                yield batch
            if progress.failure is not None:
                break
    except Exception as error:  # noqa: BLE001 - as in _batches
        progress.source_failure = error
    rest = batcher.take()
    if rest is not None:
        yield rest


async def _asynchronous(documents: Iterable[NewDocument]) -> AsyncIterator[NewDocument]:
    for document in documents:
        yield document
