"""Bodies of requests to a Chroma server."""

from __future__ import annotations

import io
from typing import Final

import msgspec

from ragstore.errors import TooLargeForChroma

MAX_BODY_BYTES: Final = 40 * 2**20
"""Default limit of a Chroma server (1.5.9). It responds to a larger body with 413, and closes the connection on the
part that it has not read: the response is sometimes lost, and the request then looks like one that may have been
applied."""

LARGE_BODY_BYTES: Final = 2**20
"""Bodies above this are sent in chunks."""

OVERSIZED: Final = "The request to the Chroma server is too large; send less in one request"


def encode_body(body: object) -> bytes:
    """Encode a body as JSON.

    Args:
        body: a value that msgspec can encode.

    Returns:
        The bytes to send.

    Raises:
        TooLargeForChroma: it exceeds the limit of a Chroma server.
    """
    data = msgspec.json.encode(body)
    if len(data) > MAX_BODY_BYTES:
        raise TooLargeForChroma(OVERSIZED)
    return data


def payload(data: bytes) -> bytes | io.BytesIO:
    """A body in the form that aiohttp sends without blocking the event loop: it writes bytes in one piece.

    Args:
        data: the body.

    Returns:
        The bytes, or, where they are many, a file of them, which aiohttp writes in chunks.
    """
    return io.BytesIO(data) if len(data) > LARGE_BODY_BYTES else data
