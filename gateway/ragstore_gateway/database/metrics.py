"""The metrics of the database."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from prometheus_client import Counter

from ragstore.kit.data_volume import DataVolume

Reason: TypeAlias = Literal["full", "unavailable"]

VOLUME: Final = DataVolume("ragstore_gateway")

_FAILURES: Final = Counter(
    "ragstore_gateway_database_failures_total",
    "Transactions and probes that failed because the database is `unavailable` or its disk is `full`.",
    ["reason"],
)

# An alert on growth needs the series before the first failure.
for _reason in ("full", "unavailable"):
    _FAILURES.labels(_reason)


def failed(reason: Reason) -> None:
    """Count a failure of the database."""
    _FAILURES.labels(reason).inc()
