"""Cuts a text into pieces that a chunk is made of: words, sentences, paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from semantic_text_splitter import TextSplitter

from ragstore_gateway.splitting.graphemes import are_joined, boundaries
from ragstore_gateway.splitting.measured_text import MeasuredText, Span

_WORD: Final = re.compile(r"\s*\S+\s*")
_EMPTY_LINES: Final = re.compile(r"\n[^\S\n]*\n\s*")
_LINE_BREAKS: Final = re.compile(r"\n\s*(?=(\S?))")

_SENTENCE_BLOCK_CHARACTERS: Final = 2048
"""Characters that are cut into sentences with one call, which needs quadratic time."""

# A chunk is complete as soon as it has one character, and has at least one piece of the highest level: a sentence, in a
# text without line breaks.
_SENTENCES: Final = TextSplitter((1, _SENTENCE_BLOCK_CHARACTERS), trim=False)


def words(measured: MeasuredText, region: Span, size: int) -> list[int]:
    """The ends of the words of a region, each with the whitespace after it.

    A word that is larger than `size`, such as a text without spaces, is cut between grapheme clusters, and a grapheme
    cluster that is larger between characters. Headings and the word after them are one word.

    Args:
        measured: the text.
        size: maximum size of a piece.
    """
    ends: list[int] = []
    start = region.start
    for match in _WORD.finditer(measured.shape, region.start, region.end):
        end = match.end()
        if end < region.end and are_joined(measured.text, end):
            continue  # a mark on the last space: the next word is part of this one
        if not measured.fits(start, end, size):
            found = clusters(measured, Span(start, end), size)
            ends += (cut for cut in found if measured.kept.around(cut) is None)
        else:
            ends.append(end)
        start = end
    return ends


def clusters(measured: MeasuredText, region: Span, size: int) -> list[int]:
    """The ends of the grapheme clusters of a region, and of the characters of clusters that are larger than `size`.

    Args:
        measured: the text.
        region: the region, which begins with a grapheme cluster.
        size: maximum size of a piece.
    """
    ends: list[int] = []
    start = region.start
    for end in boundaries(measured.text, region.start, region.end):
        if end - start > 1 and not measured.fits(start, end, size):
            ends.extend(range(start + 1, end))
        ends.append(end)
        start = end
    return ends


def sentences(measured: MeasuredText, region: Span) -> Iterator[Span]:
    """The sentences of a region (UAX #29), each with the whitespace after it.

    An empty line, and a line break that is not followed by a lowercase letter, end a sentence.

    Args:
        measured: the text.
    """
    for block in measured.blocks(region, _SENTENCE_BLOCK_CHARACTERS):
        # Characters are replaced one by one, so that indexes remain: a line break is a level above sentences.
        masked = _LINE_BREAKS.sub(_masked, measured.shape[block.start : block.end]).replace("\r", " ")
        for start, sentence in _SENTENCES.chunk_indices(masked):
            yield Span(block.start + start, block.start + start + len(sentence))


def _masked(breaks: re.Match[str]) -> str:
    """Spaces, with a paragraph separator at the end if it ends a sentence. There is one, however many line breaks."""
    length = len(breaks[0])
    ends = breaks[0].count("\n") > 1 or not breaks[1].islower()
    return " " * (length - 1) + "\u2029" if ends else " " * length


def paragraphs(measured: MeasuredText, region: Span) -> Iterator[Span]:
    """The paragraphs of a region, which are separated by empty lines.

    Args:
        measured: the text.
    """
    start = region.start
    for match in _EMPTY_LINES.finditer(measured.shape, region.start, region.end):
        end = match.end()
        if end < region.end and are_joined(measured.text, end):
            end -= 1
        yield Span(start, end)
        start = end
    if start < region.end:
        yield Span(start, region.end)
