"""When to try again, and how long to wait before.

A call that is idempotent is tried again when the connection fails or the service says it is busy, away or too slow. One
that is not is tried again only when nothing can have happened: no connection was made, or a rate limit refused it. A
503 does not say whether Chroma took the write before it went away, so `add` is not repeated after one: its second try
could report its own first as a conflict. `upsert` is the call to repeat.
"""

from __future__ import annotations

import random
import time

import msgspec

from ragstore_client._exceptions import (
    BadGateway,
    ConnectFailed,
    GatewayTimeout,
    ProblemError,
    RagstoreError,
    TooManyRequests,
    TransportError,
    Unavailable,
)

_NOTHING_HAPPENED = (ConnectFailed, TooManyRequests)
_MAY_PASS = (TransportError, TooManyRequests, BadGateway, Unavailable, GatewayTimeout)


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How a client tries again: exponential waits with full jitter, within a budget.

    Attributes:
        attempts: most tries of one call; 1 never tries again.
        base: longest wait before the second try, in seconds; it doubles with each further one.
        cap: longest wait before any try, in seconds, unless the service asks for more by `Retry-After`.
        budget: seconds after the first try began within which another may begin.
    """

    attempts: int = 4
    base: float = 0.2
    cap: float = 5.0
    budget: float = 30.0

    def start(self, *, idempotent: bool) -> Retrying:
        """Begin a call.

        Args:
            idempotent: whether doing it twice is the same as doing it once.

        Returns:
            What decides after each failed try of this call.
        """
        return Retrying(self, idempotent=idempotent)


NO_RETRIES = RetryPolicy(attempts=1)


class Retrying:
    """The tries of one call."""

    def __init__(self, policy: RetryPolicy, *, idempotent: bool) -> None:
        self._policy = policy
        self._repeatable = _MAY_PASS if idempotent else _NOTHING_HAPPENED
        self._started = time.monotonic()
        self.attempt = 1
        self.maybe_applied = False
        """Whether an earlier try may have reached the service and taken effect."""

    def wait_after(self, error: RagstoreError) -> float | None:
        """Decide what follows a failed try.

        Args:
            error: what the try ended in.

        Returns:
            Seconds to wait before the next try; None when there must be none.
        """
        if self.attempt >= self._policy.attempts or not isinstance(error, self._repeatable):
            return None
        most = min(self._policy.cap, self._policy.base * 2 ** (self.attempt - 1))
        wait = random.uniform(0, most)  # noqa: S311  # nobody gains by guessing it
        if isinstance(error, ProblemError) and error.retry_after is not None:
            # The jitter comes on top, so that all who were sent away do not come back at once.
            wait += error.retry_after
        if time.monotonic() - self._started + wait > self._policy.budget:
            return None
        self.maybe_applied = self.maybe_applied or not isinstance(error, _NOTHING_HAPPENED)
        self.attempt += 1
        return wait
