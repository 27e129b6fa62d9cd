"""A website whose pages change between two crawls, and a scripted week of it."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.support.fake_sites import FakeSite
from tests.support.fake_upstream import Exchange, serving

HTML = "text/html; charset=utf-8"
XML = "application/xml"


@dataclass(frozen=True)
class SitePage:
    """A page of the site.

    Attributes:
        body: its content.
        etag: whether it has an `ETag`, made from its content.
        modified: its `Last-Modified`; none if empty.
        headers: further headers.
    """

    body: bytes
    media_type: str = HTML
    etag: bool = True
    modified: str = ""
    status: str = "200 OK"
    headers: tuple[str, ...] = ()

    @property
    def tag(self) -> str:
        """Its `ETag`; empty if it has none."""
        return f'"{hashlib.sha256(self.body).hexdigest()[:16]}"' if self.etag else ""


class ChangingSite(FakeSite):
    """The server. Pages have whole paths, and are served with validators.

    Attributes:
        pages: the pages by their paths, queries included.
        failure: the status of all responses, such as `500 Internal Server Error`; none if empty.
        is_down: whether connections are closed without a response.
    """

    def __init__(self, address: str = "127.0.0.1") -> None:
        super().__init__(address)
        self.pages: dict[str, SitePage] = {}
        self.failure = ""
        self.is_down = False
        self.default = self._respond

    def clear(self) -> None:
        """Remove all pages, behaviours and requests."""
        self.pages.clear()
        self.requests.clear()
        self._behaviours.clear()
        self.failure = ""
        self.is_down = False

    def put(self, path: str, body: str | bytes, media_type: str = HTML, *headers: str, **more: Any) -> str:
        """Serve a page.

        Args:
            body: its content.
            headers: further headers.
            more: further fields of `SitePage`.

        Returns:
            Its URL.
        """
        content = body.encode() if isinstance(body, str) else body
        page = SitePage(content, media_type, headers=headers)
        self.pages[path] = replace(page, **more) if more else page
        return self.origin + path

    def article(self, path: str, title: str, text: str, links: Iterable[str] = (), head: str = "") -> str:
        """Serve a page with a title, a text and links.

        Returns:
            Its URL.
        """
        return self.put(path, article(title, text, links, head))

    def move(self, path: str, location: str, status: str = "301 Moved Permanently") -> str:
        """Serve a redirect.

        Returns:
            Its URL.
        """
        return self.put(path, b"", HTML, f"Location: {location}", status=status, etag=False)

    def remove(self, path: str) -> None:
        """Remove a page: its URL responds with 404."""
        self.pages.pop(path, None)

    def sitemap(self, path: str, urls: Iterable[str], modified: str = "2026-11-01") -> str:
        """Serve a sitemap.

        Returns:
            Its URL.
        """
        entries = "".join(f"<url><loc>{html.escape(url)}</loc><lastmod>{modified}</lastmod></url>" for url in urls)
        return self.put(path, f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org">{entries}</urlset>', XML)

    def robots(self, text: str) -> None:
        """Serve a robots.txt."""
        self.put("/robots.txt", text, "text/plain")

    def taken(self) -> list[str]:
        """The paths of the requests since the last call, without robots.txt and the sitemap that is not there."""
        paths = [path for path in self.paths() if path != "/robots.txt" and path != "/sitemap.xml"]
        self.requests.clear()
        return paths

    async def _respond(self, exchange: Exchange) -> None:
        if self.is_down:
            exchange.drop()
            return
        page = self.pages.get(exchange.request.target)
        if self.failure or page is None:
            status = self.failure or "404 Not Found"
            await exchange.respond(b"An error of the test site", status=status, headers=["Content-Type: text/plain"])
            return
        validators = [f"ETag: {page.tag}"] * page.etag + [f"Last-Modified: {page.modified}"] * bool(page.modified)
        tags, dates = exchange.request.header("if-none-match"), exchange.request.header("if-modified-since")
        if page.status == "200 OK" and (page.tag in tags if tags else page.modified and page.modified in dates):
            await exchange.raw("\r\n".join(["HTTP/1.1 304 Not Modified", *validators, *page.headers, "", ""]).encode())
            return
        headers = [f"Content-Type: {page.media_type}", *validators, *page.headers]
        await exchange.respond(page.body, status=page.status, headers=headers)


def article(title: str, text: str, links: Iterable[str] = (), head: str = "") -> str:
    """An HTML page with a title, a text and links."""
    items = "".join(f'<li><a href="{html.escape(link)}">{html.escape(link)}</a></li>' for link in links)
    return (
        f"<!doctype html><html lang=en><head><title>{html.escape(title)}</title>{head}</head><body>"
        f"<nav><ul>{items}</ul></nav><main><article><h1>{html.escape(title)}</h1><p>{html.escape(text)}</p></article>"
        "</main></body></html>"
    )


@contextmanager
def changing_site(address: str = "127.0.0.1", port: int = 0) -> Iterator[ChangingSite]:
    """Run a server while the block runs.

    Args:
        address: the address that it listens on.
        port: its port; a free one when 0.
    """
    site = ChangingSite(address)
    with serving(site, port):
        yield site


TEA: Final = (
    "Green tea is brewed with water of seventy degrees for two minutes, and black tea with boiling water for four. "
    "The leaves of white tea are withered and dried, and those of oolong are partly oxidised before they are roasted. "
    "A pot is warmed before the leaves are added, and the tea is poured as soon as its time is over. "
)
PAGES: Final = ("green", "black", "white", "oolong", "rooibos")


def _monday(site: ChangingSite) -> None:
    """Five pages and a start page."""
    site.robots("User-agent: *\nDisallow: /private/")
    for name in PAGES:
        site.article(f"/tea/{name}", f"{name} tea".title(), f"This page is about {name} tea. {TEA}")
    _index(site, *PAGES)


def _tuesday(site: ChangingSite) -> None:
    """One page is new, and one has changed."""
    site.article("/tea/mate", "Mate", f"This page is about mate, which is no tea. {TEA}")
    site.article("/tea/green", "Green Tea", f"Sencha is the green tea of this page since Tuesday. {TEA}")
    _index(site, *PAGES, "mate")


def _wednesday(site: ChangingSite) -> None:
    """The server does not respond."""
    site.is_down = True


def _thursday(site: ChangingSite) -> None:
    """Every response is an error of the server."""
    site.is_down = False
    site.failure = "500 Internal Server Error"


def _friday(site: ChangingSite) -> None:
    """One page has been removed, and robots.txt forbids another one."""
    site.failure = ""
    site.remove("/tea/white")
    site.robots("User-agent: *\nDisallow: /private/\nDisallow: /tea/rooibos")
    _index(site, "green", "black", "oolong", "rooibos", "mate")


def _saturday(site: ChangingSite) -> None:
    """Another page has gone; the two of Friday are missing again."""
    site.remove("/tea/oolong")
    _index(site, "green", "black", "rooibos", "mate")


def _sunday(site: ChangingSite) -> None:
    """The pages that were removed or forbidden are there again, and another one has moved."""
    site.robots("User-agent: *\nDisallow: /private/")
    site.article("/tea/oolong", "Oolong Tea", f"This page is about oolong tea. {TEA}")
    site.article("/tea/white", "White Tea", f"This page is about white tea. {TEA}")
    site.article("/tea/yerba-mate", "Mate", f"This page is about mate, which is no tea. {TEA}")
    site.move("/tea/mate", "/tea/yerba-mate")
    _index(site, *PAGES, "mate")


def _index(site: ChangingSite, *names: str) -> None:
    text = f"An index of {len(names)} kinds of tea. {TEA * 2}"
    site.article("/", "Tea", text, [f"/tea/{name}" for name in names])


WEEK: Final[tuple[tuple[str, Callable[[ChangingSite], None]], ...]] = (
    ("Monday", _monday),
    ("Tuesday", _tuesday),
    ("Wednesday", _wednesday),
    ("Thursday", _thursday),
    ("Friday", _friday),
    ("Saturday", _saturday),
    ("Sunday", _sunday),
)
"""The days of a week: each function changes the site as the day before has left it. A crawl starts at `/`."""
