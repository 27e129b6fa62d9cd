"""What belongs to the request in progress: its deadline, the time it spends in the store, and its audit record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar


class AuditRecord:
    """What the stores tell of one request.

    Attributes:
        told: whether there is something to tell.
        collection: the collection that was written to, or refused.
        count: how many documents were written or deleted, or how many collections refused; None when not known.
        status: how it ended, where that was known only after the answer had begun; else None.
    """

    __slots__ = ("collection", "count", "status", "told")

    def __init__(self) -> None:
        self.told = False
        self.collection = ""
        self.count: int | None = None
        self.status: int | None = None


_trail: ContextVar[AuditRecord | None] = ContextVar("audit_trail", default=None)


def new_audit_record() -> AuditRecord:
    """Begin a request.

    Returns:
        The trail that `wrote` and `refused` fill from now on, in this task and in those it starts.
    """
    trail = AuditRecord()
    _trail.set(trail)
    return trail


def wrote(collection: str, count: int | None = None) -> None:
    """Tell of a write, before it is tried or once it is done.

    Args:
        collection: the collection's name.
        count: how many documents; None when not known.
    """
    trail = _trail.get()
    if trail is not None:
        trail.told = True
        trail.collection = collection
        trail.count = count


def wrote_more(collection: str, count: int) -> None:
    """Tell of one of the batches of a request, before it is tried.

    Args:
        collection: the collection's name.
        count: how many documents.
    """
    trail = _trail.get()
    if trail is not None:
        wrote(collection, (trail.count or 0) + count)


def ended(status: int) -> None:
    """Tell how a request ended whose answer had begun before.

    Args:
        status: the status that it would have had.
    """
    trail = _trail.get()
    if trail is not None:
        trail.status = status


def refused(collection: str) -> None:
    """Tell that a collection was kept from a key.

    Args:
        collection: the collection's name; of several the first is told.
    """
    trail = _trail.get()
    if trail is not None:
        trail.told = True
        trail.collection = trail.collection or collection
        trail.count = (trail.count or 0) + 1


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


class Budget:
    """How long a request, or the step that it is at, may still take.

    Args:
        seconds: how long it lasts.

    Attributes:
        ends: when it ends, in the event loop's time.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._limits: dict[asyncio.Timeout, float] = {}
        self.ends = asyncio.get_running_loop().time() + seconds

    def renew(self) -> None:
        """Begin it anew, also for what it limits already."""
        self.ends = asyncio.get_running_loop().time() + self._seconds
        for limit, grace in self._limits.items():
            if not limit.expired():
                limit.reschedule(self.ends + grace)

    @asynccontextmanager
    async def limit(self, grace: float = 0.0) -> AsyncIterator[asyncio.Timeout]:
        """End the block when the budget ends, later where it is renewed before.

        Args:
            grace: seconds that the block gets beyond.

        Yields:
            The timeout, which tells whether it has expired.

        Raises:
            TimeoutError: the budget is used up.
        """
        async with asyncio.timeout_at(self.ends + grace) as limit:
            self._limits[limit] = grace
            try:
                yield limit
            finally:
                del self._limits[limit]


_budget: ContextVar[Budget | None] = ContextVar("budget", default=None)


def set_deadline(seconds: float) -> Budget:
    """Begin a budget for this task and those it starts.

    Args:
        seconds: how long it lasts.

    Returns:
        The budget.
    """
    budget = Budget(seconds)
    _budget.set(budget)
    return budget


def renew_deadline() -> None:
    """Begin the budget of the request at hand anew, if it has one."""
    budget = _budget.get()
    if budget is not None:
        budget.renew()
