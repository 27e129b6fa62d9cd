"""`Scope`: the URLs that belong to a web source, in one form each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias
from urllib.parse import unquote

from yarl import URL

from ragstore_gateway.configurations.source import WebSource
from ragstore_gateway.fetching.errors import FetchError
from ragstore_gateway.fetching.rules import FetchRules
from ragstore_gateway.fetching.urls import DEFAULT_PORT, Target, read_redirect, read_url
from ragstore_gateway.sources.globs import Glob

Outside: TypeAlias = Literal["off_site", "path_prefix", "excluded"]
"""Why a URL does not belong to a source."""

WWW: Final = "www."

NO_DOCUMENTS: Final = re.compile(
    r"\.(?:7z|aac|avi|avif|bmp|bz2|css|deb|dmg|eot|exe|flac|gif|gz|ico|iso|jar|jpe?g|js|m4a|mjs|mkv|mov|mp3|mp4|mpe?g|msi"
    r"|ogg|otf|png|rar|rpm|svg|tar|tgz|tiff?|ttf|wasm|wav|webm|webp|wmv|woff2?|xz|zip|zst)\Z",
    re.IGNORECASE,
)
"""Extensions of files without a text. Links to them are not followed."""


class Scope:
    """The URLs of a source.

    Args:
        web: the source.
        rules: the URLs that may be fetched.

    Attributes:
        start: the URL of its start page, in normal form.

    Raises:
        FetchError: the start page may not be fetched.
    """

    def __init__(self, web: WebSource, rules: FetchRules) -> None:
        self._web = web
        self._rules = rules
        target = read_url(web.start_url, rules)
        self.start = _normal(target)
        self._host = target.host.removeprefix(WWW)
        self._port = _port(target)
        self._prefix = "/" + unquote(web.path_prefix).strip("/")
        self._excluded = [Glob(pattern) for pattern in web.exclude_patterns]

    def resolve(self, link: str, page: str) -> str:
        """The URL of a link, in normal form.

        The scheme and the host are in lower case, a port that is the scheme's default and a fragment are left out, and
        the steps `.` and `..` are resolved.

        Args:
            link: the link, as it is written.
            page: the URL that it is relative to.

        Returns:
            The URL; empty if it may not be fetched.
        """
        try:
            return self._resolve(link, read_url(page, self._rules))
        except FetchError:
            return ""

    def resolve_all(self, links: Iterable[str], page: str) -> tuple[str, ...]:
        """The URLs of links, in normal form, each once. URLs that may not be fetched are left out.

        A thousand links take about 0.05 s, so that a thread does it.

        Args:
            links: the links, as they are written.
            page: the URL that they are relative to.
        """
        try:
            target = read_url(page, self._rules)
        except FetchError:
            return ()
        urls = (self._resolve(link, target) for link in links)
        return tuple(dict.fromkeys(url for url in urls if url))

    def pages(self, urls: Iterable[str]) -> tuple[str, ...]:
        """The URLs of pages that belong to the source and may have a text.

        Args:
            urls: URLs in normal form.
        """
        return tuple(url for url in urls if may_have_text(url) and not self.outside(url))

    def _resolve(self, link: str, page: Target) -> str:
        try:
            # What follows `#` is removed first: it may have characters that a URL may not have.
            return _normal(read_redirect(page, link.partition("#")[0], self._rules))
        except FetchError:
            return ""

    def outside(self, url: str) -> Outside | None:
        """Why a URL does not belong to the source; None if it does.

        Args:
            url: a URL in normal form.
        """
        try:
            target = read_url(url, self._rules)
        except FetchError:
            # A link that is kept since an earlier crawl, when the rules allowed it.
            return "off_site"
        if self._web.same_site_only and not self.is_same_site(url):
            return "off_site"
        path = target.url.path
        if self._prefix != "/" and path != self._prefix and not path.startswith(self._prefix + "/"):
            return "path_prefix"
        query = target.url.query_string
        forms = (path, f"{path}?{query}") if query else (path,)
        if any(glob.matches(form) for glob in self._excluded for form in forms):
            return "excluded"
        return None

    def is_same_site(self, url: str) -> bool:
        """Whether a URL is one of the start page's site, with or without `www.`.

        Args:
            url: a URL in normal form.
        """
        target = read_url(url, self._rules)
        host = target.host.removeprefix(WWW)
        is_subdomain = self._web.include_subdomains and host.endswith("." + self._host)
        return (host == self._host or is_subdomain) and _port(target) == self._port


def may_have_text(url: str) -> bool:
    """Whether a URL has no extension of an image, a video or the like.

    Args:
        url: a URL in normal form.
    """
    return NO_DOCUMENTS.search(URL(url).path) is None


def host_of(url: str) -> str:
    """The host of a URL.

    Args:
        url: a URL in normal form.
    """
    return URL(url).raw_host or ""


def _normal(target: Target) -> str:
    url = target.url
    # An empty path is the root.
    return str(url if url.raw_path != "/" else url.with_path("/", keep_query=True))


def _port(target: Target) -> int:
    """The port; 0 for the default one of the scheme, so that a site may have pages of both schemes."""
    return 0 if target.port == DEFAULT_PORT[target.url.scheme] else target.port
