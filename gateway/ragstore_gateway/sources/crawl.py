"""`Crawl`: visits the pages of a website, without any database.

A crawl reads robots.txt, the start page and the sitemaps. Then it follows links, breadth first. It sends one request at
a time. A page is identified by the URL that serves it, after all redirects.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import structlog

from ragstore_gateway.configurations.source import SourceSettings, WebSource
from ragstore_gateway.errors import ExtractionTimeout, ExtractionUnavailable
from ragstore_gateway.fetching.errors import FetchError, FetchTimeout, ResponseInvalid, TooManyRedirects, Unreachable
from ragstore_gateway.fetching.fetcher import Fetcher
from ragstore_gateway.sources.frontier import Candidate, Frontier
from ragstore_gateway.sources.pace import Clock, SystemClock
from ragstore_gateway.sources.reading import PageVisitor, Reading
from ragstore_gateway.sources.requests import Requests, Stopped
from ragstore_gateway.sources.scope import Scope, host_of
from ragstore_gateway.sources.sitemap_reader import SitemapReader
from ragstore_gateway.sources.visit import CrawlEnd, KnownPage, KnownPages, Outcome, Visit
from ragstore_gateway.web.pages import PageReader

PERMANENT: Final = frozenset({301, 308})
"""Redirects of pages that have moved permanently."""

RATE_LIMITED: Final = 429
MAX_RATE_LIMITED: Final = 3
"""Pages that a host rejects with 429 in spite of a wait, after which it gets no further request."""

LINKS_PIECE: Final = 500
"""Maximum number of links that a thread checks at a time. Together they would stop the event loop for up to 1 s."""

DOCUMENTS: Final = frozenset[Outcome]({"changed", "unchanged"})

_TRANSIENT: Final = frozenset({FetchTimeout.code, Unreachable.code, ResponseInvalid.code, ExtractionUnavailable.code})

_Canonical: TypeAlias = Literal["own", "copy", "later"]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Visited:
    """The decisions of a visit.

    Attributes:
        final: the page at the end of all redirects.
        visits: the visits to report: redirects, the page, and its copies.
    """

    final: Visit
    visits: tuple[Visit, ...]


class Crawl:
    """One crawl of a website.

    Args:
        fetcher: fetches pages.
        pages: extracts their texts.
        web: the website.
        settings: the limits.
        known: finds pages of earlier crawls.
        clock: the time; the system's when None.

    Attributes:
        end: how it ended. It is not complete before `visits` is exhausted.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        pages: PageReader,
        web: WebSource,
        settings: SourceSettings,
        known: KnownPages,
        clock: Clock | None = None,
    ) -> None:
        self.end = CrawlEnd(complete=False, reason="cancelled")
        self._fetcher = fetcher
        self._pages = pages
        self._web = web
        self._settings = settings
        self._known = known
        self._clock = clock or SystemClock()

    async def visits(self) -> AsyncGenerator[Visit, None]:
        """Visit the pages. An error of one page does not end the crawl.

        Yields:
            Each visit, when it has ended.
        """
        requests = Requests(self._fetcher, self._web, self._settings, self._clock)
        pages = learned = 0
        walk: _Walk | None = None
        reason = ""
        try:
            scope = Scope(self._web, self._fetcher.rules)
            visitor = PageVisitor(self._fetcher, self._pages, scope, self._web, self._settings)
            sitemaps = SitemapReader(self._fetcher, requests, scope, self._web)
            walk = _Walk(self._web, scope, requests, visitor, sitemaps, self._known, self._fetcher.rules.max_redirects)
            async with aclosing(walk.visits()) as visits:
                async for visit in visits:
                    pages += 1
                    learned += visit.outcome in DOCUMENTS
                    yield visit
        except Stopped as stopped:
            reason = stopped.reason
        except FetchError as error:
            # The start page's URL may not be fetched.
            reason = error.code
        reason = reason or (walk.incomplete if walk else "") or ("" if learned else "nothing_learned")
        self.end = CrawlEnd(not reason, reason, pages, requests.sent)


