"""The outline of a document: which page and section an index is in."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from ragstore_gateway.extraction.extracted import Extracted, Heading
from ragstore_gateway.splitting.measured_text import Span

_NOT_SLUG: Final = re.compile(r"[\W_]+")
MAX_SLUG_CHARACTERS: Final = 100
MAX_HEADING_CHARACTERS: Final = 200
"""Every chunk of a section repeats its heading."""


class Section(NamedTuple):
    """A heading with the text up to the next heading of any level.

    A heading without text of its own begins the section of the next one.

    Attributes:
        span: its span, from the first heading.
        heading: the text of the last of its headings; empty for the text before the first heading.
        id: its id within the document, made of the heading; empty without a heading.
    """

    span: Span
    heading: str = ""
    id: str = ""


class Outline:
    """The outline of a document.

    Args:
        extracted: the document.
    """

    def __init__(self, extracted: Extracted) -> None:
        self._text = extracted.text
        self._pages = extracted.pages
        self._page_starts = [page.start for page in extracted.pages]
        self._headings = extracted.headings
        self._heading_starts = [heading.start for heading in extracted.headings]

    def page(self, index: int) -> int | None:
        """The number of the page at an index, or of the page before; None if there is none.

        Args:
            index: index of a character.
        """
        found = bisect_right(self._page_starts, index) - 1
        return self._pages[found].number if found >= 0 else None

    def heading(self, index: int) -> str:
        """The nearest heading at an index or above it; empty if there is none.

        Args:
            index: index of a character.
        """
        found = bisect_right(self._heading_starts, index) - 1
        return self._headings[found].text[:MAX_HEADING_CHARACTERS] if found >= 0 else ""

    def sections(self) -> list[Section]:
        """The sections, which contain the whole text."""
        text, ids = self._text, dict[str, int]()
        found: list[Section] = []
        start, first = 0, 0
        while first < len(self._headings):
            heading = self._headings[first]
            if start < heading.start:
                found.append(Section(Span(start, heading.start)))
            last = self._last(first)
            heading, start = self._headings[last], heading.start
            end = self._headings[last + 1].start if last + 1 < len(self._headings) else len(text)
            found.append(Section(Span(start, end), heading.text[:MAX_HEADING_CHARACTERS], _unique(heading.text, ids)))
            start, first = end, last + 1
        if start < len(text):
            found.append(Section(Span(start, len(text))))
        return [section for section in found if not text[section.span.start : section.span.end].isspace()]

    def _last(self, first: int) -> int:
        """The index of the last heading that begins the same section."""
        headings: Sequence[Heading] = self._headings
        while first + 1 < len(headings):
            heading, below = headings[first], headings[first + 1]
            if self._text[heading.end : below.start].strip():
                break
            first += 1
        return first


def _unique(heading: str, ids: dict[str, int]) -> str:
    slug = _NOT_SLUG.sub("-", heading.lower()).strip("-")[:MAX_SLUG_CHARACTERS] or "section"
    while slug in ids:
        ids[slug] += 1
        slug = f"{slug}-{ids[slug]}"
    ids[slug] = 1
    return slug
