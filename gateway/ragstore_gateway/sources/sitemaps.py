"""Sitemaps: the pages that a site lists itself, as XML or as text, also compressed."""

from __future__ import annotations

import html
import re
import zlib
from dataclasses import dataclass
from typing import Final

MAX_BYTES: Final = 10 * 1024 * 1024
"""Maximum size of a sitemap after its decompression."""

MAX_URLS: Final = 50_000
"""Maximum number of URLs of a sitemap, as in the protocol of sitemaps."""

_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_WBITS: Final = 31
_BYTE_ORDER_MARKS: Final = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))

# A sitemap needs four elements, which are found without a parser of XML: there are no entities that could be expanded,
# and an error in one entry does not affect the others.
_COMMENT: Final = ("<!--", "-->")
_TAG: Final = re.compile(
    r"<(/?)(?:[A-Za-z0-9_-]{1,40}:)?(urlset|sitemapindex|url|sitemap|loc|lastmod)(?:\s[^<>]*)?>", re.IGNORECASE
)
_CDATA: Final = re.compile(r"\A<!\[CDATA\[(.*?)\]\]>\Z", re.DOTALL)
_LINE: Final = re.compile(r"https?://\S+", re.IGNORECASE)


class SitemapInvalid(Exception):
    """It is no sitemap, or larger than allowed."""


@dataclass(slots=True)
class _Entry:
    is_sitemap: bool
    url: str = ""
    modified: str = ""


@dataclass(frozen=True, slots=True)
class Sitemap:
    """A sitemap, or an index of sitemaps.

    Attributes:
        pages: the URLs of its pages as they are written, those with the latest `lastmod` first.
        sitemaps: the URLs of the sitemaps of an index.
        truncated: whether it lists more than is read.
    """

    pages: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()
    truncated: bool = False


def read_sitemap(body: bytes) -> Sitemap:
    """Read a sitemap.

    Args:
        body: the sitemap, which may be compressed with gzip.

    Raises:
        SitemapInvalid: it is none, or too large.
    """
    text = _text(_decompressed(body))
    entries = _entries(_without_comments(text)) if "<" in text else _lines(text)
    pages = [entry for entry in entries if not entry.is_sitemap and entry.url]
    # Stable: those without a date stay in order, at the end.
    pages.sort(key=lambda entry: entry.modified, reverse=True)
    return Sitemap(
        tuple(dict.fromkeys(entry.url for entry in pages[:MAX_URLS])),
        tuple(dict.fromkeys(entry.url for entry in entries if entry.is_sitemap and entry.url))[:MAX_URLS],
        truncated=len(entries) > MAX_URLS,
    )


def _without_comments(text: str) -> str:
    """A text without its comments. A pattern would look for the end of the text from each comment that does not end."""
    opening, closing = _COMMENT
    parts = []
    position = 0
    while (begin := text.find(opening, position)) >= 0:
        end = text.find(closing, begin + len(opening))
        if end < 0:
            break
        parts.append(text[position:begin])
        position = end + len(closing)
    return "".join([*parts, text[position:]])


def _entries(text: str) -> list[_Entry]:
    """The entries of an XML sitemap."""
    entries: list[_Entry] = []
    is_sitemap = False
    opened = -1
    for tag in _TAG.finditer(text):
        closing, name = bool(tag[1]), tag[2].lower()
        if name in ("urlset", "sitemapindex"):
            is_sitemap = True
        elif name in ("url", "sitemap"):
            if not closing:
                entries.append(_Entry(is_sitemap=name == "sitemap"))
                if len(entries) > MAX_URLS:
                    break
        elif not closing:
            opened = tag.end()
        elif opened >= 0 and entries:
            value = text[opened : tag.start()].strip()
            value = html.unescape(found[1].strip() if (found := _CDATA.match(value)) else value)
            if name == "loc":
                # The first one: extensions for images have further ones.
                entries[-1].url = entries[-1].url or value
            else:
                entries[-1].modified = value
            opened = -1
    if not is_sitemap:
        raise SitemapInvalid
    return entries


def _lines(text: str) -> list[_Entry]:
    """The entries of a text with one URL in each line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines or not all(_LINE.fullmatch(line) for line in lines):
        raise SitemapInvalid
    return [_Entry(is_sitemap=False, url=line) for line in lines[: MAX_URLS + 1]]


def _decompressed(body: bytes) -> bytes:
    if not body.startswith(_GZIP_MAGIC):
        return body
    try:
        decoder = zlib.decompressobj(_GZIP_WBITS)
        found = decoder.decompress(body, MAX_BYTES + 1)
    except zlib.error:
        raise SitemapInvalid from None
    if len(found) > MAX_BYTES or not decoder.eof:
        raise SitemapInvalid
    return found


def _text(body: bytes) -> str:
    if len(body) > MAX_BYTES:
        raise SitemapInvalid
    charset = next((charset for mark, charset in _BYTE_ORDER_MARKS if body.startswith(mark)), "utf-8")
    return body.decode(charset, "replace").lstrip("\ufeff").replace("\0", "")
