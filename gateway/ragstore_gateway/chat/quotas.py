"""Limits of cost for each key: tokens a minute, and concurrent streams."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ragstore_gateway.errors import TokenRateExceeded, TooManyStreams


class TokenQuota:
    """Tokens a minute for each key.

    A request is charged an estimate of its prompt, and its response when it is known, so a key may go into debt once;
    it then waits until the debt is paid.

    Args:
        per_minute: tokens a minute of each key; 0 for no limit.
        clock: the current time in seconds.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._capacity = float(per_minute)
        self._per_second = per_minute / 60.0
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    @property
    def enabled(self) -> bool:
        """Whether there is a limit."""
        return self._capacity > 0

    def admit(self, name: str, tokens: int) -> None:
        """Charge the prompt of a request.

        Args:
            name: the key's name. Only names from the file come here, so the number of buckets is limited.
            tokens: the estimate.

        Raises:
            TokenRateExceeded: the key has too few tokens left.
        """
        if not self.enabled:
            return
        balance = self._balance(name)
        # A prompt that exceeds a whole minute is admitted by a full bucket.
        needed = min(float(tokens), self._capacity)
        if balance < needed:
            raise TokenRateExceeded(max(1, math.ceil((needed - balance) / self._per_second)))
        self.charge(name, tokens)

    def charge(self, name: str, tokens: int) -> None:
        """Charge tokens that were used; a negative number gives some back."""
        if self.enabled:
            balance = min(self._balance(name) - tokens, self._capacity)
            self._buckets[name] = (balance, self._clock())

    def _balance(self, name: str) -> float:
        now = self._clock()
        balance, since = self._buckets.get(name, (self._capacity, now))
        return min(self._capacity, balance + (now - since) * self._per_second)


class StreamQuota:
    """Concurrent streams of each key.

    Args:
        limit: maximum number for each key; 0 for no limit.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._running: dict[str, int] = {}

    @contextmanager
    def slot(self, name: str) -> Iterator[None]:
        """Count a stream while the block runs.

        Args:
            name: the key's name.

        Raises:
            TooManyStreams: the key has its maximum.
        """
        if not self._limit:
            yield
            return
        running = self._running.get(name, 0)
        if running >= self._limit:
            raise TooManyStreams(f"The key has {running} streams in progress, which is its maximum")
        self._running[name] = running + 1
        try:
            yield
        finally:
            left = self._running[name] - 1
            if left:
                self._running[name] = left
            else:
                del self._running[name]
