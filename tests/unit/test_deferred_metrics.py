"""Deferred metrics are applied later, in order, and before a scrape."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client import REGISTRY

from ragstore.kit.deferred_metrics import MAX_DEFERRED, flush, record


@pytest.fixture
def applied() -> Iterator[list[float]]:
    """The values that a metric received."""
    flush()
    yield []
    flush()


def test_records_are_applied_later_and_in_order(applied: list[float]) -> None:
    record(applied.append, 2)
    record(applied.append)
    assert applied == []
    flush()
    assert applied == [2, 1]


def test_a_scrape_misses_no_record(applied: list[float]) -> None:
    record(applied.append)
    list(REGISTRY.collect())
    assert applied == [1]


def test_the_number_of_records_is_limited(applied: list[float]) -> None:
    for _ in range(MAX_DEFERRED + 1):
        record(applied.append)
    assert len(applied) == MAX_DEFERRED + 1
