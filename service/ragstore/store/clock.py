"""How long a request waits for Chroma."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class StoreClock:
    """Adds up the time of one request in the store. Calls that overlap count once."""

    __slots__ = ("_running", "_started", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._running = 0
        self._started = 0.0

    def enter(self) -> None:
        """A call begins."""
        if self._running == 0:
            self._started = time.perf_counter()
        self._running += 1

    def leave(self) -> None:
        """A call ends."""
        self._running -= 1
        if self._running == 0:
            self.seconds += time.perf_counter() - self._started


_clock: ContextVar[StoreClock | None] = ContextVar("store_clock", default=None)


def new_clock() -> StoreClock:
    """Begin a request.

    Returns:
        The clock that `in_store` runs from now on, in this task and in those it starts.
    """
    clock = StoreClock()
    _clock.set(clock)
    return clock


@contextmanager
def in_store() -> Iterator[None]:
    """Count the time of the block for the request at hand, if there is one."""
    clock = _clock.get()
    if clock is None:
        yield
        return
    clock.enter()
    try:
        yield
    finally:
        clock.leave()
