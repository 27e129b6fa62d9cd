"""Splits long runs of scripts without spaces, such as Thai and Chinese, in time that is linear.

semantic-text-splitter 0.33.1 looks up the words of such a run in a dictionary, for each chunk from its start to the end
of the run: 4 ms for each chunk of 16,384 ideographs, however small the chunk is. With a large overlap, 100,000
ideographs take 20 s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Protocol

_SCRIPTS: Final = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u3040-\u30ff"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # ideographs
)

_MIXED: Final = re.compile(f"[{_SCRIPTS}]{{2048}}")
"""A long run, in any text."""

_ONLY: Final = re.compile(rf"\A[{_SCRIPTS}]{{2048,}}\Z")
"""A text that is one long run. Other Markdown means something else when it is cut."""

_CHUNKS: Final = 4
"""Number of chunks that a part has space for."""

_MIN_PART: Final = 512
_MARGIN: Final = 128
"""Characters at the end of a part in which its words may differ from the words of the whole text."""


class IndexedSplitter(Protocol):
    """A splitter of the library."""

    def chunk_indices(self, text: str) -> list[tuple[int, str]]:
        """Split a text."""


def has_long_run(text: str, *, markdown: bool) -> bool:
    """Whether a text has a run for which `chunks_in_parts` is faster.

    Args:
        markdown: whether it is Markdown.
    """
    return (_ONLY if markdown else _MIXED).search(text) is not None


def chunks_in_parts(splitter: IndexedSplitter, text: str, size: int) -> Iterator[tuple[int, str]]:
    """Split a text with one call for each of its parts. The chunks equal the chunks of one call for the whole text.

    A chunk depends only on the text after its start. The chunks at the end of a part, which may depend on what follows,
    are made again as chunks of the next part. This is not so for tokens: the library searches the end of a chunk near
    the size of the largest one so far, and a longer text may have fewer tokens.

    Args:
        size: maximum number of characters of a chunk.
    """
    start, length = 0, max(_MIN_PART, _CHUNKS * size)
    part = length
    while True:
        found = splitter.chunk_indices(text[start : start + part])
        if start + part >= len(text):
            yield from ((start + at, chunk) for at, chunk in found)
            return
        kept = _kept(text, start, found, start + part - _MARGIN)
        if not kept:
            part *= 2
            continue
        yield from ((start + at, chunk) for at, chunk in found[:kept])
        start += found[kept][0]
        part = length


def _kept(text: str, start: int, found: list[tuple[int, str]], end: int) -> int:
    """The number of chunks before the next part, which begins with a chunk."""
    for index in range(len(found) - 1, 0, -1):
        at, chunk = found[index - 1]
        following = start + found[index][0]
        # The library removes whitespace at the start of a chunk, where it continues.
        if start + at + len(chunk) <= end and not text[following - 1].isspace():
            return index
    return 0
