"""The metrics of chat."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from ragstore.kit.deferred_metrics import BUCKETS

_UPSTREAM_FAILURES: Final = Counter(
    "ragstore_gateway_upstream_failures_total", "Failed requests to the upstream, by reason.", ["reason"]
)
_RETRIEVALS: Final = Counter("ragstore_gateway_retrievals_total", "Retrievals for chats, by outcome.", ["outcome"])

FIRST_BYTE_SECONDS: Final = Histogram(
    "ragstore_gateway_upstream_first_byte_seconds",
    "Time until the head of an upstream response, in seconds.",
    buckets=(*BUCKETS, 60, 120, 300, 600),
)
RETRIEVAL_SECONDS: Final = Histogram(
    "ragstore_gateway_retrieval_seconds", "Time of a retrieval, embedding included, in seconds.", buckets=BUCKETS
)
INVENTED_CITATIONS: Final = Counter(
    "ragstore_gateway_invented_citations_total", "Citations in responses of sources that the prompt does not have."
)
STREAMS: Final = Gauge("ragstore_gateway_streams_in_progress", "Streams of the upstream in progress.")

UPSTREAM_REASONS: Final = ("unreachable", "disconnected", "timeout", "garbage", "broken", "too_large")
RETRIEVAL_OUTCOMES: Final = (
    "used",
    "disabled",
    "failed",
    "no_match",
    "no_question",
    "no_sources",
    "short_question",
    "task",
    "timeout",
)

# An alert on growth needs the series before the first failure.
for _reason in UPSTREAM_REASONS:
    _UPSTREAM_FAILURES.labels(_reason)
for _outcome in RETRIEVAL_OUTCOMES:
    _RETRIEVALS.labels(_outcome)


def upstream_failure(reason: str) -> None:
    """Count a failed request to the upstream.

    Args:
        reason: one of `UPSTREAM_REASONS`.
    """
    _UPSTREAM_FAILURES.labels(reason).inc()


def retrieval(outcome: str) -> None:
    """Count a retrieval.

    Args:
        outcome: one of `RETRIEVAL_OUTCOMES`; another one is counted as `failed`.
    """
    _RETRIEVALS.labels(outcome if outcome in RETRIEVAL_OUTCOMES else "failed").inc()
