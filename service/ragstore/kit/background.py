"""Work in the background of a block, and work that a start tries once and the background repeats until it is done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any


async def cancel_all(tasks: Iterable[asyncio.Task[Any] | None]) -> None:
    """Cancel tasks, and wait until they have ended. Their results and errors are dropped.

    Args:
        tasks: the tasks; None is skipped.
    """
    present = [task for task in tasks if task is not None]
    for task in present:
        task.cancel()
    await asyncio.gather(*present, return_exceptions=True)


@asynccontextmanager
async def in_background(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do work while the block runs. At the end of the block, it is cancelled.

    Args:
        work: coroutines. Each has a task of its own. An error of one ends that task only.
    """
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield
    finally:
        await cancel_all(tasks)


@asynccontextmanager
async def attempted(
    attempt: Callable[[], Awaitable[bool]], *, every: float, start_seconds: float | None = None
) -> AsyncIterator[None]:
    """Attempt something before the block, and again while the block runs, until it is done.

    Args:
        attempt: returns whether it is done.
        every: seconds between two attempts.
        start_seconds: maximum time of the attempt before the block; None for no limit.
    """
    done = False
    with suppress(TimeoutError):
        async with asyncio.timeout(start_seconds):
            done = await attempt()
    async with in_background(_repeat(attempt, every, done=done)):
        yield


async def _repeat(attempt: Callable[[], Awaitable[bool]], every: float, *, done: bool) -> None:
    while not done:
        await asyncio.sleep(every)
        done = await attempt()
