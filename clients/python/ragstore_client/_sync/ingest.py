"""Batch ingestion, synchronous: a window of batches on their way, outcomes in the order of the documents.

Memory holds the window and the batch that is being filled, however long the documents go on. Nothing is read ahead of
that: a slow service slows the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from ragstore_client._batches import Batch, Batcher, BatchLimits, Delivery, Outcome, Part, deliver
from ragstore_client._calls import documents_body
from ragstore_client._exceptions import RagstoreError
from ragstore_client._inflight import Progress, Window, delivered
from ragstore_client._models import NewDocument


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
    progress = Progress(batcher)
    window: Window[Future[Delivery]] = Window(concurrency)
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


def _carry(send: Callable[[bytes], object], batch: Batch, limits: BatchLimits) -> Delivery:
    steps = deliver(batch, limits)
    try:
        part = next(steps)
        while True:
            part = steps.send(_error_of(send, part))
    except StopIteration as end:
        return delivered(end)


def _error_of(send: Callable[[bytes], object], part: Part) -> RagstoreError | None:
    try:
        send(documents_body(entry.body for entry in part))
    except RagstoreError as error:
        return error
    return None


def _batches(documents: Iterable[NewDocument], batcher: Batcher, progress: Progress) -> Iterator[Batch]:
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
