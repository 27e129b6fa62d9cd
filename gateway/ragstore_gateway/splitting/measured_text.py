"""A text that is being split: sizes of spans in the unit that was chosen, and indexes where it may be cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ragstore_gateway.extraction.extracted import Heading
from ragstore_gateway.splitting.chunk import ChunkUnit
from ragstore_gateway.splitting.graphemes import MAX_CHARACTERS, are_joined, boundary_before
from ragstore_gateway.splitting.headings import KeptHeadings
from ragstore_gateway.splitting.tokens import count_tokens


class Span(NamedTuple):
    """A part of a text.

    Attributes:
        start: index of its first character.
        end: index after its last character.
    """

    start: int
    end: int


class MeasuredText:
    """A text with a unit.

    Args:
        unit: the unit of sizes.
        headings: its headings, which are kept with the text that follows them.
        size: maximum size of a chunk.

    Attributes:
        kept: the headings that are kept with their texts.
    """

    def __init__(self, text: str, unit: ChunkUnit, headings: Sequence[Heading], size: int) -> None:
        self.text = text
        self.unit = unit
        max_characters = size if unit == "characters" else size * MAX_CHARACTERS
        self.kept = KeptHeadings(text, headings, lambda start, end: self.fits(start, end, size), max_characters)

    @property
    def shape(self) -> str:
        """The text in which words, sentences and paragraphs are found; see `KeptHeadings`."""
        return self.kept.shape

    def size(self, start: int, end: int) -> int:
        """The size of a span, without the whitespace around it.

        Args:
            start: index of its first character.
            end: index after its last character.
        """
        span = self.trimmed(start, end)
        return span.end - span.start if self.unit == "characters" else count_tokens(self.text[span.start : span.end])

    def fits(self, start: int, end: int, size: int) -> bool:
        """Whether a span is not larger than a size.

        Args:
            start: index of its first character.
            end: index after its last character.
            size: the maximum.
        """
        # A character has at most four bytes, and a token at least one.
        bound = (end - start) * (1 if self.unit == "characters" else 4)
        return bound <= size or self.size(start, end) <= size

    def trimmed(self, start: int, end: int) -> Span:
        """A span without the whitespace around it.

        Whitespace that belongs to a grapheme cluster with another character remains.

        Args:
            start: index of its first character.
            end: index after its last character.

        Returns:
            The span; it is empty if there is only whitespace.
        """
        first, last = start, end
        while first < last and self.text[first].isspace():
            first += 1
        while last > first and self.text[last - 1].isspace():
            last -= 1
        if first == last:
            return Span(first, first)
        if first > start and are_joined(self.text, first):
            first -= 1  # a space with a combining mark
        if last < end and are_joined(self.text, last):
            last += 1  # a mark that is prepended to a space
        return Span(first, last)

    def is_blank(self, start: int, end: int) -> bool:
        """Whether a span is empty or has only whitespace.

        Args:
            start: index of its first character.
            end: index after its last character.
        """
        return start >= end or self.text[start:end].isspace()

    def blocks(self, region: Span, max_characters: int) -> Iterator[Span]:
        """Cut a region into blocks at paragraph ends where possible, otherwise line ends, spaces or grapheme clusters.

        Splitting a block needs up to quadratic time, so that blocks limit the time for a whole text.

        Args:
            max_characters: maximum number of characters of a block.
        """
        start = region.start
        while region.end - start > max_characters:
            end = start + max_characters
            cut = -1
            for separator in ("\n\n", "\n", " "):
                cut = self.shape.rfind(separator, start + max_characters // 2, end)
                if cut >= 0:
                    end = cut + len(separator)
                    break
            end = boundary_before(self.text, end, start) or end
            if (kept := self.kept.around(end)) is not None and kept.start > start:
                end = kept.start
            yield Span(start, end)
            start = end
        if start < region.end:
            yield Span(start, region.end)
