"""`SourceFetching`: crawls websites for sources of type `web`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from operator import attrgetter

from ragstore_gateway.configurations.source import Source
from ragstore_gateway.extraction.extractor import Extractor
from ragstore_gateway.fetching.fetcher import Fetcher
from ragstore_gateway.ingestion.names import name_of_url
from ragstore_gateway.settings import Settings
from ragstore_gateway.sources.crawl import Crawl
from ragstore_gateway.sources.source_kind import SourceKind, Visits
from ragstore_gateway.sources.visit import KnownPages
from ragstore_gateway.web.assembly import fetch_rules
from ragstore_gateway.web.pages import PageReader


class SourceFetching:
    """Crawls websites, over connections of its own: a long crawl would slow down the routes of the web.

    Args:
        extractor: extracts the texts of pages.

    Attributes:
        kind: the type `web`.

    Raises:
        SettingsError: a host or a port of the settings is not valid.
    """

    def __init__(self, settings: Settings, extractor: Extractor) -> None:
        self._fetcher = Fetcher(fetch_rules(settings))
        self._pages = PageReader(self._fetcher, extractor, settings.extraction_timeout_seconds)
        self.kind = SourceKind(self._open, name_of_url, attrgetter("tombstone_after_missed_runs"))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Open the connections; close them at the end."""
        async with self._fetcher.running():
            yield

    def _open(self, base_id: str, source: Source, known: KnownPages) -> Visits:
        assert source.web is not None  # noqa: S101  # the validation of the configuration requires it
        return Crawl(self._fetcher, self._pages, source.web, source.settings, known)
