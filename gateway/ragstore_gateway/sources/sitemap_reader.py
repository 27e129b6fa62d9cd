"""`SitemapReader`: reads the sitemaps of a site."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from yarl import URL

from ragstore_gateway.configurations.source import WebSource
from ragstore_gateway.fetching.errors import FetchError, TooManyRedirects
from ragstore_gateway.fetching.fetched import Fetched
from ragstore_gateway.fetching.fetcher import Fetcher
from ragstore_gateway.sources.requests import Requests
from ragstore_gateway.sources.scope import Scope
from ragstore_gateway.sources.sitemaps import Sitemap, SitemapInvalid, read_sitemap

MAX_SITEMAPS: Final = 50
"""Maximum number of sitemaps of a crawl, indexes included."""

MAX_LISTED: Final = 200_000
"""Maximum number of pages of all sitemaps of a crawl. Each takes 0.1 ms, and a crawl visits 50,000 at most."""

PIECE: Final = 500
"""Maximum number of URLs that a thread resolves at a time, so that others get a thread, too."""

USUAL: Final = "/sitemap.xml"
"""Where a sitemap is looked for if none is named."""

NO_SITEMAP: Final = frozenset({404, 410})


@dataclass(frozen=True, slots=True)
class Listed:
    """The pages of a sitemap.

    Attributes:
        pages: the URLs of its pages in normal form.
        problem: why it may list more pages, one word; empty if it does not.
    """

    pages: tuple[str, ...] = ()
    problem: str = ""


class SitemapReader:
    """Reads the sitemaps that the source and robots.txt name, or else `/sitemap.xml`.

    Args:
        fetcher: fetches them.
        requests: the requests of the crawl.
        scope: the URLs of the source.
        web: the source.
    """

    def __init__(self, fetcher: Fetcher, requests: Requests, scope: Scope, web: WebSource) -> None:
        self._fetcher = fetcher
        self._requests = requests
        self._scope = scope
        self._web = web

    async def read(self, page: str) -> AsyncIterator[Listed]:
        """Read the sitemaps.

        Args:
            page: a page of the site.

        Yields:
            The pages of each of them, up to 500 at a time.

        Raises:
            Stopped: the time or the number of requests is used up.
        """
        named = [*self._web.sitemaps, *await self._requests.sitemaps(page)]
        urls = await asyncio.to_thread(self._scope.resolve_all, named, page)
        waiting = deque(urls or [str(URL(page).join(URL(USUAL)))])
        seen = set(waiting)
        is_named = bool(urls)
        left = MAX_LISTED
        for _ in range(MAX_SITEMAPS):
            if not waiting:
                return
            sitemap, problem = await self._sitemap(waiting.popleft(), is_named=is_named)
            # A sitemap of an index is named by it.
            is_named = True
            is_cut = sitemap.truncated or len(sitemap.pages) > left
            yield Listed(problem=problem or ("max_links" if is_cut else ""))
            for begin in range(0, min(len(sitemap.pages), left), PIECE):
                piece = sitemap.pages[begin : min(begin + PIECE, left)]
                yield Listed(await asyncio.to_thread(self._scope.resolve_all, piece, page))
            left -= min(len(sitemap.pages), left)
            if len(seen) <= MAX_SITEMAPS:
                # One more than are read shows that there are more.
                children = await asyncio.to_thread(self._scope.resolve_all, sitemap.sitemaps, page)
                found = [child for child in children if child not in seen][: MAX_SITEMAPS + 1 - len(seen)]
                seen.update(found)
                waiting.extend(found)
            if sitemap.has_more_sitemaps:
                yield Listed(problem="max_sitemaps")
        if waiting:
            yield Listed(problem="max_sitemaps")

    async def _sitemap(self, url: str, *, is_named: bool) -> tuple[Sitemap, str]:
        """A sitemap, and why it cannot be read. The absence of one is no problem."""
        failed = "sitemap_failed"
        try:
            response = await self._fetch(url)
        except FetchError:
            return Sitemap(), failed
        if response is None:
            return Sitemap(), failed if is_named else ""
        if not response.ok:
            # A server that fails may have one.
            exists = response.status not in NO_SITEMAP if is_named else response.status >= 500
            return Sitemap(), failed if exists else ""
        try:
            return await asyncio.to_thread(read_sitemap, response.body), ""
        except SitemapInvalid:
            # Some sites respond to every URL with a page.
            return Sitemap(), failed if is_named else ""

    async def _fetch(self, url: str) -> Fetched | None:
        """The response at the end of all redirects; None if robots.txt does not allow one of the URLs.

        Each redirect may lead to another path or another site, whose robots.txt decides about it. Each request waits
        for its turn and is counted.

        Raises:
            FetchError: a request failed, or there are too many redirects.
            Stopped: the time or the number of requests is used up.
        """
        for _ in range(self._fetcher.rules.max_redirects + 1):
            if not await self._requests.allows(url):
                return None
            async with self._requests.turn(url):
                response = await self._fetcher.fetch(
                    url,
                    timeout_seconds=self._web.timeout_seconds,
                    # It was checked above.
                    robots=False,
                    redirects=False,
                )
            if not response.location:
                return response
            url = response.location
        raise TooManyRedirects("The sitemap has too many redirects")
