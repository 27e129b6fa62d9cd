"""`Web`: the fetcher, the page reader, search and summaries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from ragstore.kit.errors import InvalidRequest
from ragstore.kit.settings import SettingsError
from ragstore_gateway.chat.assembly import Chat
from ragstore_gateway.embeddings.embedder import Embedder
from ragstore_gateway.extraction.extractor import Extractor
from ragstore_gateway.fetching.errors import FetchError
from ragstore_gateway.fetching.fetcher import Fetcher
from ragstore_gateway.fetching.rules import AllowedHosts, FetchRules
from ragstore_gateway.fetching.urls import read_url
from ragstore_gateway.settings import Settings, variable
from ragstore_gateway.web.pages import PageReader
from ragstore_gateway.web.search import WebSearch
from ragstore_gateway.web.summaries import Summarizer

MARGIN_SECONDS: Final = 5.0
"""Time beyond all limits of a request. With it, each limit ends its own step before the whole request is ended."""


def fetch_rules(settings: Settings) -> FetchRules:
    """The rules of fetching that the settings choose.

    Raises:
        SettingsError: a host or a port is not valid.
    """
    try:
        allowed = AllowedHosts.parse(settings.allow_hosts.split(","))
    except ValueError:
        name = variable("allow_hosts")
        raise SettingsError(f"{name} is wrong: each must be a host, or a host and a port") from None
    ports = [each.strip() for each in settings.fetch_ports.split(",")]
    if not all(each.isdecimal() and 0 < int(each) < 65536 for each in ports):
        raise SettingsError(f"{variable('fetch_ports')} is wrong: each must be a port")
    return FetchRules(
        timeout_seconds=settings.fetch_timeout_seconds,
        max_bytes=settings.fetch_max_bytes,
        max_redirects=settings.fetch_max_redirects,
        max_fetches=settings.fetch_concurrency,
        max_fetches_per_host=settings.fetch_concurrency_per_host,
        ports=frozenset(map(int, ports)),
        allowed=allowed,
        robots=settings.fetch_robots,
    )


def url_check(rules: FetchRules) -> Callable[[str, str], None]:
    """A check of URLs in configurations, as far as it is possible without a lookup of their hosts.

    Args:
        rules: the rules of fetching.

    Returns:
        A function of a URL and of its JSON path, which raises `InvalidRequest` for a URL that is never fetched.
    """

    def check(url: str, path: str) -> None:
        try:
            read_url(url, rules)
        except FetchError as error:
            raise InvalidRequest.at(path, error.detail) from None

    return check


class Web:
    """The parts that the routes of the web use. It works while the block of `running` runs.

    Args:
        chat: the parts of chat, which write summaries.
        extractor: extracts the texts of pages.
        embedder: ranks results.

    Attributes:
        fetcher: fetches pages.
        pages: reads pages.
        search: searches the web.
        summarizer: writes summaries.
        pages_seconds: maximum time for the texts of pages.
        search_seconds: maximum time of a search.
        summary_seconds: maximum time of a summary.

    Raises:
        SettingsError: a host or a port is not valid.
    """

    def __init__(self, settings: Settings, chat: Chat, extractor: Extractor, embedder: Embedder) -> None:
        self.fetcher = Fetcher(fetch_rules(settings))
        self.pages = PageReader(self.fetcher, extractor, settings.extraction_timeout_seconds)
        self.search = WebSearch(settings.searxng_url, embedder, settings.rag_diversity, settings.fetch_timeout_seconds)
        self.summarizer = Summarizer(chat, settings.summary_max_characters)
        self.pages_seconds = self.pages.max_seconds + MARGIN_SECONDS
        # The query and the results are embedded one after the other.
        self.search_seconds = self.search.max_seconds + 2 * settings.embedding_timeout_seconds + MARGIN_SECONDS
        self.summary_seconds = self.pages_seconds + chat.budget_seconds

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Open the connections; close them at the end."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.fetcher.running())
            await stack.enter_async_context(self.search.running())
            yield
