"""Bodies of requests to a Chroma server."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final, overload

import msgspec

from ragstore.errors import TooLargeForChroma
from ragstore.model.large_bodies.packed_embeddings import Embeddings
from ragstore.model.large_bodies.packed_text import PackedText
from ragstore.model.vectors import to_bytes

MAX_BODY_BYTES: Final = 40 * 2**20
"""Default limit of a Chroma server (1.5.9). It responds to a larger body with 413, and closes the connection on the
part that it has not read: the response is sometimes lost, and the request then looks like one that may have been
applied."""

LARGE_BODY_BYTES: Final = 2**20
"""Bodies above this are sent in chunks."""


def _unpacked(value: object) -> object:
    if isinstance(value, PackedText):
        return str(value)
    raise NotImplementedError(type(value).__name__)


ENCODER: Final = msgspec.json.Encoder(enc_hook=_unpacked)

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
    data = ENCODER.encode(body)
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


class EmbeddingRows(Sequence[object]):
    """The rows of a matrix as a request has them, made when they are read: as bytes or lists they need more memory.

    Args:
        embeddings: the matrix.
        as_base64: whether Chroma reads base64, which msgspec encodes bytes as.
    """

    def __init__(self, embeddings: Embeddings, *, as_base64: bool) -> None:
        self._embeddings = embeddings
        self._as_base64 = as_base64

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._embeddings)

    @overload
    def __getitem__(self, index: int) -> object: ...

    @overload
    def __getitem__(self, index: slice) -> list[object]: ...

    def __getitem__(self, index: int | slice) -> object:
        """A row, or a list of rows."""
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        row = self._embeddings[index]
        return to_bytes(row) if self._as_base64 else row.tolist()
