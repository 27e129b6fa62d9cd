"""`DeadlineStore`: a store that answers within its caller's budget.

The budget belongs to the request, so it travels with the request's context, and this store stands outermost: work that
several callers share further in is not ended by the first of them to leave. What expires is 504. A write that expired
may still happen, all of it or nothing. A request that is a stream renews its budget with each step.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from ragstore.errors import ChromaTimeout
from ragstore.kit.context import current_budget
from ragstore.store.layer import StoreLayer, StoreOperation

T = TypeVar("T")


@asynccontextmanager
async def in_time() -> AsyncIterator[None]:
    """End the block when the budget ends; without one, it takes as long as it takes.

    Raises:
        ChromaTimeout: the budget is used up.
    """
    try:
        budget = current_budget()
        async with asyncio.timeout_at(None if budget is None else budget.ends):
            yield
    except TimeoutError:
        raise ChromaTimeout("Chroma did not answer within the request's time") from None


class DeadlineStore(StoreLayer):
    """A store that keeps to its caller's budget; see `Store` for what each method promises."""

    async def _through(self, operation: StoreOperation, name: str | None, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call, as far as the budget goes."""
        async with in_time():
            return await call()
