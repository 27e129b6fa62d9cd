"""`EmbeddingRequests`: how many requests for embeddings the jobs of each base have sent, or wait to send."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

SLOW_SECONDS: Final = 1.0
"""Time of a request, its wait for a slot included, from which the provider is what jobs wait for."""

REQUESTS_OF_A_JOB: Final = 3
"""Number of requests that a job is expected to send: 32 documents of three chunks each have 96 chunks."""


class EmbeddingRequests:
    """Counts the requests of jobs of this process, by base.

    A job that begins while they wait for the slots of the provider would hold documents that another process could
    embed. If it begins later, it has more documents, and so its requests have more texts.

    Args:
        concurrency: number of requests that a provider gets from this process at a time.

    Attributes:
        on_room: called when a base has room for whose requests `is_full` was true.
    """

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._requests: Counter[str] = Counter()
        self._slow: set[str] = set()
        self._rejected: set[str] = set()
        self.on_room: Callable[[], None] = lambda: None

    def is_full(self, base_id: str, preparing: int) -> bool:
        """Whether the requests of a further job of a base would wait behind others that wait.

        Args:
            preparing: number of jobs of the base that have not sent their requests yet.
        """
        expected = preparing * REQUESTS_OF_A_JOB if base_id in self._slow else 0
        is_full = self._requests[base_id] + expected > self._concurrency
        if is_full:
            self._rejected.add(base_id)
        return is_full

    @contextmanager
    def request(self, base_id: str) -> Iterator[None]:
        """A request, from when it could be sent until its response."""
        self._requests[base_id] += 1
        began = monotonic()
        try:
            # The job that sends it prepares its texts no more.
            self._report_room(base_id)
            yield
        finally:
            self._requests[base_id] -= 1
            if monotonic() - began < SLOW_SECONDS:
                self._slow.discard(base_id)
            else:
                self._slow.add(base_id)
            self._report_room(base_id)
            if not self._requests[base_id]:
                del self._requests[base_id]

    def _report_room(self, base_id: str) -> None:
        if base_id in self._rejected and self._requests[base_id] <= self._concurrency:
            self._rejected.remove(base_id)
            self.on_room()
