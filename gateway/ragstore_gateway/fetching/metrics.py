"""The metrics of fetching."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Histogram

from ragstore.kit.deferred_metrics import BUCKETS
from ragstore_gateway.fetching import errors

FETCHED: Final = "fetched"
ERROR_STATUS: Final = "error_status"
CANCELLED: Final = "cancelled"

OUTCOMES: Final = (
    FETCHED,
    ERROR_STATUS,
    CANCELLED,
    *(
        kind.code
        for kind in (
            errors.UrlRefused,
            errors.AddressRefused,
            errors.RobotsDisallowed,
            errors.Unreachable,
            errors.FetchTimeout,
            errors.TooManyRedirects,
            errors.ResponseTooLarge,
            errors.ResponseInvalid,
        )
    ),
)

_FETCHES: Final = Counter(
    "ragstore_gateway_fetches_total",
    "Fetches of addresses from outside, by outcome: `fetched`, `error_status`, `cancelled`, or the code of the error.",
    ["outcome"],
)
_SECONDS: Final = Histogram(
    "ragstore_gateway_fetch_seconds",
    "Time of a fetch, redirects and robots.txt included, in seconds.",
    buckets=(*BUCKETS, 60),
)

# An alert on growth needs the series before the first failure.
for _outcome in OUTCOMES:
    _FETCHES.labels(_outcome)


def fetch(outcome: str, seconds: float) -> None:
    """Count a fetch.

    Args:
        outcome: one of `OUTCOMES`.
        seconds: how long it took.
    """
    _FETCHES.labels(outcome).inc()
    _SECONDS.observe(seconds)
