"""Waits for something that happens in another task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

LONGEST_SECONDS = 10.0


async def until(happened: Callable[[], bool]) -> None:
    """Wait until something has happened.

    Args:
        happened: whether it has.

    Raises:
        TimeoutError: it has not within ten seconds.
    """
    async with asyncio.timeout(LONGEST_SECONDS):
        while not happened():  # noqa: ASYNC110  # what happens sets no event
            await asyncio.sleep(0.005)
