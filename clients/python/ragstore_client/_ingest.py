"""Batch ingestion, sync and async: a window of batches on their way, outcomes in the order of the documents.

Memory holds the window and the batch that is being filled, however long the documents go on. Nothing is read ahead of
that: a slow service slows the source.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

from ragstore_client._batches import Batch, Batcher, BatchLimits, Delivery, Outcome, Part, deliver
from ragstore_client._calls import documents_body
from ragstore_client._exceptions import InvalidInput, RagstoreError
from ragstore_client._models import NewDocument


class _Pending(Protocol):
    def cancel(self) -> bool: ...


P = TypeVar("P", bound=_Pending)


class _Window(Generic[P]):
    """Batches on their way, oldest first."""

    def __init__(self, width: int) -> None:
        if width < 1:
            raise InvalidInput("concurrency must be at least 1")
        self._width = width
        self._pending: deque[tuple[Batch, P]] = deque()

    def admits(self, batch: Batch) -> bool:
        """Whether a batch may leave now: there is room, and no id of it is on its way already."""
        return len(self._pending) < self._width and all(batch.ids.isdisjoint(other.ids) for other, _ in self._pending)

    def push(self, batch: Batch, pending: P) -> None:
        self._pending.append((batch, pending))

    def pop(self) -> P:
        return self._pending.popleft()[1]

    def drop(self) -> list[P]:
        """Empty the window."""
        dropped = [pending for _, pending in self._pending]
        self._pending.clear()
        return dropped

    def __bool__(self) -> bool:
        return bool(self._pending)


class _Progress:
    """What an ingestion has come to: the error that ends it, once there is one."""

    def __init__(self, batcher: Batcher) -> None:
        self._batcher = batcher
        self.failure: RagstoreError | None = None
        self.source_failure: Exception | None = None

    def note(self, delivery: Delivery) -> list[Outcome]:
        self._batcher.learn(delivery)
        self.failure = self.failure or delivery.failure
        return delivery.outcomes

    def unsent(self, batch: Batch) -> list[Outcome]:
        return [Outcome(entry.index, entry.id, entry.error or self.failure) for entry in batch.entries]

    def end(self) -> None:
        ended_by = self.failure or self.source_failure
        if ended_by is not None:
            raise ended_by


def ingest(
    send: Callable[[bytes], object],
    documents: Iterable[NewDocument],
    limits: BatchLimits,
    concurrency: int,
) -> Iterator[Outcome]:
    """Store documents, and tell what became of each.

    Args:
        send: stores the body of one request, or raises; called from several threads.
        documents: what to store.
        limits: how large a request may be.
        concurrency: most requests at once.

    Yields:
        An outcome for every document that was read, in their order.

    Raises:
        RagstoreError: what ended the ingestion, after the outcomes of all that was read.
    """
    batcher = Batcher(limits)
    progress = _Progress(batcher)
    window: _Window[Future[Delivery]] = _Window(concurrency)
    with ThreadPoolExecutor(concurrency, thread_name_prefix="ragstore-ingest") as pool:
        try:
            for batch in _batches(documents, batcher, progress):
                while window and (progress.failure or not window.admits(batch)):
                    yield from progress.note(window.pop().result())
                if progress.failure:
                    yield from progress.unsent(batch)
                else:
                    window.push(batch, pool.submit(_carry, send, batch, limits))
            while window:
                yield from progress.note(window.pop().result())
        finally:
            for pending in window.drop():
                pending.cancel()
    progress.end()


async def aingest(
    send: Callable[[bytes], Awaitable[object]],
    documents: Iterable[NewDocument] | AsyncIterable[NewDocument],
    limits: BatchLimits,
    concurrency: int,
) -> AsyncIterator[Outcome]:
    """Store documents, and tell what became of each, as `ingest` does."""
    batcher = Batcher(limits)
    progress = _Progress(batcher)
    window: _Window[asyncio.Task[Delivery]] = _Window(concurrency)
    try:
        async for batch in _abatches(documents, batcher, progress):
            while window and (progress.failure or not window.admits(batch)):
                for outcome in progress.note(await window.pop()):
                    yield outcome
            if progress.failure:
                for outcome in progress.unsent(batch):
                    yield outcome
            else:
                window.push(batch, asyncio.create_task(_acarry(send, batch, limits)))
        while window:
            for outcome in progress.note(await window.pop()):
                yield outcome
    finally:
        dropped = window.drop()
        for pending in dropped:
            pending.cancel()
        await asyncio.gather(*dropped, return_exceptions=True)
    progress.end()


def _carry(send: Callable[[bytes], object], batch: Batch, limits: BatchLimits) -> Delivery:
    steps = deliver(batch, limits)
    try:
        part = next(steps)
        while True:
            part = steps.send(_error_of(send, part))
    except StopIteration as end:
        return _delivery(end)


def _error_of(send: Callable[[bytes], object], part: Part) -> RagstoreError | None:
    try:
        send(documents_body(entry.body for entry in part))
    except RagstoreError as error:
        return error
    return None


async def _acarry(send: Callable[[bytes], Awaitable[object]], batch: Batch, limits: BatchLimits) -> Delivery:
    steps = deliver(batch, limits)
    try:
        part = next(steps)
        while True:
            part = steps.send(await _aerror_of(send, part))
    except StopIteration as end:
        return _delivery(end)


async def _aerror_of(send: Callable[[bytes], Awaitable[object]], part: Part) -> RagstoreError | None:
    try:
        await send(documents_body(entry.body for entry in part))
    except RagstoreError as error:
        return error
    return None


def _delivery(end: StopIteration) -> Delivery:
    delivery: Delivery = end.value
    return delivery


def _batches(documents: Iterable[NewDocument], batcher: Batcher, progress: _Progress) -> Iterator[Batch]:
    """Batches until the documents end, or their source fails, or the ingestion does."""
    try:
        for document in documents:
            batch = batcher.put(document)
            if batch is not None:
                yield batch
            if progress.failure is not None:
                break
    except Exception as error:  # noqa: BLE001 - the source's own: what was read is delivered first, then it is raised
        progress.source_failure = error
    rest = batcher.take()
    if rest is not None:
        yield rest


async def _abatches(
    documents: Iterable[NewDocument] | AsyncIterable[NewDocument],
    batcher: Batcher,
    progress: _Progress,
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
