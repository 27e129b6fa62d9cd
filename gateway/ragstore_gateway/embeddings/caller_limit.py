"""`CallerLimit`: the maximum number of calls of one caller that are in progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from ragstore.kit.context import current_caller
from ragstore_gateway.errors import TooManyEmbeddings


class CallerLimit:
    """Limits the calls of each caller.

    Work outside of requests, such as ingestions, is not limited here: it has limits of its own, and a call that fails
    would only be repeated.

    Args:
        maximum: maximum number for each caller; None for no limit.
    """

    def __init__(self, maximum: int | None) -> None:
        self._maximum = maximum
        self._running: Counter[str] = Counter()

    @contextmanager
    def call(self) -> Iterator[None]:
        """Count a call while the block runs.

        Raises:
            TooManyEmbeddings: the caller has its maximum.
        """
        caller = current_caller()
        if self._maximum is None or caller is None:
            yield
            return
        if self._running[caller] >= self._maximum:
            raise TooManyEmbeddings(
                f"{self._maximum} requests of the key wait for vectors, or compute them, which is its maximum"
            )
        self._running[caller] += 1
        try:
            yield
        finally:
            self._running[caller] -= 1
            if not self._running[caller]:
                del self._running[caller]
