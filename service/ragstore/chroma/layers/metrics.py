"""The layer that measures each call to Chroma."""

from __future__ import annotations

import time
from typing import Final, TypeVar

from prometheus_client import Counter, Gauge, Histogram

from ragstore.chroma.layers.layered_backend import BackendLayer, NextCall
from ragstore.chroma.operations import OPERATIONS, Operation
from ragstore.errors import ChromaTimeout, ChromaUnavailable
from ragstore.kit.deferred_metrics import BUCKETS, record
from ragstore.kit.errors import ServiceError

T = TypeVar("T")

CHROMA_SECONDS: Final = Histogram(
    "ragstore_chroma_duration_seconds",
    "Time of one call to Chroma, failed ones included.",
    ["operation"],
    buckets=BUCKETS,
)

CHROMA_FAILURES: Final = Counter(
    "ragstore_chroma_failures_total",
    "Calls to Chroma that failed: unavailable, too slow, or an error response.",
    ["reason"],
)

CHROMA_CALLS: Final = Gauge("ragstore_chroma_calls_in_progress", "Calls to Chroma in flight.")

_UNAVAILABLE: Final = CHROMA_FAILURES.labels("unavailable")
_TIMEOUT: Final = CHROMA_FAILURES.labels("timeout")
_ERROR: Final = CHROMA_FAILURES.labels("error")
_SECONDS: Final = {kind: CHROMA_SECONDS.labels(kind.name) for kind in OPERATIONS if not kind.is_cached}


class MetricsLayer(BackendLayer):
    """Measures each call to Chroma."""

    def concerns(self, kind: type[Operation[object]]) -> bool:
        """Concerns everything that is a call."""
        return not kind.is_cached

    async def call(self, next_call: NextCall[T], operation: Operation[T]) -> T:
        """Execute an operation and measure it."""
        started = time.perf_counter()
        record(CHROMA_CALLS.inc)
        try:
            return await next_call(operation)
        except ChromaUnavailable:
            _UNAVAILABLE.inc()
            raise
        except ChromaTimeout:
            _TIMEOUT.inc()
            raise
        except ServiceError as error:
            if error.status >= 500:  # a caller's mistake, or something that does not exist, is no failure of Chroma
                _ERROR.inc()
            raise
        finally:
            record(CHROMA_CALLS.dec)
            record(_SECONDS[type(operation)].observe, time.perf_counter() - started)
