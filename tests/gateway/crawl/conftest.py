"""Crawls of a site of this machine, with a clock that does not wait."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest

from ragstore_gateway.configurations.source import SourceSettings, WebSource
from ragstore_gateway.extraction.extractor import Extractor
from ragstore_gateway.fetching.fetcher import Fetcher
from ragstore_gateway.sources.crawl import Crawl
from ragstore_gateway.sources.visit import CrawlEnd, KnownPage, Visit
from ragstore_gateway.web.pages import PageReader
from tests.gateway.extraction.conftest import LIMITS, running
from tests.gateway.web.fetchers import PUBLIC, a_fetcher
from tests.support.changing_site import ChangingSite, changing_site
from tests.support.process_fixtures import starts_process

SETTINGS = frozenset(SourceSettings.__struct_fields__)


@pytest.fixture(scope="package")
@starts_process
async def extractor() -> AsyncIterator[Extractor]:
    """A running extractor."""
    async with running(LIMITS) as started:
        yield started


@pytest.fixture(scope="package")
def served_site() -> Iterator[ChangingSite]:
    """The site, for all tests."""
    with changing_site(PUBLIC) as site:
        yield site


@pytest.fixture
def site(served_site: ChangingSite) -> ChangingSite:
    """The site without any page."""
    served_site.clear()
    return served_site


@dataclass
class FakeClock:
    """A clock whose time passes only while the crawl waits."""

    time: float = 0.0
    waits: list[float] = field(default_factory=list)

    def now(self) -> float:
        """The time."""
        return self.time

    async def sleep(self, seconds: float) -> None:
        """Let the time pass."""
        self.waits.append(seconds)
        self.time += seconds


@dataclass
class Crawled:
    """A crawl that has ended.

    Attributes:
        origin: the address of the site.
    """

    visits: list[Visit]
    end: CrawlEnd
    origin: str

    @property
    def outcomes(self) -> dict[str, str]:
        """The outcome of each page by its path, with the reason if there is one."""
        return {visit.url.removeprefix(self.origin): f"{visit.outcome} {visit.reason}".strip() for visit in self.visits}

    def visit(self, path: str) -> Visit:
        """The visit of a page."""
        (found,) = (visit for visit in self.visits if visit.url == self.origin + path)
        return found


@dataclass
class Crawler:
    """Crawls the site, and keeps the pages for the next crawl.

    Attributes:
        extractor: extracts texts.
        known: the pages of earlier crawls.
        clock: the clock of the next crawl.
        names: addresses of further names, see `a_fetcher`.
        rules: rules of the fetcher.
        fetcher: the fetcher of all crawls; each has one of its own when None.
    """

    site: ChangingSite
    extractor: Extractor
    known: dict[str, KnownPage] = field(default_factory=dict)
    clock: FakeClock = field(default_factory=FakeClock)
    names: dict[str, list[list[str]]] = field(default_factory=dict)
    rules: dict[str, Any] = field(default_factory=dict)
    fetcher: Fetcher | None = None

    async def lookup(self, url: str) -> KnownPage | None:
        """A page of an earlier crawl."""
        return self.known.get(url)

    async def crawl(self, start: str = "/", **fields: Any) -> Crawled:
        """Crawl the site with fields of the source, whose delay is none unless there is one."""
        settings = SourceSettings(**{name: fields.pop(name) for name in SETTINGS & set(fields)})
        url = start if start.startswith("http") else self.site.origin + start
        web = WebSource(start_url=url, **{"request_delay_ms": 0, **fields})
        self.clock = FakeClock()
        self.site.requests.clear()
        own = a_fetcher(self.site, names=self.names, **{"robots": True, **self.rules})
        async with nullcontext(self.fetcher) if self.fetcher else own as fetcher:
            crawl = Crawl(fetcher, PageReader(fetcher, self.extractor, 60), web, settings, self.lookup, self.clock)
            visits = [visit async for visit in crawl.visits()]
        self.known.update({visit.url: visit.known for visit in visits if visit.outcome in ("changed", "unchanged")})
        return Crawled(visits, crawl.end, self.site.origin)


@pytest.fixture
def crawler(site: ChangingSite, extractor: Extractor) -> Crawler:
    """A crawler that knows nothing."""
    return Crawler(site, extractor)
