"""Builds the text of a document piece by piece, with the spans of its pages and headings."""

from __future__ import annotations

import re
from typing import Final

from ragstore_gateway.errors import DocumentTooLarge
from ragstore_gateway.extraction.extracted import Extracted, Heading, Page

MAX_PAGES: Final = 100_000
MAX_LEVEL: Final = 6
MAX_TITLE_CHARACTERS: Final = 1000

_LINE_BREAK: Final = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
# Control characters, byte order marks, surrogates and noncharacters: PostgreSQL rejects NUL, JSON rejects surrogates.
_UNWANTED: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f\ufeff\ufffe\uffff\ud800-\udfff]")


def clean(text: str) -> str:
    """A text with line feeds as its only line breaks, and without control characters.

    Args:
        text: any text.
    """
    return _UNWANTED.sub("", _LINE_BREAK.sub("\n", text))


def one_line(text: str) -> str:
    """A text with one space for each sequence of whitespace.

    Args:
        text: any text.
    """
    return " ".join(clean(text).split())


def check_length(characters: int, max_characters: int) -> None:
    """Check the length of a text.

    Args:
        characters: its number of characters.
        max_characters: the maximum.

    Raises:
        DocumentTooLarge: it is longer.
    """
    if characters > max_characters:
        raise DocumentTooLarge(f"The text of the document has more than {max_characters} characters")


class TextBuilder:
    """Builds a text of paragraphs and lines.

    Args:
        max_characters: maximum number of characters of the text.
        marked: whether headings have `#` marks, as in Markdown.
    """

    def __init__(self, max_characters: int, *, marked: bool = False) -> None:
        self._max_characters = max_characters
        self._marked = marked
        self._pieces: list[str] = []
        self._length = 0
        self._in_table = False
        self._pages: list[Page] = []
        self._page_start: int | None = None
        self._headings: list[Heading] = []

    def paragraph(self, text: str) -> None:
        """Add a paragraph, after an empty line.

        Args:
            text: its text; nothing is added if it has only whitespace.
        """
        self._add(clean(text).strip(), "\n\n")

    def row(self, cells: list[str]) -> None:
        """Add a row of a table as a line, directly after the row before, with tabs between its cells.

        Args:
            cells: the cells; line breaks and tabs in them become spaces, and empty cells at the end are left out.
                Nothing is added if all are empty.
        """
        if text := "\t".join(map(one_line, cells)).rstrip():
            self._add(text, "\n" if self._in_table else "\n\n")
            self._in_table = True

    def heading(self, level: int, text: str) -> None:
        """Add a heading, as a paragraph.

        Args:
            level: its level; a level above 6 is 6.
            text: its text; nothing is added if it has only whitespace.
        """
        text = one_line(text)
        if not text:
            return
        level = max(1, min(level, MAX_LEVEL))
        shown = f"{'#' * level} {text}" if self._marked else text
        self._add(shown, "\n\n")
        self._headings.append(Heading(level, text, self._length - len(shown), self._length))

    def begin_page(self) -> None:
        """Begin a page."""
        self._page_start = None

    def end_page(self) -> None:
        """End a page, which may be empty.

        Raises:
            DocumentTooLarge: there are more than `MAX_PAGES` pages.
        """
        if len(self._pages) == MAX_PAGES:
            raise DocumentTooLarge(f"The document has more than {MAX_PAGES} pages")
        start = self._length if self._page_start is None else self._page_start
        self._pages.append(Page(len(self._pages) + 1, start, self._length))

    def built(self, media_type: str, title: str = "") -> Extracted:
        """The text.

        Args:
            media_type: the type of the document.
        """
        return Extracted(
            "".join(self._pieces),
            media_type,
            title=one_line(title)[:MAX_TITLE_CHARACTERS],
            pages=tuple(self._pages),
            headings=tuple(self._headings),
        )

    def _add(self, text: str, separator: str) -> None:
        if not text:
            return
        if self._pieces:
            self._pieces.append(separator)
            self._length += len(separator)
        if self._page_start is None:
            self._page_start = self._length
        self._pieces.append(text)
        self._length += len(text)
        self._in_table = False
        check_length(self._length, self._max_characters)
