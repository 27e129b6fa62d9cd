"""`PageVisitor`: fetches one page and classifies the outcome."""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import dataclass, replace
from typing import Final

from ragstore.kit.errors import ServiceError, UnsupportedMediaType
from ragstore_gateway.configurations.source import SourceSettings, WebSource
from ragstore_gateway.errors import NoText
from ragstore_gateway.extraction.extracted import PageLinks
from ragstore_gateway.extraction.recognition import declared_format
from ragstore_gateway.fetching.content import SNIFFED
from ragstore_gateway.fetching.errors import FetchError
from ragstore_gateway.fetching.fetched import Fetched
from ragstore_gateway.fetching.fetcher import Fetcher
from ragstore_gateway.sources.directives import directives_of
from ragstore_gateway.sources.pace import retry_after_seconds
from ragstore_gateway.sources.scope import Scope
from ragstore_gateway.sources.visit import KnownPage, Outcome, Visit
from ragstore_gateway.web.pages import PageReader, file_name

GONE: Final = frozenset({404, 410})
BUSY: Final = frozenset({429, 503})
WITH_DOCUMENT: Final = frozenset({200, 203})

NO_DOCUMENTS: Final = frozenset(
    {"text/css", "text/javascript", "text/ecmascript", "text/xml", "text/calendar", "text/vcard", "text/x-component"}
)
"""Types of text that are no documents."""

PACKAGES: Final = SNIFFED | {"application/zip", "application/x-zip-compressed"}
"""Types that say less than the extension of a file."""

LONG_TEXT: Final = 500
"""Length from which on the text of a known page is long."""

SHORTENED: Final = 5
"""A text is short beside a known one if it has less than this part of it."""

MAX_ERROR_TEXT: Final = 20_000
"""The first characters of a text in which words of errors are looked for. A page of an error has fewer. The pattern
takes 16 ms for 100,000 characters, and holds the interpreter's lock."""

ERROR_TEXT: Final = re.compile(
    r"\b(error|unavailable|maintenance|not found|forbidden|denied|blocked|captcha|just a moment|try again|back soon"
    r"|overloaded|bad gateway|timed? ?out|enable (java ?script|cookies)|log ?in|sign ?in|wartung|fehler|erreur"
    r"|mantenimiento)\b",
    re.IGNORECASE,
)
"""Words of pages that stand for an error although their status is 200."""

_FORM: Final = 1
"""Part of the mark of every known page. Another number lets each page be read again."""

_MARK_BYTES: Final = 4
_BODY_BYTES: Final = 12
_TEXT_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Reading:
    """A page that was requested.

    Attributes:
        visit: what became of it.
        links: the URLs that the crawl may follow.
        truncated: whether the page has more links than were read.
        canonical: the page that it names as its canonical one, in normal form; empty for none.
        location: the absolute URL that it redirects to; empty for none.
        retry_after: the seconds after which the server accepts a repetition; None if it does not say.
    """

    visit: Visit
    links: tuple[str, ...] = ()
    truncated: bool = False
    canonical: str = ""
    location: str = ""
    retry_after: float | None = None


