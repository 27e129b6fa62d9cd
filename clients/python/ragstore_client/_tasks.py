"""Ends tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

GRACE_SECONDS = 0.025
"""How long a cancelled task may take to end before it is left to itself."""


async def cancel(tasks: Iterable[asyncio.Task[T]]) -> None:
    """Cancel tasks and wait for them to end, for a short time.

    Args:
        tasks: the tasks, done or not. A task that suppresses its cancellation is left to itself, and its exception is
            not logged: asyncio's message would contain a text of a server.
    """
    pending = [task for task in tasks if not task.done()]
    for task in pending:
        task.add_done_callback(_retrieve_exception)
        task.cancel()
    if pending:
        await asyncio.wait(pending, timeout=GRACE_SECONDS)


def _retrieve_exception(task: asyncio.Task[T]) -> None:
    if not task.cancelled():
        task.exception()
