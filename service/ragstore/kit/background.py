"""Tasks that run in the background, and their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
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
async def in_background(work: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> AsyncIterator[None]:
    """Run a function while the block runs, and cancel it at the end.

    Args:
        name: name of its task.
    """
    task = asyncio.create_task(work(), name=name)
    try:
        yield
    finally:
        await cancel_all([task])
