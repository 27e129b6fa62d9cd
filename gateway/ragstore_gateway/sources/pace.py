"""`Pace`: how long a crawl waits before a request to a host."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, Protocol

MAX_CRAWL_DELAY_SECONDS: Final = 30.0
"""Maximum of a `Crawl-delay` that is respected."""

MAX_RETRY_AFTER_SECONDS: Final = 120.0
"""Maximum of a `Retry-After` that a crawl waits for."""

DEFAULT_RETRY_SECONDS: Final = 5.0
"""The wait after a response 429 without `Retry-After`."""


class Clock(Protocol):
    """The time of a crawl."""

    def now(self) -> float:
        """The seconds since some moment; they never go back."""

    async def sleep(self, seconds: float) -> None:
        """Wait.

        Args:
            seconds: how long.
        """


class SystemClock:
    """The time of the system."""

    def now(self) -> float:
        """The seconds since some moment."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait.

        Args:
            seconds: how long.
        """
        await asyncio.sleep(seconds)


class Pace:
    """The waits between the requests to each host.

    Args:
        clock: the time.
        delay_seconds: the minimum time between a response and the next request to its host.
    """

    def __init__(self, clock: Clock, delay_seconds: float) -> None:
        self._clock = clock
        self._delay_seconds = delay_seconds
        self._delays: dict[str, float] = {}
        self._next: dict[str, float] = {}

    def slow_down(self, host: str, crawl_delay_seconds: float) -> None:
        """Respect the `Crawl-delay` of a host, if it is the longer delay.

        Args:
            crawl_delay_seconds: its `Crawl-delay`.
        """
        self._delays[host] = max(self._delay_seconds, min(crawl_delay_seconds, MAX_CRAWL_DELAY_SECONDS))

    def wait_seconds(self, host: str) -> float:
        """How long to wait before the next request to a host."""
        return max(0.0, self._next.get(host, 0.0) - self._clock.now())

    def responded(self, host: str) -> None:
        """A request to a host has ended."""
        earliest = self._clock.now() + self._delays.get(host, self._delay_seconds)
        self._next[host] = max(self._next.get(host, 0.0), earliest)

    def hold(self, host: str, seconds: float) -> None:
        """Send no request to a host for some time.

        Args:
            seconds: how long.
        """
        self._next[host] = max(self._next.get(host, 0.0), self._clock.now() + seconds)


def retry_after_seconds(header: str) -> float | None:
    """The seconds of a `Retry-After`.

    Args:
        header: the header, seconds or a date.

    Returns:
        The seconds; None if the header is missing or neither.
    """
    text = header.strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())
