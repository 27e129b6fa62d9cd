"""`Requests`: when a crawl may send a request, and whether robots.txt allows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from yarl import URL

from ragstore_gateway.configurations.source import SourceSettings, WebSource
from ragstore_gateway.fetching.errors import FetchError
from ragstore_gateway.fetching.fetcher import Fetcher
from ragstore_gateway.fetching.robots import Robots
from ragstore_gateway.sources.pace import DEFAULT_RETRY_SECONDS, MAX_RETRY_AFTER_SECONDS, Clock, Pace
from ragstore_gateway.sources.scope import host_of
from ragstore_gateway.sources.visit import TIME_BUDGET

REQUESTS_PER_PAGE: Final = 3
"""Requests of a crawl for each page that it may have: redirects, duplicates, errors and files without a text."""

FURTHER_REQUESTS: Final = 100


class Stopped(Exception):
    """The crawl has ended before its last page.

    Args:
        reason: why, one word.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Requests:
    """The requests of a crawl.

    Args:
        fetcher: sends them.
        web: the website.
        settings: the limits.
        clock: the time.

    Attributes:
        sent: their number.
    """

    def __init__(self, fetcher: Fetcher, web: WebSource, settings: SourceSettings, clock: Clock) -> None:
        self.sent = 0
        self._fetcher = fetcher
        self._max = REQUESTS_PER_PAGE * web.max_pages + FURTHER_REQUESTS
        self._clock = clock
        self._deadline = clock.now() + 60 * settings.time_budget_minutes
        self._pace = Pace(clock, web.request_delay_ms / 1000)
        self._respects_robots = web.respect_robots and fetcher.rules.robots
        self._robots: dict[str, Robots | None] = {}

    @property
    def seconds_left(self) -> float:
        """The rest of the time budget."""
        return self._deadline - self._clock.now()

    @asynccontextmanager
    async def turn(self, url: str) -> AsyncIterator[None]:
        """Wait until a request may be sent, and count it. The block sends it.

        Args:
            url: where it goes.

        Raises:
            Stopped: the time or the number of requests is used up.
        """
        if self.sent >= self._max:
            raise Stopped("max_requests")
        host = host_of(url)
        seconds = self._pace.wait_seconds(host)
        if seconds >= self.seconds_left:
            raise Stopped(TIME_BUDGET)
        if seconds > 0:
            await self._clock.sleep(seconds)
        self.sent += 1
        try:
            yield
        finally:
            self._pace.responded(host)

    def wait_for(self, url: str, retry_after: float | None) -> bool:
        """Respect the `Retry-After` of a response.

        Args:
            retry_after: its seconds, if the response has any.

        Returns:
            Whether the crawl has the time to wait.
        """
        seconds = DEFAULT_RETRY_SECONDS if retry_after is None else retry_after
        if seconds > MAX_RETRY_AFTER_SECONDS or seconds >= self.seconds_left:
            return False
        self._pace.hold(host_of(url), seconds)
        return True

    async def allows(self, url: str) -> bool | None:
        """Whether robots.txt allows a page. It is read once in a crawl, and not from the cache.

        Args:
            url: the page.

        Returns:
            Whether it does; None if it cannot be read, so that nothing may be fetched from the site.

        Raises:
            Stopped: see `turn`.
        """
        if not self._respects_robots:
            return True
        robots = await self._of(url)
        # 24,000 rules with wildcards take 0.3 s.
        return None if robots is None else await asyncio.to_thread(robots.allows, url)

    async def sitemaps(self, url: str) -> list[str]:
        """The sitemaps that a site's robots.txt names.

        Args:
            url: a page of the site.

        Raises:
            Stopped: see `turn`.
        """
        robots = await self._of(url) if self._respects_robots else None
        return robots.sitemaps if robots else []

    async def _of(self, url: str) -> Robots | None:
        site = str(URL(url).origin())
        if site not in self._robots:
            async with self.turn(url):
                try:
                    robots = await self._fetcher.robots(url, max_age_seconds=0)
                except FetchError:
                    self._robots[site] = None
                else:
                    self._robots[site] = robots
                    self._pace.slow_down(host_of(url), robots.crawl_delay_seconds)
        return self._robots[site]
