"""Counts the values of a body before it is decoded.

A list of empty lists takes 30 times its bytes as Python objects, and one of empty objects in MessagePack 73 times.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import Final

from ragstore.kit.decoding import JSON

MAX_VALUES: Final = 100_000
"""Maximum number of values in a body, or in one document of a body: numbers, texts, lists and objects, also in ignored
fields. As empty objects they take 6 MB and 5 ms."""

STEP_BYTES: Final = 64 * 1024
"""Number of bytes that are searched in one step."""

QUOTE: Final = ord('"')

_JSON_TOKEN: Final = re.compile(rb'"[^"]*+"|[,\[{]')

_FIXED: Final[dict[int, int]] = {
    **dict.fromkeys((0xC0, 0xC1, 0xC2, 0xC3), 0),
    0xCA: 4,
    0xCB: 8,
    0xCC: 1,
    0xCD: 2,
    0xCE: 4,
    0xCF: 8,
    0xD0: 1,
    0xD1: 2,
    0xD2: 4,
    0xD3: 8,
    0xD4: 2,
    0xD5: 3,
    0xD6: 5,
    0xD7: 9,
    0xD8: 17,
}
"""Bytes after the first one, for types of MessagePack with a fixed size."""

_SIZED: Final[dict[int, tuple[int, int]]] = {
    0xC4: (1, 0),
    0xC5: (2, 0),
    0xC6: (4, 0),
    0xD9: (1, 0),
    0xDA: (2, 0),
    0xDB: (4, 0),
    0xC7: (1, 1),
    0xC8: (2, 1),
    0xC9: (4, 1),
}
"""Bytes of the size, and bytes besides the content, for binary, texts and extensions."""

_CONTAINERS: Final[dict[int, tuple[int, int]]] = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
"""Bytes of the size, and values for each member, for lists and objects."""


def has_too_many_values(content: bytes, format_: str, limit: int = MAX_VALUES) -> bool:
    """Whether a body has more values than a limit. It need not be valid.

    Args:
        content: the body, or one document of it.
        format_: `JSON` or `MSGPACK`.
        limit: maximum number of values.
    """
    if len(content) <= limit:
        return False
    if format_ == JSON:
        if content.count(b",") + content.count(b"[") + content.count(b"{") < limit:
            return False
        # The rest of the backslashes escape no quotes.
        plain = content.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in content else content
        tokens = (token for token in _JSON_TOKEN.finditer(plain) if plain[token.start()] != QUOTE)
        return any(number >= limit for number, _ in enumerate(tokens, 1))
    return any(number > limit for number, _ in enumerate(_msgpack_values(content), 1))


def too_many_json_values(content: bytes, limit: int = MAX_VALUES) -> Generator[None, None, bool]:
    """Whether a JSON body has more values than a limit, in steps; see `has_too_many_values`.

    Each step reads 64 KiB, which takes less than 1 ms. A regular expression over a text of 31 MB holds the interpreter
    for 0.1 s.

    Args:
        content: the body. It need not be valid.
        limit: maximum number of values.
    """
    if len(content) <= limit:
        return False
    count = 0
    in_text = False
    start = 0
    while start < len(content) and count < limit:
        piece = content[start : start + STEP_BYTES]
        # A backslash at the end belongs to what follows it.
        escapes = len(piece) - len(piece.rstrip(b"\\"))
        if escapes % 2 and len(piece) > 1:
            piece = piece[:-1]
        start += len(piece)
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        outside = b"".join(parts[1::2] if in_text else parts[::2])
        count += outside.count(b",") + outside.count(b"[") + outside.count(b"{")
        in_text ^= len(parts) % 2 == 0
        yield
    return count >= limit


def _msgpack_values(content: bytes) -> Iterator[int]:
    """The first bytes of all values, keys included; up to the end, or to a size beyond the end."""
    at, end = 0, len(content)
    while at < end:
        first = content[at]
        yield first
        at += 1
        if first < 0x80 or first >= 0xE0 or 0x80 <= first < 0xA0:
            continue
        if first < 0xC0:
            at += first & 0x1F
        elif first in _FIXED:
            at += _FIXED[first]
        elif first in _SIZED:
            width, extra = _SIZED[first]
            at += width + extra + int.from_bytes(content[at : at + width], "big")
        else:
            at += _CONTAINERS[first][0]
