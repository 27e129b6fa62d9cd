"""Bodies of requests to a Chroma server."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ragstore.errors import TooLargeForChroma

MAX_BODY_BYTES: Final = 40 * 2**20
"""Default limit of a Chroma server (1.5.9). It responds to a larger body with 413, and closes the connection on the
part that it has not read: the response is sometimes lost, and the request then looks like one that may have been
applied."""

LARGE_BODY_BYTES: Final = 2**20
"""Bodies above this are sent in chunks."""

ENVELOPE_BYTES: Final = 1024
"""Room in a body for what is not the rows of its columns: the columns' names and brackets."""

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


def split_columns(columns: dict[str, Sequence[object]]) -> Iterator[dict[str, Sequence[object]]]:
    """Split the columns of a write whose body is too large into bodies that a Chroma server accepts.

    Args:
        columns: columns of n rows.

    Yields:
        The columns of consecutive rows.

    Raises:
        TooLargeForChroma: a row is too large by itself. It is raised before the first chunk is yielded.
    """
    rows = zip(*columns.values(), strict=True)
    sizes = [len(msgspec.json.encode(row)) for row in rows]
    room = MAX_BODY_BYTES - ENVELOPE_BYTES
    if max(sizes) > room:
        raise TooLargeForChroma(OVERSIZED)
    start = filled = 0
    for row, size in enumerate(sizes):
        if filled + size > room:
            yield {name: values[start:row] for name, values in columns.items()}
            start, filled = row, 0
        filled += size
    yield {name: values[start:] for name, values in columns.items()}
