"""Text, Markdown and CSV."""

from __future__ import annotations

import csv
import io
import re
from itertools import pairwise
from typing import Final

from markdown_it import MarkdownIt

from ragstore_gateway.errors import ExtractionFailed
from ragstore_gateway.extraction.decode_text import decode
from ragstore_gateway.extraction.extracted import Extracted, Heading
from ragstore_gateway.extraction.formats import MEDIA_TYPES
from ragstore_gateway.extraction.protocol import Request
from ragstore_gateway.extraction.text_builder import MAX_TITLE_CHARACTERS, TextBuilder, check_length, clean, one_line

_FRONT_MATTER: Final = re.compile(r"\A---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TITLE: Final = re.compile(r"^title:[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_DELIMITERS: Final = ",;\t|"
_SNIFFED_CHARACTERS: Final = 16 * 1024


def text(content: bytes, request: Request) -> Extracted:
    """Extract a text.

    Args:
        content: the document.
        request: its declared media type, and the maximum number of characters of its text.
    """
    return Extracted(_decoded(content, request.media_type, request.max_characters), MEDIA_TYPES["text"])


def markdown(content: bytes, request: Request) -> Extracted:
    """Extract Markdown as it is, with its headings.

    Args:
        content: the document.
        request: its declared media type, and the maximum number of characters of its text.

    Returns:
        The text. Its title comes from its front matter, or its first heading if that is of level 1.
    """
    source = _decoded(content, request.media_type, request.max_characters)
    headings = markdown_headings(source)
    title = headings[0].text if headings and headings[0].level == 1 else ""
    front_matter = _FRONT_MATTER.match(source)
    if front_matter and (named := _TITLE.search(front_matter[1] or "")):
        title = named[1].strip("\"'")
    return Extracted(source, MEDIA_TYPES["markdown"], title=title[:MAX_TITLE_CHARACTERS], headings=headings)


def markdown_headings(source: str) -> tuple[Heading, ...]:
    """The headings of a Markdown text.

    Args:
        source: the text, with line feeds as its only line breaks.
    """
    front_matter = _FRONT_MATTER.match(source)
    start = front_matter.end() if front_matter else 0
    # Only the blocks are parsed: what is within a paragraph can have no heading.
    tokens = MarkdownIt("commonmark").disable("inline").parse(source[start:])
    starts = [start]
    for line in source[start:].split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    headings = []
    for token, content in pairwise(tokens):
        if token.type == "heading_open" and token.map and content.content:
            first, last = starts[token.map[0]], min(starts[token.map[1]] - 1, len(source))
            first += len(source[first:last]) - len(source[first:last].lstrip())
            end = first + len(source[first:last].rstrip())
            headings.append(Heading(int(token.tag[1]), one_line(content.content), first, end))
    return tuple(headings)


def table(content: bytes, request: Request) -> Extracted:
    """Extract a CSV file: a line for each row, with tabs between the cells.

    Args:
        content: the document.
        request: its declared media type, and the maximum number of characters of its text.

    Raises:
        ExtractionFailed: it is not CSV.
    """
    source = _decoded(content, request.media_type, request.max_characters)
    csv.field_size_limit(request.max_characters)
    builder = TextBuilder(request.max_characters)
    try:
        for cells in csv.reader(io.StringIO(source, newline=""), delimiter=_delimiter(source)):
            builder.row(cells)
    except csv.Error:
        raise ExtractionFailed("The CSV file cannot be read") from None
    return builder.built(MEDIA_TYPES["csv"])


def _delimiter(source: str) -> str:
    """The delimiter that is the most frequent one in the first line outside of quotes."""
    first = re.sub(r'"[^"]*"', "", source[:_SNIFFED_CHARACTERS]).lstrip("\n").partition("\n")[0]
    return max(_DELIMITERS, key=first.count)


def _decoded(content: bytes, media_type: str, max_characters: int) -> str:
    """The text, checked for its length.

    Raises:
        DocumentTooLarge: it is too long.
    """
    source = clean(decode(content, media_type))
    check_length(len(source), max_characters)
    return source
