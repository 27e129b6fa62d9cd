"""The metrics of ingestion."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from ragstore.kit.deferred_metrics import BUCKETS
from ragstore.kit.tracing.spans import span

ENDED: Final = ("completed", "unchanged", "failed", "cancelled")
STEPS: Final = ("plan", "extract", "split", "copy", "embed", "write", "publish", "clean up")
WAITING: Final = ("pending", "processing")

_INGESTIONS: Final = Counter("ragstore_gateway_ingestions_total", "Ingestions that ended, by outcome.", ["outcome"])
_STEP_SECONDS: Final = Histogram(
    "ragstore_gateway_ingestion_step_seconds",
    "Time of a step of an ingestion, in seconds.",
    ["step"],
    buckets=(*BUCKETS, 60, 300),
)
_JOB_DOCUMENTS: Final = Histogram(
    "ragstore_gateway_ingestion_job_documents",
    "Documents of a job of ingestion.",
    buckets=(1, 2, 4, 8, 16, 32),
)
_IN_STATE: Final = Gauge(
    "ragstore_gateway_ingestion_queue_length",
    "Ingestions that have not ended, by state, of all replicas.",
    ["state"],
)
_INTERRUPTED: Final = Counter(
    "ragstore_gateway_ingestions_resumed_total", "Ingestions that were resumed after an interruption."
)
_REMOVALS: Final = Counter(
    "ragstore_gateway_vector_removals_total", "Removals of vectors that nothing refers to, by outcome.", ["outcome"]
)

STRAYS_FOUND: Final = Counter(
    "ragstore_gateway_stray_chunks_found_total",
    "Chunks that searches found in collections of knowledge bases and that belong to no revision.",
)
STRAYS_REMOVED: Final = Counter("ragstore_gateway_stray_chunks_removed_total", "Such chunks that were removed.")

# An alert on growth needs the series before the first failure.
for _outcome in ENDED:
    _INGESTIONS.labels(_outcome)
for _step in STEPS:
    _STEP_SECONDS.labels(_step)
for _state in WAITING:
    _IN_STATE.labels(_state)
for _outcome in ("removed", "failed"):
    _REMOVALS.labels(_outcome)


def ended(outcome: str, count: int = 1) -> None:
    """Count ingestions.

    Args:
        outcome: one of `ENDED`.
        count: their number.
    """
    _INGESTIONS.labels(outcome).inc(count)


def job(documents: int) -> None:
    """Count a job that begins.

    Args:
        documents: number of its documents.
    """
    _JOB_DOCUMENTS.observe(documents)


def resumed() -> None:
    """Count an ingestion that continues after an interruption."""
    _INTERRUPTED.inc()


def removal(outcome: str) -> None:
    """Count a removal of vectors.

    Args:
        outcome: `removed` or `failed`.
    """
    _REMOVALS.labels(outcome).inc()


def waiting(counts: dict[str, int]) -> None:
    """Set the length of the queue.

    Args:
        counts: number of ingestions by state.
    """
    for state in WAITING:
        _IN_STATE.labels(state).set(counts.get(state, 0))


@contextmanager
def step(name: str) -> Iterator[None]:
    """Measure a step. In a traced job, it has a span.

    Args:
        name: one of `STEPS`.
    """
    started = perf_counter()
    try:
        with span(f"ingestion {name}"):
            yield
    finally:
        _STEP_SECONDS.labels(name).observe(perf_counter() - started)
