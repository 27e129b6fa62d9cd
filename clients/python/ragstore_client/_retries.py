"""When a call is retried, and after what delay.

An idempotent call is retried when the connection fails or the service is busy, unavailable or too slow. Any other call
is retried only when it cannot have been applied: no connection was made, the request did not arrive completely, or a
rate limit rejected it. A 503 does not say whether Chroma applied the write before it became unavailable, so `add` is
not retried after one: the second attempt could report the first one's documents as a conflict. `upsert` is the call to
retry.
"""

from __future__ import annotations

import math
import random
import time

import msgspec

from ragstore_client._exceptions import (
    BadGateway,
    ConnectFailed,
    GatewayTimeout,
    InvalidConfiguration,
    ProblemError,
    RagstoreError,
    RequestTimeout,
    TooManyRequests,
    TransportError,
    Unavailable,
)

_NOT_APPLIED = (ConnectFailed, RequestTimeout, TooManyRequests)
_TRANSIENT = (TransportError, RequestTimeout, TooManyRequests, BadGateway, Unavailable, GatewayTimeout)
_UNLIMITED = 1_000_000
_MANY = 100
"""Attempts that only the budget of a policy can be meant to limit."""

_LASTING_CAP = 2.0
"""Maximum delay of a retry that lasts by time: a service that is back is used again soon."""

_MAX_DOUBLINGS = 60
"""A delay that doubles more often exceeds any cap, and in the end the range of a float."""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How calls are retried: exponential backoff with full jitter, within a time budget.

    Attributes:
        attempts: maximum number of attempts of one call; 1 disables retries.
        base: maximum delay before the second attempt, in seconds; it doubles with each further attempt.
        cap: maximum delay before any attempt, in seconds, unless the service sends a longer `Retry-After`.
        budget: seconds after the start of the first attempt within which another attempt may start. With four attempts
            it matters only when the service sends a long `Retry-After`.

    Raises:
        InvalidConfiguration: a value is of another type, negative or not finite, or `attempts` is less than 1.
    """

    attempts: int = 4
    base: float = 0.2
    cap: float = 5.0
    budget: float = 30.0

    def __post_init__(self) -> None:
        """Validate the policy."""
        if type(self.attempts) is not int or self.attempts < 1:
            raise InvalidConfiguration("retries: attempts must be a whole number of at least 1")
        for name in ("base", "cap", "budget"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 <= value < math.inf:
                raise InvalidConfiguration(f"retries: {name} must be a number of seconds, at least 0 and finite")

    def lasting(self, seconds: float) -> RetryPolicy:
        """The policy for work that must outlive a restart of the service: any number of attempts within a time.

        Args:
            seconds: the time.

        Returns:
            The policy; this one when it does not retry at all, or lasts by time already.
        """
        if self.attempts == 1 or self.attempts >= _MANY:
            return self
        return RetryPolicy(attempts=_UNLIMITED, base=self.base, cap=min(self.cap, _LASTING_CAP), budget=seconds)

    def start(self, *, idempotent: bool) -> RetryState:
        """Start a call.

        Args:
            idempotent: whether sending the call twice has the same effect as sending it once.

        Returns:
            The retry state of the call.
        """
        return RetryState(self, idempotent=idempotent)


NO_RETRIES = RetryPolicy(attempts=1)


def parse_retries(retries: RetryPolicy | int | None) -> RetryPolicy:
    """Parse the `retries` argument of a client.

    Args:
        retries: a policy; the number of retries after the first attempt; or None for `RetryPolicy()`.

    Returns:
        The policy.

    Raises:
        InvalidConfiguration: it is none of these.
    """
    if retries is None:
        return RetryPolicy()
    if isinstance(retries, RetryPolicy):
        return retries
    if type(retries) is int and retries >= 0:
        return RetryPolicy(attempts=retries + 1)
    raise InvalidConfiguration("retries must be a RetryPolicy, a number of retries of at least 0, or None")


class RetryState:
    """The attempts of one call."""

    def __init__(self, policy: RetryPolicy, *, idempotent: bool) -> None:
        self._policy = policy
        self._retryable = _TRANSIENT if idempotent else _NOT_APPLIED
        self._started = time.monotonic()
        self.attempt = 1
        self.maybe_applied = False
        """Whether an earlier attempt may have reached the service and taken effect."""

    @property
    def elapsed_seconds(self) -> float:
        """Time since the start of the first attempt."""
        return time.monotonic() - self._started

    def next_delay(self, error: RagstoreError) -> float | None:
        """Decide whether to retry after a failed attempt.

        Args:
            error: the error of the attempt.

        Returns:
            Seconds to wait before the next attempt; None when the call must not be retried.
        """
        if self.attempt >= self._policy.attempts or not isinstance(error, self._retryable):
            return None
        max_delay = min(self._policy.cap, self._policy.base * 2 ** min(self.attempt - 1, _MAX_DOUBLINGS))
        delay = random.uniform(0, max_delay)  # noqa: S311  # jitter need not be unpredictable
        if isinstance(error, ProblemError) and error.retry_after is not None:
            # The jitter is added, so that the callers that were rejected together do not all retry at the same time.
            delay += error.retry_after
        if time.monotonic() - self._started + delay > self._policy.budget:
            return None
        self.maybe_applied = self.maybe_applied or not isinstance(error, _NOT_APPLIED)
        self.attempt += 1
        return delay
