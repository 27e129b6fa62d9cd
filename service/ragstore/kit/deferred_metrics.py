"""Metrics that are recorded during a request and applied after its response.

Recording appends to a list; applying takes locks and looks up buckets. Records are applied when a response is complete
and before metrics are collected, so a scrape misses none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import REGISTRY, Metric
from prometheus_client.registry import Collector

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Upper bounds of the buckets of duration histograms, in seconds."""

MAX_DEFERRED: Final = 1000
"""Maximum number of records kept. A stream may run for hours without completing a response."""

_records: Final[deque[tuple[Callable[[float], None], float]]] = deque()


def record(metric: Callable[[float], None], value: float = 1) -> None:
    """Record a value, to be applied later.

    Args:
        metric: the `inc` of a counter or gauge, or the `observe` of a histogram.
        value: its argument.
    """
    _records.append((metric, value))
    if len(_records) > MAX_DEFERRED:
        flush()


def flush() -> None:
    """Apply the records."""
    while _records:
        metric, value = _records.popleft()
        metric(value)


class _FlushOnScrape(Collector):
    """Has no metrics of its own. It is collected before the metrics that records are for: they are declared later."""

    def collect(self) -> Iterable[Metric]:
        """Apply the records."""
        flush()
        return ()


REGISTRY.register(_FlushOnScrape())
