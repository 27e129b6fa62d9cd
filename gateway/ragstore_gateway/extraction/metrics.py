"""The metrics of extraction."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Histogram

from ragstore.kit.deferred_metrics import BUCKETS
from ragstore.kit.errors import UnsupportedMediaType
from ragstore_gateway.errors import (
    DocumentTooLarge,
    EncryptedDocument,
    ExtractionFailed,
    ExtractionTimeout,
    ExtractionUnavailable,
    NoText,
)
from ragstore_gateway.extraction.formats import FORMATS

EXTRACTED: Final = "extracted"
UNKNOWN: Final = "unknown"

FAILURES: Final = {
    kind.code: kind
    for kind in (
        DocumentTooLarge,
        EncryptedDocument,
        ExtractionFailed,
        ExtractionTimeout,
        ExtractionUnavailable,
        NoText,
        UnsupportedMediaType,
    )
}
"""The errors of an extraction by their codes."""

_EXTRACTIONS: Final = Counter(
    "ragstore_gateway_extractions_total",
    "Documents whose text was extracted or not, by format and outcome: `extracted`, or the code of the error.",
    ["format", "outcome"],
)
_SECONDS: Final = Histogram(
    "ragstore_gateway_extraction_seconds",
    "Time of the extraction of a text, in seconds, including the start of its process.",
    ["format"],
    buckets=(*BUCKETS, 60, 120, 300),
)

# An alert on growth needs the series before the first failure.
for _format in (*FORMATS, UNKNOWN):
    for _outcome in (EXTRACTED, *FAILURES):
        _EXTRACTIONS.labels(_format, _outcome)


def extraction(kind: str, outcome: str, seconds: float) -> None:
    """Count an extraction.

    Args:
        kind: the format; one that is not known is counted as `unknown`.
        outcome: `extracted`, or the code of the error.
        seconds: how long it took.
    """
    kind = kind if kind in FORMATS else UNKNOWN
    _EXTRACTIONS.labels(kind, outcome).inc()
    _SECONDS.labels(kind).observe(seconds)
