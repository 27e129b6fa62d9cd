"""Repeats work: until the database can be used again, and forever in the background."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import Final, TypeVar

import structlog

from ragstore_gateway.errors import DatabaseUnavailable

FIRST_SECONDS: Final = 0.5
MAX_SECONDS: Final = 30.0

T = TypeVar("T")

_log = structlog.get_logger(__name__)


def backoff(attempt: int, retry_after: float | None = None) -> float:
    """The wait before a further attempt, in seconds.

    Args:
        attempt: the number of attempts that failed, from 1.
        retry_after: the minimum.
    """
    longest = min(MAX_SECONDS, FIRST_SECONDS * 2 ** min(attempt - 1, 10))
    # Spreads callers; it need not be unpredictable.
    return max(retry_after or 0.0, random.uniform(longest / 2, longest))  # noqa: S311


async def repeated(
    work: Callable[[], Awaitable[T]],
    waits: Callable[[DatabaseUnavailable], object],
    max_seconds: float = float("inf"),
) -> T:
    """Do work, repeatedly while the database cannot be used.

    Args:
        work: the work. It may be repeated although its transaction was committed.
        waits: called with the error before each repetition, to log it.
        max_seconds: how long the work is repeated.

    Raises:
        DatabaseUnavailable: the database cannot be used for too long.
    """
    end = monotonic() + max_seconds
    attempt = 0
    while True:
        try:
            return await work()
        except DatabaseUnavailable as error:
            attempt += 1
            seconds = backoff(attempt)
            if monotonic() + seconds > end:
                raise
            waits(error)
        await asyncio.sleep(seconds)


async def forever(
    work: Callable[[], Awaitable[object]], seconds: float, failed: str, woken: asyncio.Event | None = None
) -> None:
    """Do work again and again. A failure is logged, and the next repetition follows.

    Args:
        seconds: the time between two repetitions.
        failed: the event of the log.
        woken: ends the wait for the next repetition.
    """
    woken = woken or asyncio.Event()
    while True:
        woken.clear()
        try:
            await work()
        except DatabaseUnavailable as error:
            _log.warning(failed, error=error.cause)
        except Exception as error:  # noqa: BLE001  # without the repetitions, the work would never be done again
            _log.error(failed, error=type(error).__name__)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await woken.wait()
