"""Batches of an ingestion, without I/O: how documents become requests, and what a rejected request means for them.

The synchronous and the asynchronous ingestion share this module. The documents that a rejection names fail, each with
its own part of the error, and the others are sent again. A rejection that names none is isolated by halving. Documents
of a wrong dimension are told apart here, since a service cannot know which of two dimensions a new collection is meant
to have: the documents of each dimension are sent apart, the most frequent dimension first. So no document fails that
the service has not rejected. Any other error ends the ingestion.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Generator
from typing import Literal, TypeAlias

import msgspec

from ragstore_client._calls import encode_document
from ragstore_client._exceptions import (
    BadRequest,
    Conflict,
    FieldError,
    InvalidInput,
    NotTried,
    PayloadTooLarge,
    ProblemError,
    RagstoreError,
)
from ragstore_client._models import NewDocumentLike
from ragstore_client._options import CallOptions

Mode: TypeAlias = Literal["upsert", "add"]

_REJECTIONS = (BadRequest, Conflict, PayloadTooLarge)
_TOO_LARGE_CODES = frozenset({"batch_too_large", "body_too_large"})
_INDEX = re.compile(r"(?<=documents\[)\d+(?=\])")


class BatchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a request of an ingestion.

    Attributes:
        documents: maximum number of documents. A service accepts 5,461 by default.
        body_bytes: maximum size of the body, except for a single document that is larger. A service accepts 64 MiB by
            default.
        requests: maximum number of requests for one batch while rejected documents are isolated; None for no maximum.
            The documents that have not been sent then fail with `NotTried`.
    """

    documents: int = 1000
    body_bytes: int = 8 * 1024 * 1024
    requests: int | None = None

    def __post_init__(self) -> None:
        """Validate the limits."""
        if min(self.documents, self.body_bytes, self.requests or 1) < 1 or self.requests == 0:
            raise InvalidInput("the limits of a batch must be at least 1")


class IngestOptions(CallOptions, total=False):
    """The options of `ingest`, which describes them."""

    mode: Mode
    concurrency: int
    limits: BatchLimits | None
    retry_seconds: float
    progress: bool


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of one document.

    Attributes:
        index: its index in the ingested documents, from 0.
        id: its id; None when it has none.
        error: why it is not known to be stored; None when the service has confirmed it. A text that is about this
            document begins with its index and its id, and the paths in it count from the first ingested document.
    """

    index: int
    id: str | None
    error: RagstoreError | None = None

    @property
    def stored(self) -> bool:
        """Whether the service has confirmed that the document is stored."""
        return self.error is None


class Entry(msgspec.Struct, frozen=True):
    """A document of a batch: its index, its id, its dimension, and its JSON or the reason why it cannot be sent."""

    index: int
    id: str | None
    body: bytes = b""
    dimension: int = 0
    error: RagstoreError | None = None

    @property
    def name(self) -> str:
        """The document's index and id, for an error."""
        return f"document {self.index}" + ("" if self.id is None else f" ({self.id!r})")


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

    def add(self, document: NewDocumentLike) -> Batch | None:
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

    @property
    def read(self) -> int:
        """Number of documents that were added."""
        return self._next_index

    def _entry(self, document: NewDocumentLike) -> Entry:
        index, self._next_index = self._next_index, self._next_index + 1
        try:
            encoded = encode_document(document, f"$.documents[{index}]")
        except InvalidInput as error:
            unsent = Entry(index, _id_of(document))
            message = InvalidInput(f"{unsent.name}: {error}")
            return Entry(index, unsent.id, error=message)
        if encoded.id is None:
            message = InvalidInput(f"document {index}: a document needs an id to be ingested, as it may be sent twice")
            return Entry(index, None, error=message)
        return Entry(index, encoded.id, encoded.body, encoded.dimension)


