"""The text of a chunk as it is embedded and searched by words. Searches return the text of the chunk alone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.splitting.chunk import Chunking, ChunkSpan
from ragstore_gateway.splitting.outline import MAX_HEADING_CHARACTERS

MAX_CHARACTERS: Final = 300
"""Maximum number of characters of the title and the headings of a chunk, so that its own text decides its vector."""

MAX_HEADINGS: Final = 200
"""Maximum number of headings before the end of a chunk that are read, for each chunk of a text with thousands."""


def embedded_text(extracted: Extracted, span: ChunkSpan, chunking: Chunking) -> str:
    """The text of a chunk for a model of embeddings.

    Args:
        extracted: the document.
        span: the chunk.
        chunking: how the document is split.

    Returns:
        The title and the headings above the chunk, each on a line, and its text. Lines that the text has are left out.
    """
    text = extracted.text[span.start : span.end]
    if not chunking.with_headings:
        return text
    return "\n".join((*heading_lines(extracted, span), text))


def heading_lines(extracted: Extracted, span: ChunkSpan) -> list[str]:
    """The title of a document, and the headings that a chunk is below, the highest one first.

    Lines that the text of the chunk has, and repeated ones, are left out.

    Args:
        extracted: the document.
        span: the chunk.
    """
    text = extracted.text[span.start : span.end]
    above = _above(extracted, span) if span.heading else ()
    lines: list[str] = []
    left = MAX_CHARACTERS
    # The nearest heading says most, so it is the last one to be left out.
    for line in (*above, extracted.title):
        line = " ".join(line.split())
        if line and line not in lines and line not in text and len(line) <= left:
            lines.append(line)
            left -= len(line)
    return lines[::-1]


def _above(extracted: Extracted, span: ChunkSpan) -> Iterator[str]:
    """The headings of a chunk's sections, the nearest first."""
    headings = extracted.headings
    end = bisect_right(headings, span.end, key=lambda heading: heading.start)
    level: int | None = None
    for heading in reversed(headings[max(0, end - MAX_HEADINGS) : end]):
        if level is None and heading.text[:MAX_HEADING_CHARACTERS] != span.heading:
            continue
        if level is None or heading.level < level:
            level = heading.level
            yield heading.text
        if level == 1:
            return
