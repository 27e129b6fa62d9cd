"""`DeadlineStore`: a store that answers within its caller's budget.

The budget belongs to the request, so it travels with the request's context, and this store stands outermost: work that
several callers share further in is not ended by the first of them to leave. What expires is 504. A write that expired
may still happen, all of it or nothing. A request that is a stream renews its budget with each step.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TypeVar

from ragstore.errors import ChromaTimeout
from ragstore.store.wrapping import StoreOperation, WrappingStore

T = TypeVar("T")


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


@asynccontextmanager
async def in_time() -> AsyncIterator[None]:
    """End the block when the budget ends; without one, it takes as long as it takes.

    Raises:
        ChromaTimeout: the budget is used up.
    """
    try:
        budget = _budget.get()
        async with asyncio.timeout_at(None if budget is None else budget.ends):
            yield
    except TimeoutError:
        raise ChromaTimeout("Chroma did not answer within the request's time") from None


class DeadlineStore(WrappingStore):
    """A store that keeps to its caller's budget; see `Store` for what each method promises."""

    async def _through(self, operation: StoreOperation, name: str | None, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call, as far as the budget goes."""
        async with in_time():
            return await call()
