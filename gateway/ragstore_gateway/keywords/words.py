"""The words of a text, the same ones for texts and questions, SQLite and PostgreSQL."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

MAX_WORD: Final = 64
"""Maximum number of characters of a word. The rest of a longer one, such as encoded data, is cut off."""

_words: Final = re.compile(r"[^\W_]+").findall

_UNSPACED: Final = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3040-\u30ff"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U00020000-\U0003ffff"
)
_runs: Final = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+").findall
_is_unspaced: Final = re.compile(f"[{_UNSPACED}]").match


def words(text: str) -> Iterator[str]:
    """The words of a text: letters and digits, in lower case, without accents.

    Scripts that are written without spaces have no words to be seen. Each pair of their characters is one, as in
    Lucene's `CJKAnalyzer`.

    Args:
        text: any text.
    """
    for word in _words(_plain(text)):
        if word.isascii() or not any(map(_is_unspaced, word)):
            yield word[:MAX_WORD]
            continue
        for run in _runs(word):
            if len(run) > 1 and _is_unspaced(run):
                yield from map("".join, pairwise(run))
            else:
                yield run[:MAX_WORD]


def _plain(text: str) -> str:
    if text.isascii():
        return text.lower()
    # Lower case may be composed, although its capital was not.
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(character for character in decomposed if not unicodedata.combining(character))
