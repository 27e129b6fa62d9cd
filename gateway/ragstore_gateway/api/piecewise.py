"""`piecewise`: a response that is sent in pieces, so that an unread one is not in the connection's buffer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Final, TypeVar, cast

import msgspec
from litestar.response import Response, Stream

T = TypeVar("T")

PIECE_BYTES: Final = 256 * 1024
"""Size of a piece. The next one is sent when the connection has room for it."""

_SLICE_CHARACTERS: Final = 256 * 1024


def piecewise(
    kind: type[T],
    parts: Iterable[bytes],
    *,
    media_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Response[T]:
    """A response with a body that is encoded already.

    Args:
        kind: the type of the body, for the OpenAPI document.
        parts: the body, in parts of any size.
        headers: further headers.
    """
    known = list(parts)
    length = {"Content-Length": str(sum(map(len, known)))}
    stream = Stream(pieces_of(known), media_type=media_type, headers={**(headers or {}), **length})
    return cast("Response[T]", stream)


async def pieces_of(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Cut a body into pieces, and join small parts.

    Args:
        parts: the body.
    """
    piece = bytearray()
    for part in parts:
        for first in range(0, len(part), PIECE_BYTES):
            piece += part[first : first + PIECE_BYTES]
            if len(piece) >= PIECE_BYTES:
                yield bytes(piece)
                piece.clear()
                # A reader that is as fast as this process never lets `send` wait.
                await asyncio.sleep(0)
    if piece:
        yield bytes(piece)


def raw_text(text: str) -> msgspec.Raw:
    """A text as JSON, encoded in slices: one call for 40 MB would hold the interpreter's lock for 0.1 s."""
    slices = range(0, len(text), _SLICE_CHARACTERS)
    encoded = (msgspec.json.encode(text[first : first + _SLICE_CHARACTERS])[1:-1] for first in slices)
    return msgspec.Raw(b"".join((b'"', *encoded, b'"')))
