"""The outcomes of an ingestion."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ragstore_client._exceptions import RagstoreError
from ragstore_client._options import CallOptions

_SHOWN = 3


class IngestedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a document that was ingested, or could not be.

    Attributes:
        chunks: number of its chunks.
        unchanged: whether the document had this content before, so that nothing was embedded.
        error: why it was not ingested; empty if it was.
        code: the code of the error, if the gateway rejected the document.
    """

    name: str
    chunks: int = 0
    unchanged: bool = False
    error: str = ""
    code: str = ""

    @property
    def ok(self) -> bool:
        """Whether searches find it."""
        return not self.error

    def raise_for_failure(self) -> None:
        """Raise if the document was not ingested.

        Raises:
            DocumentFailed: it was not.
        """
        if self.error:
            raise DocumentFailed([self])


class DocumentProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of an ingestion, as the function `progress` receives it.

    Attributes:
        name: the document; empty for a change of `waiting_for` alone.
        share: the share of the document that is done, 0 to 1.
        ended: whether the document has ended: it was ingested, or has failed. It is reported once for each document.
        waiting_for: what documents of the base wait for, such as `embedding_unavailable`; empty for nothing.
    """

    name: str = ""
    share: float = 0.0
    ended: bool = False
    waiting_for: str = ""


class DocumentIngestOptions(CallOptions, total=False):
    """The options of `ingest`, which describes them."""

    concurrency: int
    progress: Callable[[DocumentProgress], None] | None
    retry_seconds: float
    busy_seconds: float


class DocumentFailed(RagstoreError):
    """Documents were not ingested.

    Attributes:
        failures: their outcomes.
    """

    def __init__(self, failures: list[IngestedDocument]) -> None:
        shown = "; ".join(f"{each.name}: {each.error}" for each in failures[:_SHOWN])
        super().__init__(shown + ("; ..." if len(failures) > _SHOWN else ""))
        self.failures = failures


class DocumentsReport(msgspec.Struct, frozen=True):
    """The outcomes of documents that were ingested together, in their order."""

    documents: list[IngestedDocument]

    @property
    def failures(self) -> list[IngestedDocument]:
        """The outcomes of the documents that were not ingested."""
        return [each for each in self.documents if each.error]

    def raise_for_failures(self) -> None:
        """Raise if a document was not ingested.

        Raises:
            DocumentFailed: it has their outcomes, and names the first ones.
        """
        if failures := self.failures:
            raise DocumentFailed(failures)
