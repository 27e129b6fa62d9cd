"""Rate limits by key."""

from __future__ import annotations

import math
import time

from ragstore.kit.errors import RateLimited


class TokenBuckets:
    """One token bucket per key. It refills evenly and holds the requests of a minute.

    Litestar's rate limiter stores the time of each request of the window as JSON and rewrites it every time, under one
    lock, and sends no `Retry-After`; a token bucket is two numbers.

    Args:
        rate: requests per minute.
    """

    def __init__(self, rate: int) -> None:
        self._capacity = float(rate)
        self._per_second = rate / 60.0
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> None:
        """Take one token from a key's bucket.

        Args:
            name: the key's name. Only names from the file come here, so the number of buckets is limited.

        Raises:
            RateLimited: the bucket is empty.
        """
        now = time.monotonic()
        tokens, since = self._buckets.get(name, (self._capacity, now))
        tokens = min(self._capacity, tokens + (now - since) * self._per_second)
        if tokens < 1.0:
            self._buckets[name] = (tokens, now)
            raise RateLimited(math.ceil((1.0 - tokens) / self._per_second))
        self._buckets[name] = (tokens - 1.0, now)
