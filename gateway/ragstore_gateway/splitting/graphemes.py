"""Boundaries of grapheme clusters (UAX #29): what a reader sees as one character is not split."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import regex

_CLUSTER: Final = regex.compile(r"\X")

_FLAGS: Final = regex.compile("[\U0001f1e6-\U0001f1ff]{64,}")
"""Regional indicators: \\X of regex 2026.11 needs quadratic time for a run of them."""

MAX_CHARACTERS: Final = 16
"""Characters that are read for each unit of a maximum size, so that the time is linear."""

_SIMPLE: Final = "\u0300"
"""Between two characters below this one is a boundary, except within CR LF: combining marks begin here."""


def boundaries(text: str, start: int, end: int) -> Iterator[int]:
    """The ends of the grapheme clusters of a span.

    Args:
        start: index of the span's first character, which begins a cluster.
        end: index after its last character.
    """
    while flags := _FLAGS.search(text, start, end):
        first, last = flags.span()
        # Of the text before, and of the first indicator: a mark before it may belong to its cluster.
        for match in _CLUSTER.finditer(text, start, first + 1):
            if match.end() <= first:
                yield match.end()
        # Two indicators are a flag. The end of the last one depends on what follows.
        start = first + (last - first - 1) // 2 * 2
        yield from range(first + 2, start + 1, 2)
    for match in _CLUSTER.finditer(text, start, end):
        yield match.end()


def boundary_before(text: str, index: int, lowest: int) -> int | None:
    """The last boundary at or before an index.

    Args:
        index: an index, at most the length of the text.
        lowest: a boundary below the index. No text before it is read, so that the time is limited.

    Returns:
        A boundary above `lowest`; None if there is none, because the index is in a cluster that begins there.
    """
    if index >= len(text):
        return index
    first = index
    while first > lowest and not _is_simple(text, first):
        first -= 1
    found = lowest
    for end in boundaries(text, first, index + 1):
        if end > index:
            break
        found = end
    return max(first, found) if max(first, found) > lowest else None


def are_joined(text: str, index: int) -> bool:
    """Whether a whitespace character and its neighbour are one cluster: one of them is a mark.

    Args:
        index: index of the second of the two characters, one of which is whitespace.
    """
    match = _CLUSTER.match(text, index - 1, index + 1)
    return match is not None and match.end() > index


def _is_simple(text: str, index: int) -> bool:
    before, after = text[index - 1], text[index]
    return before < _SIMPLE and after < _SIMPLE and not (before == "\r" and after == "\n")
