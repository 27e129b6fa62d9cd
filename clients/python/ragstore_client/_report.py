"""The report of an ingestion."""

from __future__ import annotations

import msgspec

from ragstore_client._batches import Outcome
from ragstore_client._exceptions import RagstoreError

MAX_FAILURES = 10_000
"""Maximum number of failures that a report keeps, so that an ingestion of any size fits into memory."""

_SHOWN = 3


class IngestionReport(msgspec.Struct):
    """The counts and the failures of an ingestion, so far or at its end.

    Attributes:
        stored: number of documents that the service has confirmed.
        failed: number of documents that failed.
        in_flight: number of documents that were read and whose outcome is not known, which is 0 at the end. After an
            interruption some of them may be stored.
        failures: the outcomes of the documents that failed, at most 10,000 of them.
    """

    stored: int = 0
    failed: int = 0
    in_flight: int = 0
    failures: list[Outcome] = []

    @property
    def total(self) -> int:
        """Number of documents that were read."""
        return self.stored + self.failed + self.in_flight

    def add(self, outcome: Outcome) -> None:
        """Count an outcome."""
        if outcome.stored:
            self.stored += 1
            return
        self.failed += 1
        if len(self.failures) < MAX_FAILURES:
            self.failures.append(outcome)

    def raise_for_failures(self) -> None:
        """Raise if a document failed.

        Raises:
            IngestionFailed: it has this report, and names the first failures.
        """
        if self.failed:
            first = self.failures[0].error
            raise IngestionFailed(str(self), self) from first

    def __str__(self) -> str:
        """The counts, and the first failures."""
        counts = f"{self.stored:,} of {self.total:,} documents stored, {self.failed:,} failed"
        if self.in_flight:
            counts += f", {self.in_flight:,} in flight"
        shown = [str(outcome.error) for outcome in self.failures[:_SHOWN]]
        more = ["..."] if self.failed > _SHOWN else []
        return ": ".join([counts, "; ".join(shown + more)]) if shown else counts


class IngestionFailed(RagstoreError):
    """Documents of an ingestion were not stored.

    Attributes:
        report: the counts and the failures.
    """

    def __init__(self, message: str, report: IngestionReport) -> None:
        super().__init__(message)
        self.report = report


class IngestionInterrupted(KeyboardInterrupt):
    """Ctrl-C has ended `ingest_all`.

    Attributes:
        report: what is known to be stored, what failed, and how many documents were in flight.
    """

    def __init__(self, report: IngestionReport) -> None:
        super().__init__(str(report))
        self.report = report
