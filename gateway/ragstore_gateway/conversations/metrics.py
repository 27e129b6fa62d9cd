"""The metrics of traces."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from prometheus_client import Counter, Gauge

Outcome: TypeAlias = Literal["written", "failed", "dropped"]

OUTCOMES: Final[tuple[Outcome, ...]] = ("written", "failed", "dropped")

_STEPS: Final = Counter(
    "ragstore_gateway_traced_steps_total",
    "Steps of conversations for the audit ledger, by outcome; `dropped` ones exceeded the queue.",
    ["outcome"],
)
PENDING_STEPS: Final = Gauge("ragstore_gateway_pending_steps", "Steps of conversations that are not written yet.")
PURGED_CONTEXTS: Final = Counter(
    "ragstore_gateway_purged_contexts_total", "Contexts of conversations that were purged after their retention."
)
LEDGER_ENTRIES: Final = Gauge(
    "ragstore_gateway_audit_entries", "Number of the last entry of the audit ledger that this process wrote or read."
)

# An alert on growth needs the series before the first failure.
for _outcome in OUTCOMES:
    _STEPS.labels(_outcome)


def traced(outcome: Outcome, count: int = 1) -> None:
    """Count steps.

    Args:
        count: their number.
    """
    _STEPS.labels(outcome).inc(count)
