"""`CircuitBreakerBackend`: a circuit breaker between the service and a Chroma that is away.

After some failures in a row, calls are refused at once, so that callers do not queue up behind a dead Chroma. After a
short while one call is let through; when it is answered, all are. A health probe is never refused, and when it is
answered the circuit closes, too.

It is written here because none of the libraries that were looked at fits: aiobreaker seems no longer kept, pybreaker's
asynchronous calls are Tornado's, and purgatory has no way for a probe to close a circuit early. What is needed is less
than the adapter to any of them.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeAlias, TypeVar, get_args
from weakref import WeakSet

import structlog
from prometheus_client import Counter, Gauge

from ragstore.chroma.backend import Backend
from ragstore.chroma.layers.intercepting import Asked, InterceptingBackend
from ragstore.errors import ChromaTimeout, ChromaUnavailable
from ragstore.kit.rejections import REJECTIONS
from ragstore.model.collections import StoreStatus

T = TypeVar("T")

State: TypeAlias = Literal["closed", "open", "trying"]
"""Of a circuit: Chroma is asked; it is not; one call is under way that tells whether it answers again."""

FAILURES: Final = 5
"""Failures in a row that open the circuit."""

OPEN_SECONDS: Final = 1.0
"""How long it stays open before a call is let through, which is what `Retry-After` tells the others."""

OPENED: Final = Counter("ragstore_circuit_openings_total", "Times that a circuit breaker opened.")

_REFUSED: Final = REJECTIONS.labels("circuit_open")

_log = structlog.get_logger(__name__)


class CircuitOpen(ChromaUnavailable):
    """Chroma failed too often to be asked now."""

    code = ChromaUnavailable.code


class CircuitBreakerBackend(InterceptingBackend):
    """A backend that spares a dead Chroma; see `Backend` for what each method does.

    Args:
        inner: the backend that is wrapped.
        clock: tells the time in seconds.
    """

    def __init__(self, inner: Backend, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(inner)
        self._clock = clock
        self._failures = 0
        self._open_until = 0.0
        self._trying = False
        _breakers.add(self)

    @property
    def state(self) -> State:
        """How the circuit is."""
        if self._failures < FAILURES:
            return "closed"
        return "trying" if self._trying else "open"

    async def close(self) -> None:
        """Let go of Chroma."""
        _breakers.discard(self)
        await super().close()

    async def status(self) -> StoreStatus:
        """Ask Chroma how it is, whatever the circuit."""
        status = await self._inner.status()
        self._answered()
        return status

    async def _through(
        self, asked: Asked, call: Callable[[], Awaitable[T]], *, repeatable: bool = True, two_step_read: bool = False
    ) -> T:
        """Make a call, unless the circuit is open."""
        trial = self._failures >= FAILURES
        if trial:
            if self._trying or self._clock() < self._open_until:
                _REFUSED.inc()
                raise CircuitOpen("Chroma cannot be reached; it is asked again soon")
            self._trying = True
        try:
            answer = await call()
        except (ChromaUnavailable, ChromaTimeout):
            self._failed()
            raise
        except Exception:
            self._answered()  # an error that Chroma told is an answer
            raise
        finally:
            # Also when the caller left, which says nothing of Chroma: the next call tries.
            if trial:
                self._trying = False
        self._answered()
        return answer

    def _failed(self) -> None:
        self._failures += 1
        if self._failures >= FAILURES:
            self._open_until = self._clock() + OPEN_SECONDS
        if self._failures == FAILURES:
            OPENED.inc()
            _log.warning("Chroma is not asked for a while", failures=self._failures)

    def _answered(self) -> None:
        if self._failures >= FAILURES:
            _log.info("Chroma answers again")
        self._failures = 0


_breakers: Final[WeakSet[CircuitBreakerBackend]] = WeakSet()


def _in_state(state: State) -> float:
    return sum(breaker.state == state for breaker in _breakers)


CIRCUITS: Final = Gauge("ragstore_circuits", "Circuit breakers, one for each Chroma database in use.", ["state"])
for each in get_args(State):
    # Read when Prometheus asks, so that several databases add up and calls pay nothing.
    CIRCUITS.labels(each).set_function(functools.partial(_in_state, each))
