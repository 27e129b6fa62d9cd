"""The metrics of sources. No label names a base or a source: their number is unbounded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prometheus_client import Counter

STATES: Final = ("completed", "incomplete", "failed", "cancelled", "interrupted")
PAGES: Final = ("added", "changed", "unchanged", "missing", "removed", "failed", "skipped")

_RUNS: Final = Counter("ragstore_gateway_source_runs_total", "Runs of sources that ended, by outcome.", ["outcome"])
_PAGES: Final = Counter(
    "ragstore_gateway_source_pages_total",
    "Pages and files of runs of sources that ended in this process, by outcome.",
    ["outcome"],
)

# An alert on growth needs the series before the first failure.
for _outcome in STATES:
    _RUNS.labels(_outcome)
for _outcome in PAGES:
    _PAGES.labels(_outcome)


def ended(outcome: str) -> None:
    """Count a run.

    Args:
        outcome: one of `STATES`.
    """
    _RUNS.labels(outcome).inc()


def pages(counts: Mapping[str, int]) -> None:
    """Count the pages of a run.

    Args:
        counts: the number of pages by outcome; others are ignored.
    """
    for outcome in PAGES:
        _PAGES.labels(outcome).inc(counts.get(outcome, 0))
