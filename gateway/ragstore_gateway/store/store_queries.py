"""`StoreQueries`: when a remote store was queried last, by any of its clients."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Final

import httpx

MEMORY_SECONDS: Final = 60.0
"""How long a query makes further ones likely. The store mentions no older ones."""

_AGE: Final = re.compile(r"(?:^|, )query-age;dur=([0-9.]+)")
"""Milliseconds since the last query, in the `Server-Timing` of a response to a write."""


class StoreQueries:
    """The last query of a store by any process, as far as responses to writes say.

    Args:
        clock: the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known_at = float("-inf")
        self._queried_at = float("-inf")

    async def note(self, response: httpx.Response) -> None:
        """An event hook for responses: notes the last query that a response mentions."""
        if response.request.method != "PUT":
            return
        self._known_at = self._clock()
        if age := _AGE.search(response.headers.get("Server-Timing", "")):
            self._queried_at = self._known_at - float(age[1]) / 1000

    def may_be_within(self, seconds: float) -> bool:
        """Whether the store may have been queried within a time.

        It was, or it was within the last minute and no response to a write is as recent.
        """
        now = self._clock()
        is_stale = now >= self._known_at + seconds
        return now < self._queried_at + (MEMORY_SECONDS if is_stale else seconds)
