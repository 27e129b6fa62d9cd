"""Bulk ingestion: several batches in flight, outcomes in the order of the documents.

Memory holds the batches in flight and the batch that is being filled, however many documents there are. The source is
not read ahead of that, so a slow service slows the source down.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from ragstore_client._async.runtime import AsyncWorkers, DocumentSource, SendBody, Task, iterate
from ragstore_client._batches import Batch, Batcher, BatchLimits, Delivery, Entries, Outcome, deliver, result_of
from ragstore_client._calls import documents_body
from ragstore_client._exceptions import RagstoreError
from ragstore_client._inflight import InFlight, IngestionProgress


async def ingest(
    send: SendBody,
    documents: DocumentSource,
    limits: BatchLimits,
    concurrency: int,
) -> AsyncIterator[Outcome]:
    """Store documents and report the outcome of each.

    Args:
        send: stores the body of one request, or raises. It is called concurrently.
        documents: the documents to store.
        limits: the limits of a request.
        concurrency: maximum number of requests in flight.

    Yields:
        An outcome for every document that was read, in order.

    Raises:
        RagstoreError: the error that ended the ingestion, after the outcomes of all documents that were read.
    """
    batcher = Batcher(limits)
    progress = IngestionProgress(batcher)
    in_flight: InFlight[Task[Delivery]] = InFlight(concurrency)
    async with AsyncWorkers(concurrency) as workers:
        try:
            async for batch in _batches(documents, batcher, progress):
                while in_flight and (progress.failure or not in_flight.admits(batch)):
                    for outcome in progress.record(await workers.result(in_flight.pop())):
                        yield outcome
                if progress.failure:
                    for outcome in progress.unsent(batch):
                        yield outcome
                else:
                    in_flight.push(batch, workers.start(_deliver, send, batch, limits))
            while in_flight:
                for outcome in progress.record(await workers.result(in_flight.pop())):
                    yield outcome
        finally:
            await workers.cancel(in_flight.clear())
    progress.raise_failure()


async def _deliver(send: SendBody, batch: Batch, limits: BatchLimits) -> Delivery:
    steps = deliver(batch, limits)
    try:
        entries = next(steps)
        while True:
            entries = steps.send(await _send_entries(send, entries))
    except StopIteration as stop:
        return result_of(stop)


async def _send_entries(send: SendBody, entries: Entries) -> RagstoreError | None:
    try:
        await send(documents_body(entry.body for entry in entries))
    except RagstoreError as error:
        return error
    return None


async def _batches(documents: DocumentSource, batcher: Batcher, progress: IngestionProgress) -> AsyncIterator[Batch]:
    """Batches until the documents end, their source fails, or the ingestion has failed."""
    try:
        async for document in iterate(documents):
            batch = batcher.add(document)
            if batch is not None:
                yield batch
            if progress.failure is not None:
                break
    except Exception as error:  # noqa: BLE001 - any error of the source: raised after all that was read is delivered
        progress.source_failure = error
    rest = batcher.flush()
    if rest is not None:
        yield rest
