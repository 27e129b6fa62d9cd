"""`attempted`: work that a start tries once, and a task in the background repeats until it is done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress

from ragstore.kit.background import in_background


@asynccontextmanager
async def attempted(
    attempt: Callable[[], Awaitable[bool]], *, every: float, name: str, start_seconds: float | None = None
) -> AsyncIterator[None]:
    """Attempt something before the block, and again while the block runs, until it is done.

    Args:
        attempt: returns whether it is done.
        every: seconds between two attempts.
        name: name of the task that repeats it.
        start_seconds: maximum time of the attempt before the block; None for no limit.
    """
    done = False
    with suppress(TimeoutError):
        async with asyncio.timeout(start_seconds):
            done = await attempt()
    async with nullcontext() if done else in_background(lambda: _repeat(attempt, every), name=name):
        yield


async def _repeat(attempt: Callable[[], Awaitable[bool]], every: float) -> None:
    done = False
    while not done:
        await asyncio.sleep(every)
        done = await attempt()
