"""Splits a region of a text, for each strategy but `layers`, which splits several."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, assert_never

from msgspec.structs import replace
from semantic_text_splitter import MarkdownSplitter, TextSplitter

from ragstore_gateway.splitting.chunk import Chunking
from ragstore_gateway.splitting.measured_text import MeasuredText, Span
from ragstore_gateway.splitting.packing import Packer
from ragstore_gateway.splitting.pieces import paragraphs, sentences, words
from ragstore_gateway.splitting.runs import chunks_in_parts, has_long_run
from ragstore_gateway.splitting.tokens import count_tokens

MIN_BLOCK_CHARACTERS: Final = 16_384
"""Characters that semantic-text-splitter splits with one call. It needs quadratic time for a text without punctuation,
and MarkdownSplitter more for empty lines: 0.33.1 splits 100,000 ideographs in 2.1 s, 100,000 empty lines not in 60."""

_GAP: Final = re.compile(r"(?<!\s)\s{100,}")
"""Whitespace between texts that are split apart: 0.33.1 needs 4 s for 4,000 lines with a tab. Each run of whitespace is
tried once, not from each of its characters."""

_HEADINGS: Final = re.compile(r"(?:#{1,6}[ \t][^\n]*(?:\n\s*|$))+")

BLOCK_CHUNKS: Final = 8
"""Number of chunks of a block, if they are large."""

CHARACTERS_PER_TOKEN: Final = 4


def split_region(measured: MeasuredText, region: Span, chunking: Chunking, max_chunks: int = sys.maxsize) -> list[Span]:
    """Split a region.

    Args:
        measured: the text.
        region: the region, which begins and ends between grapheme clusters.
        chunking: how to split it. `layers` is as `recursive`.
        max_chunks: maximum number of chunks.

    Returns:
        The chunks, in order.

    Raises:
        ChunkLimit: there are more.
    """
    packer = Packer(measured, region, chunking.size, chunking.overlap, max_chunks)
    match chunking.strategy:
        case "window":
            packer.pack(words(measured, region, chunking.size))
        case "sentence":
            for ends in _sentence_groups(measured, sentences(measured, region), chunking.size):
                packer.pack(ends)
        case "paragraph":
            for ends in _paragraph_groups(measured, region, chunking.size):
                packer.pack(ends)
        case "markdown":
            packer.settle(_with_headings(measured, proposed_chunks(measured, region, chunking), chunking))
        case "recursive" | "layers":
            packer.settle(proposed_chunks(measured, region, chunking))
        case other:
            assert_never(other)
    return packer.chunks


def proposed_chunks(measured: MeasuredText, region: Span, chunking: Chunking) -> Iterator[Span]:
    """The chunks that semantic-text-splitter makes.

    Args:
        measured: the text.
        chunking: how to split it; `markdown`, or as `recursive`.
    """
    splitter = _splitter(chunking)
    # Markdown has another structure without the marks of its headings.
    source = measured.text if chunking.strategy == "markdown" else measured.shape
    scale = 1 if chunking.unit == "characters" else CHARACTERS_PER_TOKEN
    for block in measured.blocks(region, max(MIN_BLOCK_CHARACTERS, BLOCK_CHUNKS * scale * chunking.size)):
        for island in _islands(measured, block):
            text = source[island.start : island.end]
            in_parts = chunking.unit == "characters" and has_long_run(text, markdown=chunking.strategy == "markdown")
            found = chunks_in_parts(splitter, text, chunking.size) if in_parts else splitter.chunk_indices(text)
            for start, chunk in found:
                yield Span(island.start + start, island.start + start + len(chunk))


def _with_headings(measured: MeasuredText, proposed: Iterable[Span], chunking: Chunking) -> Iterator[Span]:
    """The chunks, with headings in the chunk of the text below them: 0.33.1 makes chunks of headings."""
    start: int | None = None
    end = 0
    for span in proposed:
        joined, end = Span(span.start if start is None else start, span.end), span.end
        kept = measured.kept.around(end)
        if kept is not None and joined.start < kept.start:
            yield Span(joined.start, kept.start)
            start = kept.start
        elif kept is not None or _HEADINGS.fullmatch(measured.text, *joined):
            start = joined.start
        elif start is None or measured.fits(*joined, chunking.size):
            yield joined
            start = None
        else:
            yield from proposed_chunks(measured, joined, replace(chunking, strategy="recursive"))
            start = None
    if start is not None:
        yield Span(start, end)


def _islands(measured: MeasuredText, block: Span) -> Iterator[Span]:
    """The parts of a block between long whitespace."""
    start = block.start
    for gap in _GAP.finditer(measured.shape, block.start, block.end):
        if start < gap.start():
            yield Span(start, gap.start())
        # A mark on the last space belongs to it.
        start = gap.end() - 1
    if not measured.is_blank(start, block.end):
        yield Span(start, block.end)


def _splitter(chunking: Chunking) -> TextSplitter | MarkdownSplitter:
    kind = MarkdownSplitter if chunking.strategy == "markdown" else TextSplitter
    if chunking.unit == "characters":
        return kind(chunking.size, chunking.overlap)
    # Its own tokenizer needs quadratic time for a long word.
    return kind.from_callback(count_tokens, chunking.size, chunking.overlap)


def _sentence_groups(measured: MeasuredText, spans: Iterable[Span], size: int) -> Iterator[Sequence[int]]:
    """The ends of sentences that fit into chunks; of the words of a sentence that is too large, by itself."""
    group: list[int] = []
    for sentence in spans:
        if measured.fits(*sentence, size):
            group.append(sentence.end)
            continue
        yield group
        yield words(measured, sentence, size)
        group = []
    yield group


def _paragraph_groups(measured: MeasuredText, region: Span, size: int) -> Iterator[Sequence[int]]:
    """Ends of paragraphs, grouped; a paragraph that is too large is a group of its sentences."""
    group: list[int] = []
    for paragraph in paragraphs(measured, region):
        if measured.fits(*paragraph, size):
            group.append(paragraph.end)
            continue
        yield group
        yield from _sentence_groups(measured, sentences(measured, paragraph), size)
        group = []
    yield group
