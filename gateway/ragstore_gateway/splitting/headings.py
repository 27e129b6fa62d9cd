"""Keeps headings with the text that follows them, as "keep with next" of word processors does."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from ragstore_gateway.extraction.extracted import Heading
from ragstore_gateway.splitting.graphemes import are_joined, boundaries

MAX_WORD_CHARACTERS: Final = 32
"""Longer words, such as a text in a script without spaces, are kept with a heading in part."""

_WORD: Final = re.compile(r"\S+")
_SUBSTITUTE: Final = "Title"
"""Letters, the first one upper-case, so that a sentence does not continue before them. They have a token for each five
characters, a little more than English has: a chunk that is too large in the text's own tokens is split again."""


class KeptSpan(NamedTuple):
    """Headings and the first word of the text that follows them. No chunk ends within.

    Attributes:
        start: where the first of the headings begins.
        text_start: where the text begins.
        end: where its first word ends.
    """

    start: int
    text_start: int
    end: int


class KeptHeadings:
    """The headings of a text that are kept with the text that follows them.

    Args:
        headings: its headings, in order.
        fits: whether a span of the text is not larger than a chunk.
        max_characters: maximum number of characters that fit.

    Attributes:
        shape: the text with letters in place of kept headings and of the whitespace after them. Each heading and the
            word after it are one word, so that whatever finds words, sentences or paragraphs does not separate them.
    """

    def __init__(
        self, text: str, headings: Sequence[Heading], fits: Callable[[int, int], bool], max_characters: int
    ) -> None:
        self._spans = list(_kept_spans(text, headings, fits, max_characters))
        self._starts = [span.start for span in self._spans]
        self.shape = _shape(text, self._spans)

    def around(self, index: int) -> KeptSpan | None:
        """The headings that a cut at an index would separate from their text; None if it would not.

        Args:
            index: an index of the text.
        """
        found = bisect_left(self._starts, index) - 1
        if found < 0 or self._spans[found].end <= index:
            return None
        return self._spans[found]


def _kept_spans(
    text: str, headings: Sequence[Heading], fits: Callable[[int, int], bool], max_characters: int
) -> Iterator[KeptSpan]:
    for run in _runs(text, headings):
        word = _WORD.search(text, run[-1].end)
        if word is None:
            return  # the last headings of the text
        end = word.end()
        if end - word.start() > MAX_WORD_CHARACTERS:
            end = next(boundaries(text, word.start(), word.start() + MAX_WORD_CHARACTERS))
        elif end < len(text) and are_joined(text, end):
            end += 1  # a mark that is prepended to a space
        starts = [heading.start for heading in run]
        # As many of the last headings as fit. A run of thousands of headings is not measured as a whole.
        first = bisect_right(starts, end - max_characters - 1)
        first = bisect_left(range(len(starts)), True, first, key=lambda index: fits(starts[index], end))
        if first < len(starts):
            yield KeptSpan(starts[first], word.start(), end)


def _runs(text: str, headings: Sequence[Heading]) -> Iterator[list[Heading]]:
    """Headings with only whitespace between them."""
    run: list[Heading] = []
    for heading in headings:
        if not text[heading.start : heading.end].strip():
            continue
        if run and text[run[-1].end : heading.start].strip():
            yield run
            run = []
        run.append(heading)
    if run:
        yield run


def _shape(text: str, spans: Sequence[KeptSpan]) -> str:
    pieces: list[str] = []
    last = 0
    for span in spans:
        length = span.text_start - span.start
        pieces += (text[last : span.start], (_SUBSTITUTE * (length // len(_SUBSTITUTE) + 1))[:length])
        last = span.text_start
    return "".join((*pieces, text[last:])) if pieces else text
