"""What the sync and the async ingestion share beyond batches: which are on their way, and how it has gone so far."""

from __future__ import annotations

from collections import deque
from typing import Generic, Protocol, TypeVar

from ragstore_client._batches import Batch, Batcher, Delivery, Outcome
from ragstore_client._exceptions import InvalidInput, RagstoreError


class Pending(Protocol):
    """A batch on its way: a future or a task."""

    def cancel(self) -> bool:
        """Give it up."""
        ...


P = TypeVar("P", bound=Pending)


class Window(Generic[P]):
    """Batches on their way, oldest first.

    Args:
        width: most batches at once.
    """

    def __init__(self, width: int) -> None:
        if width < 1:
            raise InvalidInput("concurrency must be at least 1")
        self._width = width
        self._pending: deque[tuple[Batch, P]] = deque()

    def admits(self, batch: Batch) -> bool:
        """Whether a batch may leave now: there is room, and no id of it is on its way already."""
        return len(self._pending) < self._width and all(batch.ids.isdisjoint(other.ids) for other, _ in self._pending)

    def push(self, batch: Batch, pending: P) -> None:
        """Note a batch that has left."""
        self._pending.append((batch, pending))

    def pop(self) -> P:
        """Take the oldest."""
        return self._pending.popleft()[1]

    def drop(self) -> list[P]:
        """Empty the window."""
        dropped = [pending for _, pending in self._pending]
        self._pending.clear()
        return dropped

    def __bool__(self) -> bool:
        return bool(self._pending)


class Progress:
    """What an ingestion has come to: the error that ends it, once there is one.

    Args:
        batcher: what learns from each delivery.
    """

    def __init__(self, batcher: Batcher) -> None:
        self._batcher = batcher
        self.failure: RagstoreError | None = None
        self.source_failure: Exception | None = None

    def note(self, delivery: Delivery) -> list[Outcome]:
        """Take in what became of a batch."""
        self._batcher.learn(delivery)
        self.failure = self.failure or delivery.failure
        return delivery.outcomes

    def unsent(self, batch: Batch) -> list[Outcome]:
        """What becomes of a batch that is not sent any more."""
        return [Outcome(entry.index, entry.id, entry.error or self.failure) for entry in batch.entries]

    def end(self) -> None:
        """Raise what ended the ingestion, if anything did."""
        ended_by = self.failure or self.source_failure
        if ended_by is not None:
            raise ended_by


def delivered(end: StopIteration) -> Delivery:
    """The result of `deliver`, from the exception that a finished generator raises."""
    delivery: Delivery = end.value
    return delivery
