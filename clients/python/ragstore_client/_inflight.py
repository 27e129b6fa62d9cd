"""State of a bulk ingestion: the batches in flight, and the error that ends it."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from ragstore_client._batches import Batch, Batcher, Delivery, Outcome
from ragstore_client._exceptions import InvalidInput, RagstoreError
from ragstore_client._report import IngestionReport

TaskT = TypeVar("TaskT")


class InFlight(Generic[TaskT]):
    """Batches in flight, oldest first, each with the task that sends it.

    Args:
        max_batches: maximum number of batches in flight.
    """

    def __init__(self, max_batches: int) -> None:
        if max_batches < 1:
            raise InvalidInput("concurrency must be at least 1")
        self._max_batches = max_batches
        self._batches: deque[tuple[Batch, TaskT]] = deque()

    def admits(self, batch: Batch) -> bool:
        """Whether a batch may be sent now: there is room, and none of its ids is in flight already."""
        return len(self._batches) < self._max_batches and all(
            batch.ids.isdisjoint(other.ids) for other, _ in self._batches
        )

    def push(self, batch: Batch, task: TaskT) -> None:
        """Add a batch."""
        self._batches.append((batch, task))

    def pop(self) -> TaskT:
        """Remove the oldest batch and return its task."""
        return self._batches.popleft()[1]

    def clear(self) -> list[TaskT]:
        """Remove all batches and return their tasks."""
        tasks = [task for _, task in self._batches]
        self._batches.clear()
        return tasks

    def __bool__(self) -> bool:
        return bool(self._batches)


class IngestionProgress:
    """The counts of an ingestion, and the error that ends it, once there is one.

    Args:
        batcher: adjusted to the result of each delivery.
    """

    def __init__(self, batcher: Batcher) -> None:
        self._batcher = batcher
        self._report = IngestionReport()
        self.failure: RagstoreError | None = None
        self.source_failure: Exception | None = None

    def record(self, delivery: Delivery) -> list[Outcome]:
        """Record the delivery of a batch and return its outcomes."""
        self._batcher.adjust(delivery)
        self.failure = self.failure or delivery.failure
        return self._count(delivery.outcomes)

    def unsent(self, batch: Batch) -> list[Outcome]:
        """The outcomes of a batch that is not sent because the ingestion has failed."""
        return self._count([Outcome(entry.index, entry.id, entry.error or self.failure) for entry in batch.entries])

    @property
    def report(self) -> IngestionReport:
        """The counts so far."""
        report = self._report
        report.in_flight = self._batcher.read - report.stored - report.failed
        return report

    def _count(self, outcomes: list[Outcome]) -> list[Outcome]:
        for outcome in outcomes:
            self._report.add(outcome)
        return outcomes

    def raise_failure(self) -> None:
        """Raise the error that ended the ingestion, if any."""
        error = self.failure or self.source_failure
        if error is not None:
            raise error
