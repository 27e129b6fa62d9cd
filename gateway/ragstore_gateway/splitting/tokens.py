"""Counts tokens of o200k_base, offline."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final, cast

MAX_ENCODED_CHARACTERS: Final = 50_000
"""Characters that are encoded with one call. bpe-openai 0.1.4 rejects texts of more than 200,000 tokens, and a
character has four at most. A longer text is counted in parts, which end at spaces where possible."""


@cache
def _encode() -> Callable[[str], list[int]]:
    # Only now: the vocabulary needs half a second and 140 MB. bpe-openai has it compiled in, where tiktoken would
    # download it, and needs linear time for any text: tiktoken 0.14 overflows its stack on a million spaces.
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        # bpe-openai 0.1.4 reads its files with importlib.resources.open_binary.
        import bpe_openai

    return cast(Callable[[str], list[int]], bpe_openai.get_encoding("o200k_base").encode_ordinary)


def count_tokens(text: str) -> int:
    """The number of tokens of a text, o200k_base: the encoding of GPT-4o, GPT-4.1, GPT-5 and gpt-oss.

    Args:
        text: any text. Names of special tokens in it are ordinary text.
    """
    encode = _encode()
    if len(text) <= MAX_ENCODED_CHARACTERS:
        return len(encode(text))
    return sum(len(encode(part)) for part in _parts(text))


def _parts(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = min(start + MAX_ENCODED_CHARACTERS, len(text))
        if end < len(text):
            # A token may begin with a space, and apart from runs of spaces does not contain one elsewhere.
            end = max(text.rfind(" ", start, end), start)
            end = end if end > start else start + MAX_ENCODED_CHARACTERS
        yield text[start:end]
        start = end