def deliver(batch: Batch, limits: BatchLimits) -> Generator[Entries, RagstoreError | None, Delivery]:
    """Deliver a batch to the service, in several requests where necessary.

    Args:
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
        if limits.requests is not None and requests >= limits.requests:
            untried = [entry for rest in pending for entry in rest]
            errors.update((entry.index, NotTried(f"{entry.name}: not tried")) for entry in untried)
            break
        entries = pending.popleft()
        error = yield entries
        requests += 1
        if error is None:
            largest = max(largest, len(entries))
        elif isinstance(error, _REJECTIONS):
            failed, again = _after_rejection(entries, error)
            errors |= failed
            pending.extendleft(reversed(again))
        else:
            failure = error
            pending.appendleft(entries)
            break
    if failure is not None:
        errors.update((entry.index, failure) for rest in pending for entry in rest)
    outcomes = [Outcome(entry.index, entry.id, errors[entry.index]) for entry in batch.entries]
    stored_in_parts = requests > 1 and all(outcome.stored for outcome in outcomes)
    return Delivery(outcomes, failure, largest if stored_in_parts else None)


def result_of(stop: StopIteration) -> Delivery:
    """The result of `deliver`, from the exception that the finished generator raises."""
    delivery: Delivery = stop.value
    return delivery


def _after_rejection(
    entries: Entries, error: BadRequest | Conflict | PayloadTooLarge
) -> tuple[dict[int, RagstoreError | None], list[Entries]]:
    """What follows from a rejected request: the errors of the documents that fail, and the requests to send next."""
    if len(entries) == 1:
        return {entries[0].index: _error_of(entries[0], 0, entries, error)}, []
    if not _is_too_large(error):
        if error.code == "dimension_mismatch":
            groups = _by_dimension(entries)
            if len(groups) > 1:
                return {}, groups
            # All of them have the wrong dimension, and the service may name one only: each gets that one's error.
            at = next(iter(_rejected_indices(error, len(entries))), 0)
            return {entry.index: _error_of(entry, at, [entry] * len(entries), error) for entry in entries}, []
        if rejected := _rejected_indices(error, len(entries)):
            failed = {entries[at].index: _error_of(entries[at], at, entries, error) for at in rejected}
            others = [entry for entry in entries if entry.index not in failed]
            return dict(failed), [others] if others else []
    middle = len(entries) // 2
    return {}, [entries[:middle], entries[middle:]]


def _by_dimension(entries: Entries) -> list[Entries]:
    """The entries of each dimension, the most frequent dimension first."""
    counts = Counter(entry.dimension for entry in entries)
    return [[entry for entry in entries if entry.dimension == dimension] for dimension, _ in counts.most_common()]


def _error_of(entry: Entry, position: int, entries: Entries, error: ProblemError) -> ProblemError:
    """The part of a request's error that concerns one document, with its index in what the caller passed."""

    def renumber(text: str) -> str:
        return _INDEX.sub(lambda match: _index_of(int(match.group()), entries), text)

    own = [field for field in error.errors if _document_index(field.path) == position]
    fields = [FieldError(renumber(field.path), renumber(field.message)) for field in own]
    # The detail of a request may be about another document.
    detail = "; ".join(f"{field.message}: {field.path}" for field in fields) or renumber(str(error))
    copy = type(error)(
        error.status,
        error.title,
        f"{entry.name}: {detail}",
        fields,
        code=error.code,
        type=error.type,
        request_id=error.request_id,
        retry_after=error.retry_after,
    )
    copy.method, copy.url = error.method, error.url
    return copy


def _index_of(position: int, entries: Entries) -> str:
    return str(entries[position].index if position < len(entries) else position)


def _id_of(document: object) -> str | None:
    found = document.get("id") if isinstance(document, dict) else getattr(document, "id", None)
    return found if isinstance(found, str) else None


def _is_too_large(error: ProblemError) -> bool:
    """Whether the number of documents or bytes was rejected, rather than certain documents."""
    return isinstance(error, PayloadTooLarge) or error.code in _TOO_LARGE_CODES


def _rejected_indices(error: ProblemError, length: int) -> list[int]:
    indices = [_document_index(field.path) for field in error.errors]
    return sorted({index for index in indices if index is not None and index < length})


def _document_index(path: str) -> int | None:
    """The 3 of `$.documents[3].embedding`."""
    head, bracket, rest = path.partition("documents[")
    number, closing, _ = rest.partition("]")
    if head in ("$.", "") and bracket and closing and number.isdecimal():
        return int(number)
    return None
