"""The layer that measures each call to Chroma."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, get_args

from prometheus_client import Counter, Gauge, Histogram

from ragstore.chroma.layers.intercepting import Asked, Operation, WatchingBackend
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
    "Calls to Chroma that failed: away, too slow, or answered with an error of its own.",
    ["reason"],
)


CHROMA_CALLS: Final = Gauge("ragstore_chroma_calls_in_progress", "Calls that Chroma has not answered yet.")


_UNAVAILABLE: Final = CHROMA_FAILURES.labels("unavailable")


_TIMEOUT: Final = CHROMA_FAILURES.labels("timeout")


_ERROR: Final = CHROMA_FAILURES.labels("error")


class MetricsBackend(WatchingBackend):
    """A backend that measures each call to Chroma; see `Backend` for what each method does."""

    _seconds: Final = {
        operation: CHROMA_SECONDS.labels(operation)
        for operation in get_args(Operation)
        if operation != "max_batch_size"
    }

    async def _through(
        self, asked: Asked, call: Callable[[], Awaitable[T]], *, repeatable: bool = True, two_step_read: bool = False
    ) -> T:
        """Make a call, and measure it."""
        started = time.perf_counter()
        record(CHROMA_CALLS.inc)
        try:
            return await call()
        except ChromaUnavailable:
            _UNAVAILABLE.inc()
            raise
        except ChromaTimeout:
            _TIMEOUT.inc()
            raise
        except ServiceError as error:
            if error.status >= 500:  # what is the caller's fault or absent is no failure of Chroma's
                _ERROR.inc()
            raise
        finally:
            record(CHROMA_CALLS.dec)
            record(self._seconds[asked.operation].observe, time.perf_counter() - started)
