"""The text of a document, with its title, its pages and its headings."""

from __future__ import annotations

import msgspec


class Page(msgspec.Struct, frozen=True, array_like=True):
    """A page of a document.

    Attributes:
        number: its number, from 1.
        start: index of its first character in the document's text.
        end: index after its last character.
    """

    number: int
    start: int
    end: int


class Heading(msgspec.Struct, frozen=True, array_like=True):
    """A heading of a document. Its section ends where the next heading of the same or a higher level starts.

    Attributes:
        level: 1 for the highest, 6 for the lowest.
        text: the heading, without marks such as `#`.
        start: index of its first character in the document's text, marks included.
        end: index after its last character.
    """

    level: int
    text: str
    start: int
    end: int


class Extracted(msgspec.Struct, frozen=True):
    """The text of a document.

    Attributes:
        text: the text. Spans are indexes of its characters.
        media_type: the type of the content, as recognised.
        title: its title, if known.
        language: its language as an ISO 639-1 code, if known.
        published: the date of its publication, as in 2026-11-22, if known.
        pages: its pages in order, for formats with pages: the pages of a PDF file, the slides of a presentation, the
            sheets of a workbook.
        headings: its headings in order.
    """

    text: str
    media_type: str
    title: str = ""
    language: str = ""
    published: str = ""
    pages: tuple[Page, ...] = ()
    headings: tuple[Heading, ...] = ()


class PageLinks(msgspec.Struct, frozen=True):
    """The links of a page, and its directives for crawlers.

    Attributes:
        links: the targets of its links in order, each once, as they are written.
        nofollow: the links that crawlers are requested not to follow.
        base: the URL that they are relative to, as it is written; empty for the URL of the page.
        canonical: the URL that the page names as its canonical one, as it is written.
        directives: the words of its `robots` elements, such as `noindex`, in lower case.
        truncated: whether there are more links than are read.
    """

    links: tuple[str, ...] = ()
    nofollow: tuple[str, ...] = ()
    base: str = ""
    canonical: str = ""
    directives: tuple[str, ...] = ()
    truncated: bool = False
