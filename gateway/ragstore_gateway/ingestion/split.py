"""Splits texts into chunks, which are spans of the text."""

from __future__ import annotations

from typing import Final, NamedTuple

from semantic_text_splitter import TextSplitter

WINDOW_SIZE: Final = 800
WINDOW_OVERLAP: Final = 100


class Chunk(NamedTuple):
    """A span of a text.

    Attributes:
        start: index of its first character.
        text: the characters.
    """

    start: int
    text: str


def windows(text: str, size: int = WINDOW_SIZE, overlap: int = WINDOW_OVERLAP) -> list[Chunk]:
    """Split a text into windows that overlap, at the ends of paragraphs, sentences or words where possible.

    Args:
        text: the text.
        size: maximum number of characters of a window.
        overlap: maximum number of characters that a window repeats of the one before; less than `size`.

    Returns:
        The windows that contain more than whitespace.
    """
    splitter = TextSplitter(size, overlap=overlap, trim=False)
    return [Chunk(start, chunk) for start, chunk in splitter.chunk_indices(text) if chunk.strip()]
