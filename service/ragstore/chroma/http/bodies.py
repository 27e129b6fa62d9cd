"""Bodies of requests to a Chroma server."""

from __future__ import annotations

import io
from typing import Final

import msgspec

from ragstore.errors import TooLargeForChroma

MAX_BODY_BYTES: Final = 40 * 2**20
"""Bytes of a body, as a Chroma server takes them by default (1.5.9). It says 413 to more, and closes the connection
over what it has not read: the response is sometimes lost, and the request looks like one that may have been done."""

LARGE_BODY_BYTES: Final = 2**20
"""Bodies above this are sent in parts."""

OVERSIZED: Final = "The request to the Chroma server is too large; send less in one request"


def encoded(body: object) -> bytes:
    """Encode a body as JSON.

    Args:
        body: what msgspec can encode.

    Returns:
        The bytes to send.

    Raises:
        TooLargeForChroma: a Chroma server does not take so many.
    """
    data = msgspec.json.encode(body)
    if len(data) > MAX_BODY_BYTES:
        raise TooLargeForChroma(OVERSIZED)
    return data


def payload(data: bytes) -> bytes | io.BytesIO:
    """A body as aiohttp is to send it: it writes bytes in one go, which holds up the event loop when they are many.

    Args:
        data: the body.

    Returns:
        The bytes, or a file of them, which aiohttp writes in parts.
    """
    return io.BytesIO(data) if len(data) > LARGE_BODY_BYTES else data
