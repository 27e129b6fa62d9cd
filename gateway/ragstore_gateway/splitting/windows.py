"""The windows of a text in the collections of the store: the command `ingest`, and what the web returned."""

from __future__ import annotations

from ragstore_gateway.splitting.chunk import Chunking
from ragstore_gateway.splitting.measured_text import MeasuredText, Span
from ragstore_gateway.splitting.regions import split_region


def windows(text: str, size: int, overlap: int) -> list[str]:
    """Split a text with the strategy `window`, without counting tokens.

    Args:
        text: the text.
        size: maximum number of characters of a window.
        overlap: maximum number of characters that a window repeats of the one before; less than `size`.

    Returns:
        The windows; none if the text has only whitespace.
    """
    spans = split_region(MeasuredText(text, "characters"), Span(0, len(text)), Chunking("window", size, overlap))
    return [text[span.start : span.end] for span in spans]
