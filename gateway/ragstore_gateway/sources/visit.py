"""The visits of a crawl of a website, and its end. The crawl itself is in `crawl`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

TIME_BUDGET: Final = "time_budget"
"""The reason of visits that the time limit of a run ended."""

Outcome: TypeAlias = Literal["changed", "unchanged", "gone", "failed", "skipped"]
"""The result of a visit:

changed      it is new, or its text differs from the known one; `Visit.content` is to be ingested
unchanged    its text is the known one
gone         the server responded with 404 or 410
failed       nothing is known about the page at present: an error of the server, a timeout, a text that cannot be read
skipped      it is no document of the source: a redirect, a duplicate, `noindex`, forbidden by robots.txt

In a complete crawl, a known page is missing unless it is changed, unchanged or failed."""

FOUND: Final = frozenset[Outcome]({"changed", "unchanged", "failed"})
"""The outcomes of pages that are not missing."""


@dataclass(frozen=True, slots=True)
class KnownPage:
    """A page as an earlier crawl has left it: the fields of its last visit that was `changed` or `unchanged`.

    Attributes:
        url: its URL, as in `Visit.url`.
        etag: its `ETag`; may be empty.
        last_modified: its `Last-Modified`; may be empty.
        content_hash: 64 characters of the crawl: how the page was read, its content, and its text.
        links: the URLs that it links to. A response 304 has no body, and the links are followed nevertheless.
        characters: the length of its text.
    """

    url: str
    etag: str = ""
    last_modified: str = ""
    content_hash: str = ""
    links: tuple[str, ...] = ()
    characters: int = 0
    title: str = ""
    media_type: str = ""


KnownPages: TypeAlias = Callable[[str], Awaitable[KnownPage | None]]
"""Finds a known page by its URL."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A visit of a page.

    Attributes:
        url: the page's URL in normal form, which identifies it.
        outcome: what became of it.
        reason: why, for `gone`, `failed` and `skipped`: one word such as `status_503`, `fetch_timeout`, `redirect`.
        depth: the number of links from the start page to it.
        status: the status of the response; 0 if there was none.
        etag: its `ETag`, to be kept; empty if there is none.
        last_modified: its `Last-Modified`, to be kept; empty if there is none.
        content_hash: to be kept, for `changed` and `unchanged`.
        links: the URLs that it links to, to be kept.
        media_type: the type of `content`, with its encoding; of the page if there is no content.
        content: what is to be ingested, for `changed`; empty otherwise. It is the page as it was sent, or its text
            if that is longer than `maxContentLength`.
        characters: the length of its text, to be kept.
        is_new: whether the page was not known.
    """

    url: str
    outcome: Outcome
    reason: str = ""
    depth: int = 0
    status: int = 0
    etag: str = ""
    last_modified: str = ""
    content_hash: str = ""
    links: tuple[str, ...] = ()
    title: str = ""
    media_type: str = ""
    content: bytes = b""
    characters: int = 0
    is_new: bool = False

    @property
    def known(self) -> KnownPage:
        """The page, as the next crawl needs it, for `changed` and `unchanged`."""
        return KnownPage(
            self.url,
            self.etag,
            self.last_modified,
            self.content_hash,
            self.links,
            self.characters,
            self.title,
            self.media_type,
        )


@dataclass(frozen=True, slots=True)
class CrawlEnd:
    """How a crawl ended.

    Attributes:
        complete: whether it covered the whole source, so that a known page it did not find is missing.
        reason: why it is not complete, one word such as `max_pages` or `time_budget`; empty if it is.
        pages: the number of visits.
        requests: the number of requests, robots.txt and sitemaps included.
    """

    complete: bool
    reason: str = ""
    pages: int = 0
    requests: int = 0
