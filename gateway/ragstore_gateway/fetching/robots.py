"""robots.txt: the rules of a site, with a cache."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from protego import Protego

from ragstore.kit.background import cancel_all
from ragstore_gateway.fetching.errors import RobotsDisallowed
from ragstore_gateway.fetching.fetched import Fetched

MAX_ROBOTS_BYTES: Final = 500 * 1024
"""Size up to which a robots.txt is read, as RFC 9309 has it. The rest is ignored."""

FRESH_SECONDS: Final = 3600.0
"""Time for which a robots.txt is used. RFC 9309 allows a day."""

MAX_SITES: Final = 1000
"""Maximum number of sites in the cache; the site that was not used for the longest time is removed."""

MAX_SITEMAPS: Final = 100

_AGENT_LINE: Final = re.compile(r"\s*user[- ]?agent\b\s*:?\s*([^#]*)", re.IGNORECASE)

_OTHER: Final = "other-robots"


class Robots:
    """The rules of a site for this gateway.

    Args:
        text: the robots.txt.
        user_agent: the gateway's name.
    """

    def __init__(self, text: str, user_agent: str) -> None:
        self._rules = Protego.parse(without_other_robots(text, user_agent))
        self._user_agent = user_agent

    def allows(self, url: str) -> bool:
        """Whether a page may be fetched."""
        return self._rules.can_fetch(url, self._user_agent)

    @property
    def crawl_delay_seconds(self) -> float:
        """The time between two requests that the site wants; 0 if it names none."""
        return self._rules.crawl_delay(self._user_agent) or 0.0

    @property
    def sitemaps(self) -> list[str]:
        """The URLs of its sitemaps, as they are written."""
        return [url for url, _ in zip(self._rules.sitemaps, range(MAX_SITEMAPS), strict=False)]


@dataclass(slots=True)
class _Cached:
    robots: Robots
    since: float


class RobotsCache:
    """Reads the robots.txt of sites, each once at a time, and keeps them for a while. Failures are not kept.

    Args:
        user_agent: the gateway's name.
        read: reads a robots.txt, without regard to robots.txt.
    """

    def __init__(self, user_agent: str, read: Callable[[str], Awaitable[Fetched]]) -> None:
        self._user_agent = user_agent
        self._read = read
        self._sites: OrderedDict[str, _Cached] = OrderedDict()
        self._reading: dict[str, asyncio.Task[Robots]] = {}

    async def of(self, site: str, max_age_seconds: float = FRESH_SECONDS) -> Robots:
        """The rules of a site.

        Args:
            site: its origin, such as `https://example.org`.
            max_age_seconds: how long ago they may have been read.

        Raises:
            RobotsDisallowed: its server failed: RFC 9309 has that nothing may be fetched then.
            FetchError: it cannot be reached.
        """
        cached = self._sites.get(site)
        if cached is not None and asyncio.get_running_loop().time() - cached.since < max_age_seconds:
            self._sites.move_to_end(site)
            return cached.robots
        reading = self._reading.get(site)
        if reading is None:
            reading = asyncio.get_running_loop().create_task(self._load(site), name="read-robots")
            self._reading[site] = reading
            reading.add_done_callback(lambda task: self._done(site, task))
        # Others may wait for the same file, so that a caller that leaves does not cancel it.
        return await asyncio.shield(reading)

    def _done(self, site: str, task: asyncio.Task[Robots]) -> None:
        self._reading.pop(site, None)
        if not task.cancelled():
            # Every caller may have left. asyncio logs an error that was not read.
            task.exception()

    async def close(self) -> None:
        """End what is being read."""
        await cancel_all(self._reading.values())

    async def _load(self, site: str) -> Robots:
        fetched = await self._read(site + "/robots.txt")
        if fetched.status >= 500 or fetched.status == 429:
            raise RobotsDisallowed("The site's robots.txt cannot be read")
        # Without a robots.txt there are no rules.
        text = fetched.body.decode("utf-8", "replace") if fetched.ok else ""
        robots = await asyncio.to_thread(Robots, text, self._user_agent)
        self._sites[site] = _Cached(robots, asyncio.get_running_loop().time())
        self._sites.move_to_end(site)
        while len(self._sites) > MAX_SITES:
            self._sites.popitem(last=False)
        return robots


def without_other_robots(text: str, user_agent: str) -> str:
    """A robots.txt in which all other robots have one name.

    The parser's time is the product of robots and rules of a group, which a hostile file makes large.

    Args:
        text: the robots.txt.
        user_agent: the gateway's name.
    """
    token = user_agent.partition("/")[0].lower()
    return "\n".join(_renamed(line, token) for line in text.splitlines())


def _renamed(line: str, token: str) -> str:
    found = _AGENT_LINE.match(line)
    if found is None:
        return line
    name = found[1].strip().lower()
    if name != "*":
        name = token if name.strip("*").partition("/")[0] == token else _OTHER
    return f"User-agent: {name}"
