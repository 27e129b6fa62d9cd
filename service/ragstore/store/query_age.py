"""`QueryAgeStore`: writes say how long ago the last query was.

Embedded Chroma executes one call at a time, so a query waits for the write in progress. A client that writes many
documents sends them in smaller batches while there are queries, also queries of other clients.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from ragstore.kit.context import record_timing
from ragstore.store.layer import StoreLayer, StoreOperation
from ragstore.store.protocol import Store

T = TypeVar("T")

QUERY_AGE: Final = "query-age"
"""Name of the entry of `Server-Timing`."""

MAX_AGE_SECONDS: Final = 60.0
"""Maximum age of a query that writes mention."""

QUERIES: Final = frozenset({"query", "query_exact"})


class QueryAgeStore(StoreLayer):
    """A store whose writes record the age of the last query; see `Store` for the contract of each method.

    Args:
        inner: the store that is wrapped.
        clock: the time in seconds.
    """

    def __init__(self, inner: Store, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(inner)
        self._clock = clock
        self._in_flight = 0
        self._ended_at = float("-inf")

    async def _intercept(self, operation: StoreOperation, name: str | None, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call. A query is noted, and a write records its age: 0 for one in flight."""
        if operation in QUERIES:
            self._in_flight += 1
            try:
                return await call()
            finally:
                self._in_flight -= 1
                self._ended_at = self._clock()
        result = await call()
        if operation == "write":
            age = 0.0 if self._in_flight else self._clock() - self._ended_at
            if age <= MAX_AGE_SECONDS:
                record_timing(QUERY_AGE, age)
        return result
