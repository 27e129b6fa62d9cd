"""Sitemaps: the pages that a site lists itself, as XML or as text, also compressed.

A sitemap is a stranger's text of up to 10 MiB. Searching or decoding it with one call holds the interpreter's lock for
up to 1.4 s, whichever thread does it, and all other requests wait. So it is decoded, searched and split in pieces.
"""

from __future__ import annotations

import codecs
import html
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAX_BYTES: Final = 10 * 1024 * 1024
"""Maximum size of a sitemap after its decompression."""

MAX_URLS: Final = 50_000
"""Maximum number of URLs of a sitemap, as in the protocol of sitemaps."""

MAX_CHILDREN: Final = 100
"""Maximum number of sitemaps of an index that are read from it. A crawl fetches fewer."""

PIECE: Final = 64 * 1024
"""Size of the pieces. The slowest search of a piece takes 4 ms, and the slowest decoding 9 ms."""

MAX_TAG: Final = 4096
"""Maximum length of a tag. A longer one is not seen."""

MAX_VALUE: Final = 20_000
"""Maximum length of an entry as it is written. A URL has at most 4,096 characters; references make it longer."""

MAX_DATE: Final = 64

_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_WBITS: Final = 31
_BYTE_ORDER_MARKS: Final = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))

# A sitemap needs four elements, which are found without a parser of XML: there are no entities that could be expanded,
# and an error in one entry does not affect the others.
_COMMENT: Final = ("<!--", "-->")
_TAG: Final = re.compile(
    r"<(/?)(?:[A-Za-z0-9_-]{1,40}:)?(urlset|sitemapindex|url|sitemap|loc|lastmod)(?:\s[^<>]{0,4000})?>", re.IGNORECASE
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
        pages: the URLs of its pages as they are written, by descending `lastmod`.
        sitemaps: the URLs of the first sitemaps of an index.
        truncated: whether it lists more pages than are read.
        has_more_sitemaps: whether it lists more sitemaps than are read.
    """

    pages: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()
    truncated: bool = False
    has_more_sitemaps: bool = False


def read_sitemap(body: bytes) -> Sitemap:
    """Read a sitemap.

    Args:
        body: the sitemap, which may be compressed with gzip.

    Raises:
        SitemapInvalid: it is none, or too large.
    """
    text = _text(_decompressed(body))
    entries = _entries(_without_comments(text)) if "<" in text else _lines(text)
    pages = [entry for entry in entries if not entry.is_sitemap]
    children = [entry for entry in entries if entry.is_sitemap]
    found = [entry for entry in pages[:MAX_URLS] if entry.url]
    # Stable: those without a date stay in order, at the end.
    found.sort(key=lambda entry: entry.modified, reverse=True)
    return Sitemap(
        tuple(dict.fromkeys(entry.url for entry in found)),
        tuple(dict.fromkeys(entry.url for entry in children[:MAX_CHILDREN] if entry.url)),
        truncated=len(pages) > MAX_URLS,
        has_more_sitemaps=len(children) > MAX_CHILDREN,
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


def _tags(text: str) -> Iterator[re.Match[str]]:
    """The tags of a text, searched in pieces. A piece overlaps the next one by the maximum length of a tag."""
    position = 0
    while position < len(text):
        end = position + PIECE
        for tag in _TAG.finditer(text, position, end + MAX_TAG):
            if tag.start() >= end:
                break
            yield tag
            position = tag.end()
        position = max(position, end)


def _entries(text: str) -> list[_Entry]:
    """The entries of an XML sitemap."""
    entries: list[_Entry] = []
    is_sitemap = False
    opened = -1
    children = 0
    for tag in _tags(text):
        closing, name = bool(tag[1]), tag[2].lower()
        if name in ("urlset", "sitemapindex"):
            is_sitemap = True
        elif name in ("url", "sitemap"):
            if not closing:
                entries.append(_Entry(is_sitemap=name == "sitemap"))
                children += name == "sitemap"
                if children > MAX_CHILDREN or len(entries) - children > MAX_URLS:
                    break
        elif not closing:
            opened = tag.end()
        elif opened >= 0 and entries:
            entry, begin, opened = entries[-1], opened, -1
            if tag.start() - begin > MAX_VALUE:
                continue
            if name == "lastmod":
                entry.modified = _value(text[begin : tag.start()])[:MAX_DATE]
            elif not entry.url:
                # The first one: extensions for images have further ones.
                entry.url = _value(text[begin : tag.start()])
    if not is_sitemap:
        raise SitemapInvalid
    return entries


def _value(text: str) -> str:
    """The content of an element; empty if it has a reference to no character."""
    value = text.strip()
    try:
        return html.unescape(found[1].strip() if (found := _CDATA.match(value)) else value)
    except ValueError:
        # Python converts no number of more than 4,300 digits.
        return ""


def _lines(text: str) -> list[_Entry]:
    """The entries of a text with one URL in each line."""
    entries: list[_Entry] = []
    rest = ""
    for begin in range(0, len(text), PIECE):
        # Empty if the piece ends with a line; a line that is not complete waits for the next piece.
        *lines, rest = f"{rest}{text[begin : begin + PIECE]}\0".splitlines()
        rest = rest[:-1].lstrip()
        _add_lines(entries, lines)
        if len(rest) > MAX_VALUE:
            raise SitemapInvalid
        if len(entries) > MAX_URLS:
            rest = ""
            break
    _add_lines(entries, [rest])
    if not entries:
        raise SitemapInvalid
    return entries[: MAX_URLS + 1]


def _add_lines(entries: list[_Entry], lines: list[str]) -> None:
    for line in filter(None, map(str.strip, lines)):
        if not _LINE.fullmatch(line):
            raise SitemapInvalid
        entries.append(_Entry(is_sitemap=False, url=line))


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
    decoder = codecs.getincrementaldecoder(charset)("replace")
    pieces = (body[begin : begin + PIECE] for begin in range(0, len(body), PIECE))
    # A NUL is in no URL, and `_lines` uses it.
    parts = [decoder.decode(piece).replace("\0", "") for piece in pieces]
    text = "".join([*parts, decoder.decode(b"", final=True)])
    return text.removeprefix("\ufeff").removeprefix("\ufeff")
