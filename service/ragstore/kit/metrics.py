"""The metrics that any service has. Each function declares them under a service's prefix, once per process."""

from __future__ import annotations

from functools import cache
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from ragstore.kit.deferred_metrics import BUCKETS

METHODS: Final = frozenset({"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"})
"""Methods with a label of their own. A caller may send any word; all others share one label."""

OTHER: Final = "other"
UNROUTED: Final = "unrouted"
"""Label of responses without a route: unknown paths, wrong methods, rejections, and input that is not HTTP."""


class RequestMetrics:
    """Requests by method, route and status. The series of a label set are looked up once.

    Args:
        prefix: the service's prefix.
    """

    def __init__(self, prefix: str) -> None:
        labels = ["method", "path", "status_code"]
        self.requests = Counter(f"{prefix}_requests_total", "Total requests", labels)
        self.seconds = Histogram(
            f"{prefix}_request_duration_seconds", "Request duration, in seconds", labels, buckets=BUCKETS
        )
        self.in_progress = Gauge(f"{prefix}_requests_in_progress", "Total requests currently in progress")
        self.limit = Gauge(f"{prefix}_requests_in_progress_limit", "Maximum number of requests in progress.")
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a response.

        Args:
            method: the request's method.
            route: template of its path; empty without a route.
            status: the response's status.
            seconds: time until the end of the response.
        """
        requests, durations = self._labelled(method if method in METHODS else OTHER, route or UNROUTED, status)
        requests.inc()
        durations.observe(seconds)

    def count_unparsed(self, status: int) -> None:
        """Count a request that could not be parsed.

        Args:
            status: the response's status.
        """
        self._labelled(OTHER, UNROUTED, status)[0].inc()

    def _labelled(self, *labels: *tuple[str, str, int]) -> tuple[Counter, Histogram]:
        found = self._series.get(labels)
        if found is None:
            found = self._series[labels] = (self.requests.labels(*labels), self.seconds.labels(*labels))
        return found


@cache
def request_metrics(prefix: str) -> RequestMetrics:
    """The metrics of a service's requests.

    Args:
        prefix: the service's prefix.
    """
    return RequestMetrics(prefix)


@cache
def rejections(prefix: str) -> Counter:
    """Work that is rejected because of load or shutdown, by reason.

    A caller declares its own reasons with `labels` when it is imported: an alert on growth needs the series before the
    first rejection.

    Args:
        prefix: the service's prefix.
    """
    return Counter(
        f"{prefix}_refusals_total", "Work rejected because of a limit, an outage or a shutdown, by reason.", ["reason"]
    )


@cache
def dropped_lines(prefix: str) -> Counter:
    """Log lines that were dropped, by kind.

    Args:
        prefix: the service's prefix.
    """
    return Counter(
        f"{prefix}_log_lines_dropped_total",
        "Log lines dropped because the log was not read fast enough, by kind.",
        ["kind"],
    )
