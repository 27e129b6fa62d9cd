"""Batch ingestion without I/O: how documents become requests, and what a refused request means for each of them.

The synchronous and the asynchronous driver share this. What is refused for a document's sake is tried again in parts,
until the documents to blame stand alone; what fails for another reason ends the ingestion.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
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

_BLAMES_DOCUMENTS = (BadRequest, Conflict, PayloadTooLarge)


class BatchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How large a request of an ingestion may be.

    Attributes:
        documents: most documents. A service takes 5,461 by default.
        body_bytes: most bytes, but for a single document that is larger. A service takes 64 MiB by default.
        requests: most requests that one batch may cost while the documents to blame are looked for. What is left then
            fails with the last error.
    """

    documents: int = 1000
    body_bytes: int = 8 * 1024 * 1024
    requests: int = 64

    def __post_init__(self) -> None:
        """Refuse limits under which nothing could be sent."""
        if min(self.documents, self.body_bytes, self.requests) < 1:
            raise InvalidInput("the limits of a batch must be at least 1")


class Outcome(msgspec.Struct, frozen=True):
    """What became of one document.

    Attributes:
        index: its place in what was ingested, from 0.
        id: its id; None when it came without.
        error: why it is not known to be stored; None when the service said that it is.
    """

    index: int
    id: str | None
    error: RagstoreError | None = None

    @property
    def stored(self) -> bool:
        """Whether the service said that the document is stored."""
        return self.error is None


class Entry(msgspec.Struct, frozen=True):
    """A document on its way: its place, its id, and its JSON or the reason why it has none."""

    index: int
    id: str | None
    body: bytes = b""
    error: RagstoreError | None = None


class Batch(msgspec.Struct):
    """Documents that leave together."""

    entries: list[Entry] = []
    ids: set[str] = set()
    body_bytes: int = 0


class Delivery(msgspec.Struct, frozen=True):
    """What became of a batch.

    Attributes:
        outcomes: one for each of its documents, in their order.
        failure: what ends the ingestion, if anything.
        fits: how many documents a request may hold, when more were refused and all of them went in parts.
    """

    outcomes: list[Outcome]
    failure: RagstoreError | None = None
    fits: int | None = None


class Batcher:
    """Gathers documents until a batch is full.

    Args:
        limits: how full.
    """

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._most = limits.documents
        self._batch = Batch()
        self._next = 0

    def put(self, document: NewDocument) -> Batch | None:
        """Take a document.

        Args:
            document: the next one.

        Returns:
            The batch before it, when it does not fit in there any more.
        """
        entry = self._entry(document)
        batch = self._batch
        full = len(batch.entries) >= self._most or batch.body_bytes + len(entry.body) > self._limits.body_bytes
        # An id may stand in a request once. The later document must win, so it goes later.
        ready = self.take() if batch.entries and (full or entry.id in batch.ids) else None
        self._batch.entries.append(entry)
        self._batch.body_bytes += len(entry.body) + 1
        if entry.id is not None:
            self._batch.ids.add(entry.id)
        return ready

    def take(self) -> Batch | None:
        """What has been gathered; None when that is nothing."""
        batch, self._batch = self._batch, Batch()
        return batch if batch.entries else None

    def learn(self, delivery: Delivery) -> None:
        """Keep to what the service turned out to take."""
        if delivery.fits is not None:
            self._most = min(self._most, delivery.fits)

    def _entry(self, document: NewDocument) -> Entry:
        index, self._next = self._next, self._next + 1
        if document.id is None:
            return Entry(
                index,
                None,
                error=InvalidInput("a document needs an id to be ingested: it may be sent twice"),
            )
        try:
            return Entry(index, document.id, encode_document(document))
        except InvalidInput as error:
            return Entry(index, document.id, error=error)


Part: TypeAlias = "list[Entry]"


def deliver(batch: Batch, limits: BatchLimits) -> Generator[Part, RagstoreError | None, Delivery]:
    """Bring a batch to the service, in parts where it must be.

    Args:
        batch: what to send.
        limits: how many requests it may cost.

    Yields:
        Entries to send as one request. Send back None when the service took them, or the error.

    Returns:
        What became of each document.
    """
    errors = {entry.index: entry.error for entry in batch.entries}
    sendable = [entry for entry in batch.entries if entry.error is None]
    waiting: deque[Part] = deque([sendable] if sendable else [])
    failure: RagstoreError | None = None
    requests, largest = 0, 0
    while waiting:
        part = waiting.popleft()
        error = yield part
        requests += 1
        if error is None:
            largest = max(largest, len(part))
        elif not isinstance(error, _BLAMES_DOCUMENTS):
            failure = error
            waiting.appendleft(part)
            break
        elif len(part) > 1 and requests + len(waiting) + 2 <= limits.requests:
            waiting.extendleft(reversed(_parts(part, error)))
        else:
            errors.update((entry.index, error) for entry in part)
    if failure is not None:
        errors.update((entry.index, failure) for rest in waiting for entry in rest)
    outcomes = [Outcome(entry.index, entry.id, errors[entry.index]) for entry in batch.entries]
    in_parts = requests > 1 and all(outcome.stored for outcome in outcomes)
    return Delivery(outcomes, failure, largest if in_parts else None)


def _parts(part: Part, error: ProblemError) -> list[Part]:
    """Divide a refused request: those to blame alone, or else in halves."""
    blamed = _blamed(error, len(part))
    if blamed and len(blamed) < len(part):
        rest = [entry for position, entry in enumerate(part) if position not in blamed]
        alone = [part[position] for position in sorted(blamed)]
        return [rest, alone]
    middle = len(part) // 2
    return [part[:middle], part[middle:]]


def _blamed(error: ProblemError, length: int) -> set[int]:
    positions: Sequence[int | None] = [_position(field.path) for field in error.errors]
    return {position for position in positions if position is not None and position < length}


def _position(path: str) -> int | None:
    """The 3 of `$.documents[3].embedding`."""
    head, bracket, rest = path.partition("documents[")
    number, closing, _ = rest.partition("]")
    if head in ("$.", "") and bracket and closing and number.isdecimal():
        return int(number)
    return None
