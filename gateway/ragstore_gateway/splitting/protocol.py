"""The messages between the gateway and a process that splits texts.

Frames have the form of `ragstore_gateway.extraction.protocol`. The gateway sends a `SplitRequest` and a list of
`Extracted`, both as MessagePack. The process sends a list with a `SplitResponse` for each.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from ragstore_gateway.splitting.chunk import Chunking, ChunkSpan

_SPAN_BYTES: Final = 4096
"""Maximum size of a span: its heading and its preview have up to 200 characters each."""


class SplitRequest(msgspec.Struct, frozen=True):
    """Texts to split. The texts themselves are the next frame.

    Attributes:
        chunking: how to split it.
        max_chunks: maximum number of chunks of a text.
        timeout_seconds: the gateway's time limit.
    """

    chunking: Chunking
    max_chunks: int
    timeout_seconds: float


class SplitSuccess(msgspec.Struct, frozen=True, tag="success"):
    """The chunks of a text."""

    spans: list[ChunkSpan]


class SplitFailure(msgspec.Struct, frozen=True, tag="failure"):
    """The text cannot be split.

    Attributes:
        reason: it has too many chunks, or needs too much memory, or an error occurred, which is one of the gateway.
    """

    reason: Literal["chunks", "memory", "error"]


SplitResponse: TypeAlias = SplitSuccess | SplitFailure


def max_response_bytes(max_chunks: int) -> int:
    """The maximum size of a response.

    Args:
        max_chunks: maximum number of chunks.
    """
    return _SPAN_BYTES * (max_chunks + 1)
