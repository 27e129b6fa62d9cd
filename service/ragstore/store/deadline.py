"""`DeadlineStore`: a store that ends a call when the budget of its request is used up.

The budget belongs to the request, and is kept in the request's context. This store is the outermost one: a call to
Chroma that several requests share is not cancelled when the first of them expires. An expired request is 504; its write
may still happen, as a whole or not at all. A stream renews its budget with each step.
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
async def within_budget() -> AsyncIterator[None]:
    """Cancel the block when the request's budget is used up. A request without a budget has no limit.

    Raises:
        ChromaTimeout: the budget is used up.
    """
    try:
        budget = current_budget()
        async with asyncio.timeout_at(None if budget is None else budget.ends):
            yield
    except TimeoutError:
        raise ChromaTimeout("Chroma did not respond within the request's time limit") from None


class DeadlineStore(StoreLayer):
    """A store that keeps to the budget of the request; see `Store` for the contract of each method."""

    async def _intercept(self, operation: StoreOperation, name: str | None, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call within the budget."""
        async with within_budget():
            return await call()
