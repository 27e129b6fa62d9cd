"""What is noted is told to the metrics later, and nothing of it is missing when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client import REGISTRY

from ragstore.kit.deferred_metrics import MAX_DEFERRED, flush, note


@pytest.fixture
def told() -> Iterator[list[float]]:
    """What a metric was told."""
    flush()
    yield []
    flush()


def test_a_metric_is_told_later_and_in_order(told: list[float]) -> None:
    note(told.append, 2)
    note(told.append)
    assert told == []
    flush()
    assert told == [2, 1]


def test_nothing_is_missing_when_the_metrics_are_asked_for(told: list[float]) -> None:
    note(told.append)
    list(REGISTRY.collect())
    assert told == [1]


def test_notes_have_a_bound(told: list[float]) -> None:
    for _ in range(MAX_DEFERRED + 1):
        note(told.append)
    assert len(told) == MAX_DEFERRED + 1