class _Walk:
    """The way of a crawl through a site.

    Attributes:
        incomplete: why it does not cover the whole source, although it continued; empty if it does.
    """

    def __init__(
        self,
        web: WebSource,
        scope: Scope,
        requests: Requests,
        visitor: PageVisitor,
        sitemaps: SitemapReader,
        known: KnownPages,
        max_redirects: int,
    ) -> None:
        self.incomplete = ""
        self._web = web
        self._scope = scope
        self._requests = requests
        self._visitor = visitor
        self._sitemaps = sitemaps
        self._known = known
        self._max_redirects = max_redirects
        self._frontier = Frontier()
        self._outcomes: dict[str, Outcome] = {}
        # Copies that wait for the page that they name as canonical, by its URL.
        self._copies: dict[str, list[tuple[Candidate, Visit]]] = {}
        self._rejections: dict[str, int] = {}

    async def visits(self) -> AsyncGenerator[Visit, None]:
        """Visit the pages.

        Raises:
            Stopped: a limit is reached, or the start page cannot be read.
        """
        self._frontier.add(self._scope.start, 0)
        start = self._frontier.next() or Candidate(self._scope.start, 0)
        visited = await self._visit(start, is_start=True)
        for visit in visited.visits:
            yield visit
        _check_start(visited.final)
        documents = sum(visit.outcome in DOCUMENTS for visit in visited.visits)
        async for listed in self._sitemaps.read(visited.final.url):
            self._cut(listed.problem)
            await self._follow(listed.pages, 0)
        while candidate := self._frontier.next():
            if documents >= self._web.max_pages:
                raise Stopped("max_pages")
            for visit in (await self._visit(candidate)).visits:
                documents += visit.outcome in DOCUMENTS
                yield visit
        if self._frontier.is_full:
            self._cut("max_links")

    def _cut(self, reason: str) -> None:
        # The first reason is reported.
        self.incomplete = self.incomplete or reason

    async def _visit(self, candidate: Candidate, *, is_start: bool = False) -> _Visited:
        """Visit a page, and follow its redirects."""
        hops: list[Visit] = []
        former: KnownPage | None = None
        while True:
            known = await self._known(candidate.url)
            former = former or known
            reading = await self._read(candidate, known, former)
            if not reading.location:
                break
            hops.append(reading.visit)
            target = self._target(reading, hops, is_known=known is not None, is_start=is_start)
            if isinstance(target, Candidate):
                candidate = target
                continue
            visit, has_document = target
            return self._decided(visit, hops[:-1], has_document=has_document)
        visit = reading.visit
        if reading.truncated:
            self._cut("max_links")
        if visit.is_new and self._may_lead_further(visit):
            self._cut("pages_failed")
        if candidate.depth < self._web.max_depth:
            await self._follow(reading.links, candidate.depth + 1)
        if is_start:
            outside = self._scope.outside(visit.url) if visit.outcome in DOCUMENTS else None
            return self._decided(_skipped(visit, outside) if outside else visit, hops)
        match self._canonical(candidate, reading):
            case "later":
                return self._decided(_skipped(visit, "canonical"), hops, is_later=True)
            case "copy":
                return self._decided(_skipped(visit, "canonical"), hops, has_document=True)
            case "own":
                return self._decided(visit, hops)

    async def _read(self, candidate: Candidate, known: KnownPage | None, former: KnownPage | None) -> Reading:
        """Request a page, if it may be requested."""
        url = candidate.url
        visit = Visit(url, "failed", depth=candidate.depth, is_new=known is None)
        links = known.links if known else ()
        allowed = await self._requests.allows(url)
        if allowed is None:
            self._cut("robots_unavailable")
            return Reading(replace(visit, reason="robots_unavailable"), links)
        if not allowed:
            return Reading(_skipped(visit, "robots_disallowed"))
        host = host_of(url)
        if self._rejections.get(host, 0) >= MAX_RATE_LIMITED:
            self._cut("rate_limited")
            return Reading(replace(visit, reason="rate_limited"), links)
        reading = await self._request(candidate, known, former)
        is_rejected = reading.visit.status == RATE_LIMITED
        if is_rejected or reading.retry_after is not None:
            if self._requests.wait_for(url, reading.retry_after):
                reading = await self._request(candidate, known, former)
                self._rejections[host] = self._rejections.get(host, 0) + (reading.visit.status == RATE_LIMITED)
            elif is_rejected:
                # The host wants no request for longer than the crawl can wait.
                self._rejections[host] = MAX_RATE_LIMITED
        return reading

    async def _request(self, candidate: Candidate, known: KnownPage | None, former: KnownPage | None) -> Reading:
        async with self._requests.turn(candidate.url):
            try:
                return await self._visitor.visit(candidate.url, candidate.depth, known, former)
            except Exception as error:  # noqa: BLE001  # a page must not harm the others, whatever it causes
                # Without its text, which may contain a part of the page.
                _log.warning("page of a source failed", error=type(error).__name__)
                visit = Visit(candidate.url, "failed", "internal_error", candidate.depth, is_new=known is None)
                return Reading(visit, known.links if known else ())

    def _target(
        self, reading: Reading, hops: Sequence[Visit], *, is_known: bool, is_start: bool
    ) -> Candidate | tuple[Visit, bool]:
        """The page that a redirect leads to, or the decision about the redirect, and whether it leads to a document."""
        visit = reading.visit
        target = self._scope.resolve(reading.location, visit.url)
        outside = self._scope.outside(target) if target else "off_site"
        if outside and not (is_start and outside != "off_site"):
            # A known page that leads away for the moment, such as to a page for signing in, has not moved.
            has_moved = not is_known or visit.status in PERMANENT
            return replace(visit, outcome="skipped" if has_moved else "failed", reason=f"redirect_{outside}"), False
        if len(hops) > self._max_redirects or any(hop.url == target for hop in hops):
            return replace(visit, outcome="failed", reason=TooManyRedirects.code), False
        following = self._frontier.take(target, visit.depth)
        if following:
            return following
        outcome = self._outcomes.get(target, "skipped")
        is_lost = outcome in ("failed", "gone")
        return replace(visit, outcome=outcome) if is_lost else visit, outcome in DOCUMENTS

    def _decided(
        self, final: Visit, hops: Sequence[Visit], *, has_document: bool = False, is_later: bool = False
    ) -> _Visited:
        """Record the outcomes of a page, of the redirects to it, and of the copies that waited for any of these URLs.

        Args:
            final: the page.
            hops: the redirects to it.
            has_document: whether it is a copy of a document.
            is_later: whether the decision about the page itself is to be made later.
        """
        # A redirect to a page that fails has failed.
        is_lost = final.outcome in ("failed", "gone")
        settled = [replace(hop, outcome=final.outcome) if is_lost else hop for hop in hops]
        if not is_later:
            settled.append(final)
        has_document = has_document or is_later or final.outcome in DOCUMENTS
        for visit in tuple(settled):
            self._outcomes[visit.url] = visit.outcome
            settled += self._released(visit.url, has_document=has_document)
        return _Visited(final, tuple(settled))

    def _released(self, url: str, *, has_document: bool) -> Iterator[Visit]:
        """Decide about the copies that waited for a page: they are documents only if it is none."""
        for candidate, visit in self._copies.pop(url, ()):
            if has_document:
                self._outcomes[visit.url] = visit.outcome
                yield visit
                yield from self._released(visit.url, has_document=True)
            else:
                self._frontier.add_again(replace(candidate, ignores_canonical=True))

    def _canonical(self, candidate: Candidate, reading: Reading) -> _Canonical:
        """Whether the page's canonical URL is another page, which is then visited first."""
        visit, canonical = reading.visit, reading.canonical
        if (
            candidate.ignores_canonical
            or visit.outcome not in DOCUMENTS
            or canonical in ("", visit.url)
            or host_of(canonical) != host_of(visit.url)
            or self._scope.outside(canonical)
        ):
            return "own"
        if self._outcomes.get(canonical) in DOCUMENTS:
            return "copy"
        self._frontier.add(canonical, candidate.depth)
        if not self._frontier.waits(canonical):
            return "own"
        self._copies.setdefault(canonical, []).append((candidate, _skipped(visit, "canonical")))
        return "later"

    async def _follow(self, links: Sequence[str], depth: int) -> None:
        """Add the pages of the source among links."""
        for begin in range(0, len(links), LINKS_PIECE):
            for url in await asyncio.to_thread(self._scope.pages, links[begin : begin + LINKS_PIECE]):
                self._frontier.add(url, depth)

    def _may_lead_further(self, visit: Visit) -> bool:
        """Whether a page that failed for the moment may be the only way to others."""
        is_slow = visit.reason == ExtractionTimeout.code and "html" in visit.media_type
        is_transient = visit.reason in _TRANSIENT or visit.status == RATE_LIMITED or visit.status >= 500 or is_slow
        is_above = visit.depth < self._web.max_depth
        return visit.outcome == "failed" and is_transient and is_above and self._scope.is_same_site(visit.url)


def _skipped(visit: Visit, reason: str) -> Visit:
    # Copies wait for the page that they name as canonical: many, with any number of links.
    return replace(visit, outcome="skipped", reason=reason, content=b"", content_hash="", links=())


def _check_start(visit: Visit) -> None:
    """End the crawl if the start page cannot be read.

    Raises:
        Stopped: it cannot.
    """
    if visit.outcome == "gone":
        raise Stopped("start_page_gone")
    if visit.reason.startswith("robots_"):
        raise Stopped(visit.reason)
    if visit.reason.startswith("redirect_"):
        raise Stopped("start_page_moved")
    if visit.outcome == "failed":
        raise Stopped("start_page_failed")
