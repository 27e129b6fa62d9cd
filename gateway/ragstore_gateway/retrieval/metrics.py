"""The metrics of searches in knowledge bases, and of HTTP calls."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Histogram

from ragstore.kit.deferred_metrics import BUCKETS

_SEARCHES: Final = Counter(
    "ragstore_gateway_base_searches_total", "Searches of knowledge bases, by outcome.", ["outcome"]
)
_HTTP_CALLS: Final = Counter("ragstore_gateway_http_calls_total", "HTTP calls of assistants, by outcome.", ["outcome"])

SEARCH_SECONDS: Final = Histogram(
    "ragstore_gateway_base_search_seconds", "Time of a search of one knowledge base, in seconds.", buckets=BUCKETS
)
RERANK_FAILURES: Final = Counter(
    "ragstore_gateway_rerank_failures_total", "Rankings of passages that failed; their order is by score then."
)

REWRITE_FAILURES: Final = Counter(
    "ragstore_gateway_rewrite_failures_total",
    "Questions that the model failed to rewrite, and that were searched as they are.",
)

OUTCOMES: Final = ("ok", "timeout", "failed")

# An alert on growth needs the series before the first failure.
for _outcome in OUTCOMES:
    _SEARCHES.labels(_outcome)
    _HTTP_CALLS.labels(_outcome)


def search(error: str) -> None:
    """Count a search.

    Args:
        error: the code of its error; empty for none.
    """
    _SEARCHES.labels(_outcome_of(error)).inc()


def http_call(outcome: str) -> None:
    """Count an HTTP call.

    Args:
        outcome: `ok`, or the code of its error.
    """
    _HTTP_CALLS.labels("ok" if outcome == "ok" else _outcome_of(outcome)).inc()


def _outcome_of(error: str) -> str:
    if not error:
        return "ok"
    return "timeout" if error.endswith("timeout") else "failed"
