"""The circuit breaker between the service and a Chroma that is unavailable.

After some consecutive failures the circuit opens: calls are rejected immediately, so that callers do not queue up
behind a dead Chroma. After a short time one call is let through (half-open); if it succeeds, the circuit closes. A
health probe is never rejected, and closes the circuit when it succeeds.

None of the libraries that were considered fits: aiobreaker seems unmaintained, pybreaker's asynchronous calls are
Tornado's, and purgatory has no way for a probe to close a circuit early. The code here is shorter than an adapter to
any of them.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Final, Literal, TypeAlias, TypeVar
from weakref import WeakSet

import structlog
from prometheus_client import Counter, Gauge

from ragstore.chroma.layers.layered_backend import BackendLayer, NextCall
from ragstore.chroma.operations import Operation
from ragstore.errors import ChromaError, ChromaTimeout, ChromaUnavailable
from ragstore.kit.metrics import rejections

T = TypeVar("T")

State: TypeAlias = Literal["closed", "open", "half_open"]
"""Of a circuit: calls are sent; calls are rejected; one call is in flight, whose outcome decides."""

STATE_LABELS: Final[dict[State, str]] = {"closed": "closed", "open": "open", "half_open": "trying"}
"""The states as the metric names them. Its label values are public."""

MAX_FAILURES: Final = 5
"""Consecutive failures that open the circuit."""

OPEN_SECONDS: Final = 1.0
"""Time until a call is let through. The `Retry-After` of rejected calls says the same."""

OPENED: Final = Counter("ragstore_circuit_openings_total", "Times that a circuit breaker opened.")

_REJECTED: Final = rejections("ragstore").labels("circuit_open")

_log = structlog.get_logger(__name__)


class CircuitOpen(ChromaUnavailable):
    """The call was rejected because the circuit is open."""

    code = ChromaUnavailable.code


class CircuitBreakerLayer(BackendLayer):
    """Rejects calls while Chroma is unavailable.

    Args:
        clock: the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._open_until = 0.0
        self._is_half_open = False
        self._is_reported = False
        self._cause = ""
        _breakers.add(self)

    @property
    def state(self) -> State:
        """The circuit's state."""
        if self._failures < MAX_FAILURES:
            return "closed"
        return "half_open" if self._is_half_open else "open"

    def close(self) -> None:
        """Stop counting this circuit in the metrics."""
        _breakers.discard(self)

    async def call(self, next_call: NextCall[T], operation: Operation[T]) -> T:
        """Execute an operation, unless the circuit is open."""
        if operation.is_probe:
            try:
                result = await next_call(operation)
            except ChromaError as error:
                self._report(error)
                raise
            self._record_success()
            return result
        is_trial = self._failures >= MAX_FAILURES
        if is_trial:
            if self._is_half_open or self._clock() < self._open_until:
                _REJECTED.inc()
                raise CircuitOpen("Chroma is unavailable (circuit open); retry shortly").because(self._cause)
            self._is_half_open = True
        try:
            result = await next_call(operation)
        except (ChromaUnavailable, ChromaTimeout) as error:
            self._record_failure(error)
            raise
        except Exception:
            self._record_success()  # an error that Chroma returned is a response
            raise
        finally:
            # Also when the caller was cancelled, which says nothing about Chroma: the next call is the trial.
            if is_trial:
                self._is_half_open = False
        self._record_success()
        return result

    def _report(self, error: ChromaError) -> None:
        """Log the first failure since Chroma last responded, with its cause."""
        if not self._is_reported:
            self._is_reported = True
            _log.warning("chroma unavailable", problem=error.detail, **({"cause": error.cause} if error.cause else {}))

    def _record_failure(self, error: ChromaError) -> None:
        self._report(error)
        self._cause = error.cause
        self._failures += 1
        if self._failures >= MAX_FAILURES:
            self._open_until = self._clock() + OPEN_SECONDS
        if self._failures == MAX_FAILURES:
            OPENED.inc()
            _log.warning("circuit opened", failures=self._failures, problem=error.detail, cause=error.cause)

    def _record_success(self) -> None:
        if self._failures >= MAX_FAILURES:
            _log.info("circuit closed")
        if self._is_reported:
            self._is_reported = False
            _log.info("chroma available")
        self._failures = 0


_breakers: Final[WeakSet[CircuitBreakerLayer]] = WeakSet()


def _count(state: State) -> float:
    return sum(breaker.state == state for breaker in _breakers)


CIRCUITS: Final = Gauge("ragstore_circuits", "Circuit breakers, one for each Chroma database in use.", ["state"])
for each, label in STATE_LABELS.items():
    # Evaluated by the scrape, so that several databases add up and calls pay nothing.
    CIRCUITS.labels(label).set_function(functools.partial(_count, each))
