"""The windows of a text in the collections of the store: the command `ingest`, and pages of the web."""

from __future__ import annotations

from ragstore_gateway.splitting.chunk import Chunking
from ragstore_gateway.splitting.measured_text import MeasuredText, Span
from ragstore_gateway.splitting.packing import Packer
from ragstore_gateway.splitting.regions import proposed_chunks


def windows(text: str, size: int, overlap: int) -> list[str]:
    """Split a text at the ends of paragraphs, sentences or words.

    Windows overlap in whole sentences or words of the level that they are split at, and not across paragraphs: a
    window that begins with a paragraph is quoted from its beginning. Tokens are not counted.

    Args:
        text: the text.
        size: maximum number of characters of a window.
        overlap: maximum number of characters that a window repeats of the one before; less than `size`.

    Returns:
        The windows; none if the text has only whitespace.
    """
    measured, region = MeasuredText(text, "characters", (), size), Span(0, len(text))
    packer = Packer(measured, region, size, overlap)
    packer.settle(proposed_chunks(measured, region, Chunking("recursive", size, overlap)), extend=False)
    return [text[span.start : span.end] for span in packer.chunks]
