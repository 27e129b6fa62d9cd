# Generated from _async/ingestion.py by scripts/generate_sync_client.py: do not edit.
"""Ingests documents: sends them, small ones together, and waits until searches find them."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import IO

import msgspec

from ragstore_client._call import Call
from ragstore_client._exceptions import InvalidInput, ProblemError, RagstoreError, TooManyRequests
from ragstore_client._json import to_builtins
from ragstore_client._sync.base import CallSender
from ragstore_client._sync.runtime import Task, Workers, in_thread, sleep
from ragstore_client.gateway import _calls as calls
from ragstore_client.gateway._contents import MARKDOWN, NewContent, PageDocument, TextDocument
from ragstore_client.gateway._models import AcceptedIngestion, IngestionStatus
from ragstore_client.gateway._reports import DocumentProgress, IngestedDocument

MAX_DOCUMENTS = 64
MAX_BYTES = 2 * 1024 * 1024
"""Maximum number and size of the documents of one request."""

MAX_SMALL_BYTES = 256 * 1024
"""Size of the largest document that is sent together with others."""

POLL_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0)
"""Waits between two requests for the states of ingestions. The last one repeats."""

BUSY_CODES = frozenset({"queue_full", "overloaded"})
"""Codes of errors of a gateway that accepts the same document later."""

BUSY_DELAY_SECONDS = 1.0
"""The wait before a document is sent again to a busy gateway that does not name one."""

MIN_BUSY_DELAY_SECONDS = 0.1
MAX_BUSY_DELAY_SECONDS = 30.0
QUEUE = "queue"
"""The reason of documents that have not begun, which is no reason to worry."""


class OpenDocument(msgspec.Struct, frozen=True):
    """A document to send.

    Attributes:
        content: its content; None for a page, which the gateway has yet to read.
        size: the size of its content in bytes.
    """

    document: NewContent
    content: IO[bytes] | None = None
    size: int = 0


class DocumentIngestion:
    """Ingests documents into one knowledge base.

    Args:
        client: sends the calls.
        base_id: the knowledge base.
        concurrency: maximum number of requests whose documents are in flight.
        busy_seconds: how long documents wait for room in the gateway's queue.
        progress: is called with each step; None for nothing.
    """

    def __init__(
        self,
        client: CallSender,
        base_id: str,
        *,
        concurrency: int,
        busy_seconds: float,
        progress: Callable[[DocumentProgress], None] | None,
    ) -> None:
        if concurrency < 1:
            raise InvalidInput("concurrency must be at least 1")
        self._client = client
        self._base_id = base_id
        self._concurrency = concurrency
        self._busy_seconds = busy_seconds
        self._progress = progress

    def run(self, documents: Iterable[NewContent]) -> Iterator[IngestedDocument]:
        """Ingest documents. A document that fails does not end the others.

        A slow document delays the outcomes of later ones, but not their ingestion.

        Yields:
            The outcome of each document, in the order of the documents.
        """
        order: deque[Task[list[IngestedDocument]]] = deque()
        with Workers(self._concurrency) as workers:
            try:
                for request in self._requests(documents):
                    running = [task for task in order if not task.done()]
                    if len(running) >= self._concurrency:
                        workers.first(running)
                    order.append(workers.start(self._ingest, request))
                    while order[0].done():
                        for outcome in workers.result(order.popleft()):
                            yield outcome
                        if not order:
                            break
                while order:
                    for outcome in workers.result(order.popleft()):
                        yield outcome
            finally:
                workers.cancel(list(order))

    def _requests(self, documents: Iterable[NewContent]) -> Iterator[list[OpenDocument | IngestedDocument]]:
        """Open documents, and divide them into requests. A page is alone, and a large document, too.

        A document that cannot be opened is in its request as its outcome, so that outcomes stay in order.
        """
        together: list[OpenDocument | IngestedDocument] = []
        size = 0
        for document in documents:
            opened = self._open(document)
            if isinstance(opened, OpenDocument) and (opened.content is None or opened.size > MAX_SMALL_BYTES):
                if together:
                    yield together
                    together, size = [], 0
                yield [opened]
                continue
            length = opened.size if isinstance(opened, OpenDocument) else 0
            if len(together) == MAX_DOCUMENTS or size + length > MAX_BYTES:
                yield together
                together, size = [], 0
            together.append(opened)
            size += length
        if together:
            yield together

    def _open(self, document: NewContent) -> OpenDocument | IngestedDocument:
        if isinstance(document, PageDocument):
            return OpenDocument(document)
        try:
            content = in_thread(document.open)
            return OpenDocument(document, content, in_thread(content.seek, 0, os.SEEK_END))
        except OSError as error:
            return self._failed(document.name, error)

    def _ingest(self, request: list[OpenDocument | IngestedDocument]) -> list[IngestedDocument]:
        """Ingest the documents of a request, and return the outcome of each."""
        opened = {index: each for index, each in enumerate(request) if isinstance(each, OpenDocument)}
        outcomes = {index: each for index, each in enumerate(request) if isinstance(each, IngestedDocument)}
        try:
            (self._send_one(opened, outcomes) if len(request) == 1 else self._send_together(opened, outcomes))
        except (OSError, RagstoreError) as error:
            for index, each in opened.items():
                if index not in outcomes:
                    outcomes[index] = self._failed(each.document.name, error)
        finally:
            for each in opened.values():
                if each.content is not None:
                    each.content.close()
        return [outcomes[index] for index in range(len(request))]

    def _send_one(self, opened: dict[int, OpenDocument], outcomes: dict[int, IngestedDocument]) -> None:
        for index, each in opened.items():
            document: NewContent = each.document
            if isinstance(document, PageDocument):
                document = self._read_page(document)
            content = document.open() if each.content is None else each.content
            call = calls.ingest_document(self._base_id, document.name, content, document.media_type, document.metadata)
            self._until_ended({self._accepted(call): index}, opened, outcomes)

    def _accepted(self, call: Call[AcceptedIngestion]) -> str:
        """The ingestion of a document, which is sent again while the gateway is busy."""
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                return (self._client._send(call)).ingestion_id
            except ProblemError as error:
                if not _is_busy(error) or time.monotonic() > deadline:
                    raise
                sleep(_delay(error))

    def _read_page(self, document: PageDocument) -> TextDocument:
        (page,) = (self._client._send(calls.extract(document.url))).items
        if not page.ok:
            raise RagstoreError(page.error or "the page cannot be read")
        return TextDocument(document.name, page.text, MARKDOWN, document.metadata)

    def _send_together(self, opened: dict[int, OpenDocument], outcomes: dict[int, IngestedDocument]) -> None:
        """Send documents with one request, and again where the queue had no room."""
        accepted: dict[str, int] = {}
        waiting = list(opened)
        deadline = time.monotonic() + self._busy_seconds
        while waiting:
            delay = BUSY_DELAY_SECONDS
            again: list[int] = []
            body = [in_thread(_batch_document, opened[index]) for index in waiting]
            try:
                batch = (self._client._send(calls.ingest_documents(self._base_id, body))).documents
            except ProblemError as error:
                if not _is_busy(error) or time.monotonic() > deadline:
                    raise
                again, delay = waiting, _delay(error)
            else:
                for index, outcome in zip(waiting, batch, strict=True):
                    if outcome.ingestion_id:
                        accepted[outcome.ingestion_id] = index
                    elif outcome.code in BUSY_CODES and time.monotonic() < deadline:
                        again.append(index)
                    else:
                        name = opened[index].document.name
                        outcomes[index] = self._ended(name, error=outcome.detail or outcome.code, code=outcome.code)
            waiting = again
            if waiting:
                sleep(delay)
        self._until_ended(accepted, opened, outcomes)

    def _until_ended(
        self, accepted: dict[str, int], opened: dict[int, OpenDocument], outcomes: dict[int, IngestedDocument]
    ) -> None:
        """Wait until ingestions have ended.

        Args:
            accepted: the indexes of the documents, by their ingestions.
        """
        polls = 0
        while accepted:
            sleep(POLL_SECONDS[min(polls, len(POLL_SECONDS) - 1)])
            polls += 1
            call = calls.ingestion_progress(self._base_id, list(accepted))
            progress = self._client._send(call)
            waiting_for = ", ".join(sorted(set(progress.waiting_for) - {QUEUE}))
            self._report(DocumentProgress(waiting_for=waiting_for))
            for state in progress.ingestions:
                name = opened[accepted[state.ingestion_id]].document.name
                if state.has_ended:
                    outcomes[accepted.pop(state.ingestion_id)] = self._completed(name, state)
                else:
                    self._report(DocumentProgress(name=name, share=state.progress, waiting_for=waiting_for))

    def _completed(self, name: str, state: IngestionStatus) -> IngestedDocument:
        if state.status == "completed":
            return self._ended(name, chunks=state.chunks, unchanged=state.unchanged)
        return self._ended(name, error=state.error or state.status)

    def _failed(self, name: str, error: OSError | RagstoreError) -> IngestedDocument:
        if isinstance(error, OSError):
            return self._ended(name, error=error.strerror or type(error).__name__)
        code = error.code or "" if isinstance(error, ProblemError) else ""
        return self._ended(name, error=" ".join(str(error).split()) or type(error).__name__, code=code)

    def _ended(
        self, name: str, *, chunks: int = 0, unchanged: bool = False, error: str = "", code: str = ""
    ) -> IngestedDocument:
        self._report(DocumentProgress(name=name, share=1.0, ended=True))
        return IngestedDocument(name=name, chunks=chunks, unchanged=unchanged, error=error, code=code)

    def _report(self, progress: DocumentProgress) -> None:
        if self._progress is not None:
            self._progress(progress)


def _is_busy(error: ProblemError) -> bool:
    return isinstance(error, TooManyRequests) or error.code in BUSY_CODES


def _delay(error: ProblemError) -> float:
    if error.retry_after is None:
        return BUSY_DELAY_SECONDS
    return min(max(error.retry_after, MIN_BUSY_DELAY_SECONDS), MAX_BUSY_DELAY_SECONDS)


def _batch_document(opened: OpenDocument) -> calls.BatchDocument:
    document, content = opened.document, opened.content
    assert content is not None and not isinstance(document, PageDocument)  # noqa: S101, PT018  # a page is sent alone
    content.seek(0)
    metadata = to_builtins(document.metadata, "$.metadata")
    return calls.BatchDocument(document.name, document.media_type, content.read(), metadata)  # type: ignore[arg-type]  # of a mapping
