# Generated from _async/ingestion.py by scripts/generate_sync_client.py: do not edit.
"""Bulk ingestion: several batches in flight, outcomes in the order of the documents.

Memory holds the batches in flight and the batch that is being filled, however many documents there are. The source is
not read ahead of that, so a slow service slows the source down.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator, Mapping

from ragstore_client._batches import Batch, Batcher, BatchLimits, Delivery, Entries, Outcome, deliver, result_of
from ragstore_client._calls import documents_body
from ragstore_client._exceptions import InvalidInput, RagstoreError
from ragstore_client._inflight import InFlight, IngestionProgress
from ragstore_client._models import NewDocument
from ragstore_client._progress import NoBar, progress_bar
from ragstore_client._report import IngestionReport
from ragstore_client._sync.runtime import DocumentSource, SendBody, Task, Workers, checkpoint, iterate

_NEVER_ITERATED = "ingest() was never iterated, so nothing is stored; ingest_all() stores everything"


class Ingestion(Iterator[Outcome]):
    """An ingestion, which advances while it is iterated. It yields an outcome for every document, in order.

    Iterating raises the error that ended the ingestion, after the outcomes of all documents that were read.

    Args:
        send: stores the body of one request, or raises. It is called concurrently.
        documents: the documents to store.
        limits: the limits of a request.
        concurrency: maximum number of requests in flight.
        progress: whether to show a progress bar.
    """

    _started = True

    def __init__(
        self,
        send: SendBody,
        documents: DocumentSource,
        limits: BatchLimits,
        concurrency: int,
        *,
        progress: bool = False,
    ) -> None:
        if isinstance(documents, str | bytes | Mapping | NewDocument):
            raise InvalidInput(f"documents must be an iterable of documents, not one {type(documents).__name__}")
        self._send = send
        self._documents = documents
        self._limits = limits
        self._concurrency = concurrency
        self._batcher = Batcher(limits)
        self._progress = IngestionProgress(self._batcher)
        self._in_flight: InFlight[Task[Delivery]] = InFlight(concurrency)
        self._shows_progress = progress
        self._outcomes = self._run()
        self._started = False

    @property
    def report(self) -> IngestionReport:
        """The counts and the failures so far. It stays available after an error or an interruption."""
        return self._progress.report

    def __next__(self) -> Outcome:
        """The outcome of the next document."""
        self._started = True
        return next(self._outcomes)

    def close(self) -> None:
        """End the ingestion. Requests in flight are abandoned: their documents may or may not be stored."""
        self._started = True
        self._outcomes.close()

    def __del__(self) -> None:
        """Warn about an ingestion that has done nothing."""
        if not self._started:
            warnings.warn(_NEVER_ITERATED, RuntimeWarning, stacklevel=2)

    def _run(self) -> Generator[Outcome, None]:
        progress, in_flight = self._progress, self._in_flight
        bar = progress_bar(self._documents) if self._shows_progress else NoBar()
        with Workers(self._concurrency) as workers:
            try:
                for batch in self._batches():
                    while in_flight and (progress.failure or not in_flight.admits(batch)):
                        for outcome in bar.advance(progress.record(workers.result(in_flight.pop()))):
                            yield outcome
                    if progress.failure:
                        for outcome in bar.advance(progress.unsent(batch)):
                            yield outcome
                    else:
                        in_flight.push(batch, workers.start(_deliver, self._send, batch, self._limits))
                while in_flight:
                    for outcome in bar.advance(progress.record(workers.result(in_flight.pop()))):
                        yield outcome
            finally:
                # The report includes batches that were delivered when a caller, or Ctrl-C, ended the ingestion.
                for delivery in workers.cancel(in_flight.clear()):
                    progress.record(delivery)
                bar.close()
        progress.raise_failure()

    def _batches(self) -> Generator[Batch, None]:
        """Batches until the documents end, their source fails, or the ingestion has failed."""
        try:
            for document in iterate(self._documents):
                batch = self._batcher.add(document)
                if batch is not None:
                    yield batch
                if self._progress.failure is not None:
                    break
        except Exception as error:  # noqa: BLE001 - any error of the source: raised after all that was read is delivered
            self._progress.source_failure = error
        rest = self._batcher.flush()
        if rest is not None:
            yield rest


def _deliver(send: SendBody, batch: Batch, limits: BatchLimits) -> Delivery:
    steps = deliver(batch, limits)
    try:
        entries = next(steps)
        while True:
            entries = steps.send(_send_entries(send, entries))
    except StopIteration as stop:
        return result_of(stop)


def _send_entries(send: SendBody, entries: Entries) -> RagstoreError | None:
    checkpoint()
    try:
        send(documents_body(entry.body for entry in entries))
    except RagstoreError as error:
        return error
    return None
