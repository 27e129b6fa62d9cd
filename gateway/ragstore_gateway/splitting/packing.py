"""Packs pieces of a text into chunks of a maximum size that overlap."""

from __future__ import annotations

import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ragstore_gateway.splitting.graphemes import MAX_CHARACTERS, are_joined, boundaries, boundary_before
from ragstore_gateway.splitting.measured_text import MeasuredText, Span
from ragstore_gateway.splitting.pieces import words

_WORD_START: Final = re.compile(r"(?<=\s)\S")


class ChunkLimit(Exception):
    """There are more chunks than allowed."""


class Packer:
    """Makes the chunks of a region, from its start to its end.

    Every character of the region that is not whitespace is in a chunk. No chunk is larger than `size`, and no overlap
    larger than `overlap`. A chunk begins within the chunk before if there is room for a word of it.

    Args:
        measured: the text.
        size: maximum size of a chunk.
        overlap: maximum size of what a chunk repeats of the chunk before.
        max_chunks: maximum number of chunks.

    Attributes:
        chunks: the chunks so far.
    """

    def __init__(
        self, measured: MeasuredText, region: Span, size: int, overlap: int, max_chunks: int = sys.maxsize
    ) -> None:
        self.chunks: list[Span] = []
        self._measured = measured
        self._region = region
        self._size = size
        self._overlap = overlap
        self._max_chunks = max_chunks
        self._covered = region.start

    def pack(self, ends: Sequence[int]) -> None:
        """Pack pieces: each chunk has the maximum number of them.

        Args:
            ends: the ends of the pieces, ascending; the first one begins where the last chunk ends. No piece is larger
                than `size`, except for a single character.
        """
        index = bisect_right(ends, self._covered)
        while index < len(ends):
            if self._measured.is_blank(self._covered, ends[index]):
                self._covered = ends[index]
                index += 1
                continue
            start = self._start(ends[index])
            last = self._last(ends, index, start)
            self._append(start, ends[last])
            index = last + 1

    def settle(self, proposed: Iterable[Span]) -> None:
        """Add chunks that a library has made, without split grapheme clusters.

        A chunk that does not overlap with the chunk before is extended to it, if there is room.

        Args:
            proposed: chunks by ascending end.
        """
        text = self._measured.text
        for start, proposed_end in proposed:
            lowest = max(self._covered, start)
            end = boundary_before(text, proposed_end, lowest) or self._cluster_end(lowest, proposed_end)
            if end < self._region.end and text[end].isspace() and are_joined(text, end):
                end += 1  # a mark that is prepended to a space, which was removed
            if (kept := self._measured.kept.around(end)) is not None:
                end = kept.start if kept.start > self._covered else kept.end
            if end <= self._covered or self._measured.is_blank(self._covered, end):
                continue
            first = start if self._may_start(start, end) else self._start(end)
            if self._measured.fits(first, end, self._size):
                self._append(first, end)
            else:
                # A grapheme cluster was completed, or a word without the space before it has more tokens.
                self._pack_words(end)
        if not self._measured.is_blank(self._covered, self._region.end):
            self._pack_words(self._region.end)

    def _cluster_end(self, start: int, index: int) -> int:
        """The end of the cluster that begins at `start` and contains an index; the index if that is too large."""
        last = min(start + MAX_CHARACTERS * self._size, self._region.end)
        end = next(boundaries(self._measured.text, start, last), index)
        is_whole = end < last or last == self._region.end
        return end if is_whole and end > index and self._measured.fits(start, end, self._size) else index

    def _pack_words(self, end: int) -> None:
        self.pack(words(self._measured, Span(self._covered, end), self._size))

    def _append(self, start: int, end: int) -> None:
        if len(self.chunks) == self._max_chunks:
            raise ChunkLimit
        self.chunks.append(self._measured.trimmed(start, end))
        self._covered = end

    def _last(self, ends: Sequence[int], index: int, start: int) -> int:
        """The index of the last piece that fits into a chunk."""

        def too_large(last: int) -> bool:
            return not self._measured.fits(start, ends[last], self._size)

        step = 1
        while index + step < len(ends) and not too_large(index + step):
            index += step
            step *= 2
        later = range(index + 1, min(index + step, len(ends)))
        return index + bisect_left(later, True, key=too_large)

    def _may_start(self, start: int, end: int) -> bool:
        """Whether a chunk may begin at an index within the chunk before."""
        if not self.chunks or not self.chunks[-1].start < start < self.chunks[-1].end:
            return False
        before = self.chunks[-1]
        return boundary_before(self._measured.text, start, before.start) == start and self._fits(start, end)

    def _fits(self, start: int, end: int) -> bool:
        return self._overlaps(start) and self._measured.fits(start, end, self._size)

    def _overlaps(self, start: int) -> bool:
        return self._measured.fits(start, self.chunks[-1].end, self._overlap)

    def _start(self, end: int) -> int:
        """Where the chunk that ends at an index begins: within the chunk before, or where that ends.

        It is the first word with which neither the overlap nor the chunk is too large. A last word that is larger than
        the overlap is cut.
        """
        if not self.chunks or not self._overlap:
            return self._covered
        starts = self._word_starts()
        if not starts or not self._overlaps(starts[-1]):
            starts = self._cluster_starts(starts[-1] if starts else self.chunks[-1].start)
        starts = starts[_first(starts, self._overlaps) :]
        starts = starts[_first(starts, lambda start: self._measured.fits(start, end, self._size)) :]
        return starts[0] if starts else self._covered

    def _word_starts(self) -> list[int]:
        """Where the words of the last chunk begin, without its first one."""
        text, before = self._measured.text, self.chunks[-1]
        lowest = before.start + 1
        if self._measured.unit == "characters":
            lowest = max(lowest, before.end - self._overlap)
        matches = _WORD_START.finditer(text, lowest, before.end)
        return [match.start() for match in matches if not are_joined(text, match.start())]

    def _cluster_starts(self, start: int) -> list[int]:
        """Where the grapheme clusters of the last chunk begin, after an index."""
        before = self.chunks[-1]
        return [end for end in boundaries(self._measured.text, start, before.end) if end < before.end]


def _first(values: Sequence[int], accepts: Callable[[int], bool]) -> int:
    """The index of the first value that is accepted, as are all after it."""
    return bisect_left(values, True, key=accepts)
