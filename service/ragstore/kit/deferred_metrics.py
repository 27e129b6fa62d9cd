"""Counting off the path of a request: what is counted is noted at once, and told to the metrics after the answer.

A note is an entry in a list; a metric takes locks and looks for its bucket. Whoever has answered tells the metrics what
was noted, and so does whoever asks for them: nothing that was noted before is missing then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import REGISTRY, Metric
from prometheus_client.registry import Collector

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Bounds of histograms of time, in seconds."""

MAX_DEFERRED: Final = 1000
"""Notes kept. A stream may go on for hours without an answer that ends."""

_notes: Final[deque[tuple[Callable[[float], None], float]]] = deque()


def note(metric: Callable[[float], None], value: float = 1) -> None:
    """Count something, soon.

    Args:
        metric: takes the value: the `inc` of a counter or gauge, the `observe` of a histogram.
        value: what it is told.
    """
    _notes.append((metric, value))
    if len(_notes) > MAX_DEFERRED:
        flush()


def flush() -> None:
    """Tell the metrics what was noted."""
    while _notes:
        metric, value = _notes.popleft()
        metric(value)


class _FlushOnScrape(Collector):
    """Has no metrics, but is asked before those that notes are for: their modules import this one first."""

    def collect(self) -> Iterable[Metric]:
        """Tell the metrics what was noted."""
        flush()
        return ()


REGISTRY.register(_FlushOnScrape())
