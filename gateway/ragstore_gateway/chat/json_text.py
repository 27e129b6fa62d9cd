"""Texts in JSON, of which a part is read, or another text is made, without decoding the whole."""

from __future__ import annotations

import codecs
import re
from typing import Final

import msgspec
from msgspec import Raw

_BYTES_PER_BYTE: Final = 6
"""Maximum number of bytes in JSON for one byte of a text: `\\u0041` is the letter A."""

_CHARACTERS: Final = re.compile(
    rb"(?:[^\\]+|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\[^u])*+"
)
"""Whole escape sequences, and what is between them. It ends before one that is cut off, and before half a pair."""

_TEXT: Final = msgspec.json.Decoder(str)
_new_decoder: Final = codecs.getincrementaldecoder("utf-8")


def is_text(value: Raw) -> bool:
    """Whether a value in JSON is a text."""
    return bytes(memoryview(value)[:1]) == b'"'


def is_list(value: Raw) -> bool:
    """Whether a value in JSON is a list."""
    return bytes(memoryview(value)[:1]) == b"["


def inner_bytes(text: str) -> bytes:
    """A text as JSON, without its quotes."""
    return msgspec.json.encode(text)[1:-1]


def inner(text: Raw) -> memoryview:
    """A text in JSON without its quotes."""
    return memoryview(text)[1:-1]


def beginning(text: memoryview, max_bytes: int) -> str:
    """The beginning of a text.

    Args:
        text: a text in JSON, without its quotes.
        max_bytes: maximum size of the result, as UTF-8.

    Returns:
        The characters that fit.

    Raises:
        ValueError: they are not UTF-8.
    """
    piece = bytes(text[: _BYTES_PER_BYTE * max_bytes])
    is_cut = len(piece) < len(text)
    if is_cut and (found := _CHARACTERS.match(piece)):
        piece = found[0]
    # A character whose bytes are cut off is left out.
    characters = _new_decoder().decode(piece, final=not is_cut)
    return _TEXT.decode(f'"{characters}"').encode()[:max_bytes].decode(errors="ignore")
