"""Batches of an ingestion, without I/O: how documents become requests, and what a rejected request means for them.

The synchronous and the asynchronous ingestion share this module. A request that is rejected because of its documents
is split and sent again, until the rejected documents are isolated. Any other error ends the ingestion.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Literal, TypeAlias

import msgspec

from ragstore_client._calls import encode_document
from ragstore_client._exceptions import (
    BadRequest,
    Conflict,
    InvalidInput,
    PayloadTooLarge,
    ProblemError,
    RagstoreError,
)
from ragstore_client._models import NewDocument

Mode: TypeAlias = Literal["upsert", "add"]

_REJECTIONS = (BadRequest, Conflict, PayloadTooLarge)
_TOO_LARGE_CODES = frozenset({"batch_too_large", "body_too_large"})


class BatchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a request of an ingestion.

    Attributes:
        documents: maximum number of documents. A service accepts 5,461 by default.
        body_bytes: maximum size of the body, except for a single document that is larger. A service accepts 64 MiB by
            default.
        requests: maximum number of requests for one batch while rejected documents are isolated. The documents that
            remain then fail with the last error.
    """

    documents: int = 1000
    body_bytes: int = 8 * 1024 * 1024
    requests: int = 64

    def __post_init__(self) -> None:
        """Validate the limits."""
        if min(self.documents, self.body_bytes, self.requests) < 1:
            raise InvalidInput("the limits of a batch must be at least 1")


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of one document.

    Attributes:
        index: its index in the ingested documents, from 0.
        id: its id; None when it has none.
        error: why it is not known to be stored; None when the service has confirmed it.
    """

    index: int
    id: str | None
    error: RagstoreError | None = None

    @property
    def stored(self) -> bool:
        """Whether the service has confirmed that the document is stored."""
        return self.error is None


class Entry(msgspec.Struct, frozen=True):
    """A document of a batch: its index, its id, and its JSON or the reason why it cannot be sent."""

    index: int
    id: str | None
    body: bytes = b""
    error: RagstoreError | None = None


Entries: TypeAlias = "list[Entry]"


class Batch(msgspec.Struct):
    """Documents that are sent together."""

    entries: Entries = []
    ids: set[str] = set()
    body_bytes: int = 0


class Delivery(msgspec.Struct, frozen=True):
    """The result of sending a batch.

    Attributes:
        outcomes: one for each of its documents, in order.
        failure: the error that ends the ingestion, if any.
        max_documents: number of documents that the service accepted in one request, when it rejected more and then
            stored all of them in smaller requests.
    """

    outcomes: list[Outcome]
    failure: RagstoreError | None = None
    max_documents: int | None = None


class Batcher:
    """Collects documents until a batch is full.

    Args:
        limits: the limits of a batch.
    """

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._max_documents = limits.documents
        self._batch = Batch()
        self._next_index = 0

    def add(self, document: NewDocument) -> Batch | None:
        """Add a document.

        Args:
            document: the next document.

        Returns:
            The batch before it, when the document does not fit into that one.
        """
        entry = self._entry(document)
        batch = self._batch
        full = len(batch.entries) >= self._max_documents or (
            batch.body_bytes + len(entry.body) > self._limits.body_bytes
        )
        # An id may occur once in a request. The later document must win, so it goes into a later batch.
        ready = self.flush() if batch.entries and (full or entry.id in batch.ids) else None
        self._batch.entries.append(entry)
        self._batch.body_bytes += len(entry.body) + 1
        if entry.id is not None:
            self._batch.ids.add(entry.id)
        return ready

    def flush(self) -> Batch | None:
        """Return the collected documents; None when there are none."""
        batch, self._batch = self._batch, Batch()
        return batch if batch.entries else None

    def adjust(self, delivery: Delivery) -> None:
        """Reduce the size of further batches to what the service accepts."""
        if delivery.max_documents is not None:
            self._max_documents = min(self._max_documents, delivery.max_documents)

    def _entry(self, document: NewDocument) -> Entry:
        index, self._next_index = self._next_index, self._next_index + 1
        if document.id is None:
            error = InvalidInput("a document needs an id to be ingested, because it may be sent twice")
            return Entry(index, None, error=error)
        try:
            return Entry(index, document.id, encode_document(document))
        except InvalidInput as error:
            return Entry(index, document.id, error=error)


def deliver(batch: Batch, limits: BatchLimits) -> Generator[Entries, RagstoreError | None, Delivery]:
    """Deliver a batch to the service, in several requests where necessary.

    Args:
        batch: the batch.
        limits: limits the number of requests.

    Yields:
        Entries to send as one request. Send back None when the service accepted them, or the error.

    Returns:
        The outcome of each document.
    """
    errors = {entry.index: entry.error for entry in batch.entries}
    sendable = [entry for entry in batch.entries if entry.error is None]
    pending: deque[Entries] = deque([sendable] if sendable else [])
    failure: RagstoreError | None = None
    requests, largest = 0, 0
    while pending:
        entries = pending.popleft()
        error = yield entries
        requests += 1
        if error is None:
            largest = max(largest, len(entries))
        elif not isinstance(error, _REJECTIONS):
            failure = error
            pending.appendleft(entries)
            break
        elif len(entries) > 1 and requests + len(pending) + 2 <= limits.requests:
            pending.extendleft(reversed(_split(entries, error)))
        else:
            errors.update((entry.index, error) for entry in entries)
    if failure is not None:
        errors.update((entry.index, failure) for rest in pending for entry in rest)
    outcomes = [Outcome(entry.index, entry.id, errors[entry.index]) for entry in batch.entries]
    stored_in_parts = requests > 1 and all(outcome.stored for outcome in outcomes)
    return Delivery(outcomes, failure, largest if stored_in_parts else None)


def result_of(stop: StopIteration) -> Delivery:
    """The result of `deliver`, from the exception that the finished generator raises."""
    delivery: Delivery = stop.value
    return delivery


def _split(entries: Entries, error: ProblemError) -> list[Entries]:
    """Split a rejected request: the rejected documents apart from the others, or else into halves."""
    rejected = set() if _is_too_large(error) else _rejected_indices(error, len(entries))
    if rejected and len(rejected) < len(entries):
        others = [entry for index, entry in enumerate(entries) if index not in rejected]
        return [others, [entries[index] for index in sorted(rejected)]]
    middle = len(entries) // 2
    return [entries[:middle], entries[middle:]]


def _is_too_large(error: ProblemError) -> bool:
    """Whether the number of documents or bytes was rejected, rather than certain documents."""
    return isinstance(error, PayloadTooLarge) or error.code in _TOO_LARGE_CODES


def _rejected_indices(error: ProblemError, length: int) -> set[int]:
    indices = [_document_index(field.path) for field in error.errors]
    return {index for index in indices if index is not None and index < length}


def _document_index(path: str) -> int | None:
    """The 3 of `$.documents[3].embedding`."""
    head, bracket, rest = path.partition("documents[")
    number, closing, _ = rest.partition("]")
    if head in ("$.", "") and bracket and closing and number.isdecimal():
        return int(number)
    return None
