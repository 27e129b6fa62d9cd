"""The windows of a text in the collections of the store: the command `ingest`, and pages of the web."""

from __future__ import annotations

from collections.abc import Sequence

from ragstore_gateway.extraction.extracted import Heading
from ragstore_gateway.splitting.chunk import Chunking
from ragstore_gateway.splitting.measured_text import MeasuredText, Span
from ragstore_gateway.splitting.regions import split_region


def windows(text: str, size: int, overlap: int, headings: Sequence[Heading] = ()) -> list[str]:
    """Split a text as the strategy `window`. Tokens are not counted.

    Args:
        size: maximum number of characters of a window.
        overlap: maximum number of characters that a window repeats of the one before; less than `size`.
        headings: the headings of the text, if known.

    Returns:
        The windows; none if the text has only whitespace.
    """
    measured = MeasuredText(text, "characters", headings, size)
    spans = split_region(measured, Span(0, len(text)), Chunking("window", size, overlap))
    return [text[span.start : span.end] for span in spans]