class PageVisitor:
    """Fetches pages and classifies the outcomes.

    Args:
        fetcher: sends the requests.
        pages: extracts their texts.
        scope: the URLs of the source.
        web: the source.
        settings: the limits of its runs.
    """

    def __init__(
        self, fetcher: Fetcher, pages: PageReader, scope: Scope, web: WebSource, settings: SourceSettings
    ) -> None:
        self._fetcher = fetcher
        self._pages = pages
        self._scope = scope
        self._web = web
        self._settings = settings
        # A page that was read with other settings is read again, although it has not changed.
        settings_read = f"{_FORM} {web.respect_robots} {settings.max_content_length}"
        self._mark = _digest(settings_read.encode(), _MARK_BYTES)

    async def visit(self, url: str, depth: int, known: KnownPage | None, former: KnownPage | None) -> Reading:
        """Request a page.

        Args:
            url: its URL in normal form.
            known: the page as an earlier crawl has left it.
            former: the page that redirects to it, or else `known`: what it is compared with to recognise errors.
        """
        visit = Visit(url, "failed", depth=depth, is_new=known is None)
        same = known if known and known.content_hash.startswith(self._mark) else None
        try:
            response = await self._fetcher.fetch(
                url,
                timeout_seconds=self._web.timeout_seconds,
                max_bytes=self._settings.max_bytes_per_page,
                etag=same.etag if same else "",
                last_modified=same.last_modified if same else "",
                # The crawl has checked it.
                robots=False,
                redirects=False,
            )
        except FetchError as error:
            return _failed(visit, error.code, known)
        visit = replace(visit, status=response.status, etag=response.etag, last_modified=response.last_modified)
        if response.location:
            return Reading(replace(visit, outcome="skipped", reason="redirect"), location=response.location)
        if response.status in GONE:
            return Reading(replace(visit, outcome="gone", reason=f"status_{response.status}"))
        if response.not_modified and same:
            return self._unchanged(visit, same, response)
        if response.status not in WITH_DOCUMENT:
            failed = _failed(visit, f"status_{response.status}", known)
            busy = response.status in BUSY
            header = response.headers.get("Retry-After", "")
            return replace(failed, retry_after=retry_after_seconds(header)) if busy else failed
        if same and same.content_hash.startswith(self._mark + _digest(response.body, _BODY_BYTES)):
            return self._unchanged(visit, same, response)
        return await self._document(visit, response, known, former or known)

    def _unchanged(self, visit: Visit, known: KnownPage, response: Fetched) -> Reading:
        """A page whose content is the known one."""
        directives = directives_of(response.headers, ()) if self._web.respect_robots else frozenset[str]()
        links = () if "nofollow" in directives else known.links
        if "noindex" in directives:
            return Reading(replace(visit, outcome="skipped", reason="noindex"), links)
        same = replace(
            visit,
            outcome="unchanged",
            etag=visit.etag or (known.etag if response.not_modified else ""),
            last_modified=visit.last_modified or (known.last_modified if response.not_modified else ""),
            content_hash=known.content_hash,
            links=links,
            title=known.title,
            media_type=known.media_type,
            characters=known.characters,
        )
        return Reading(same, links)

    async def _document(
        self, visit: Visit, response: Fetched, known: KnownPage | None, former: KnownPage | None
    ) -> Reading:
        """A page that has new content."""
        visit = replace(visit, media_type=_media_type(response))
        if not _is_document(response):
            return _unusable(visit, UnsupportedMediaType.code, known)
        try:
            extracted, found = await self._pages.document(response)
        except (NoText, UnsupportedMediaType) as error:
            return _unusable(visit, error.code, known)
        except ServiceError as error:
            return _failed(visit, error.code, known)
        text = extracted.text[: self._settings.max_content_length]
        if former and _is_soft_failure(former, text, extracted.title):
            return _failed(visit, "soft_failure", former)
        robots = self._web.respect_robots
        directives = directives_of(response.headers, found.directives) if robots else frozenset[str]()
        links = () if "nofollow" in directives else await asyncio.to_thread(self._links, found, response.url)
        reading = Reading(visit, links, found.truncated)
        if "noindex" in directives:
            return replace(reading, visit=replace(visit, outcome="skipped", reason="noindex"))
        if not text.strip():
            return replace(_unusable(visit, NoText.code, known), links=links, truncated=found.truncated)
        is_whole = len(text) == len(extracted.text)
        text_digest = _digest(text.encode("utf-8", "replace"), _TEXT_BYTES)
        is_same = known is not None and known.content_hash.endswith(text_digest)
        outcome: Outcome = "unchanged" if is_same else "changed"
        document = replace(
            visit,
            outcome=outcome,
            content_hash=self._mark + _digest(response.body, _BODY_BYTES) + text_digest,
            links=links,
            title=extracted.title,
            media_type=visit.media_type if is_whole else "text/plain; charset=utf-8",
            content=b"" if is_same else response.body if is_whole else text.encode("utf-8", "replace"),
            characters=len(text),
        )
        canonical = self._scope.resolve(found.canonical, response.url) if found.canonical else ""
        return replace(reading, visit=document, canonical=canonical)

    def _links(self, found: PageLinks, page: str) -> tuple[str, ...]:
        """The URLs of the links of a page, in normal form."""
        base = (self._scope.resolve(found.base, page) if found.base else "") or page
        ignored = set(found.nofollow) if self._web.respect_robots else set[str]()
        return self._scope.resolve_all((link for link in found.links if link not in ignored), base)


def _failed(visit: Visit, reason: str, known: KnownPage | None) -> Reading:
    """Nothing is known about the page now. The links that it had before are followed."""
    return Reading(replace(visit, outcome="failed", reason=reason), known.links if known else ())


def _unusable(visit: Visit, reason: str, known: KnownPage | None) -> Reading:
    """A page without a text. A page that had one before may have it again."""
    if known:
        return _failed(visit, reason, known)
    return Reading(replace(visit, outcome="skipped", reason=reason))


def _is_document(response: Fetched) -> bool:
    media_type = response.media_type
    if media_type in NO_DOCUMENTS:
        return False
    try:
        kind = declared_format("" if media_type in PACKAGES else media_type, file_name(response.final_url))
    except UnsupportedMediaType:
        return False
    return kind is not None or not response.body


def _media_type(response: Fetched) -> str:
    """The type as the server declares it, with the encoding, unless the body shows another one."""
    declared = response.headers.get("Content-Type", "")
    is_declared = declared.partition(";")[0].strip().lower() == response.media_type
    return declared[:200] if is_declared else response.media_type


def _is_soft_failure(former: KnownPage, text: str, title: str) -> bool:
    """Whether a short text that reads like an error has taken the place of a long one."""
    if former.characters < LONG_TEXT or len(text) * SHORTENED > former.characters:
        return False
    return not text.strip() or ERROR_TEXT.search(f"{title}\n{text}"[:MAX_ERROR_TEXT]) is not None


def _digest(content: bytes, size: int) -> str:
    return hashlib.blake2b(content, digest_size=size).hexdigest()
