"""The tokens of a response: as the upstream reports them, or an estimate."""

from __future__ import annotations

import re
import zlib
from collections.abc import Generator, Iterable, Iterator
from typing import Final

BYTES_PER_TOKEN: Final = 4
"""Bytes of a text that are counted as one token, until the upstream reports how many it counted."""

TAIL_BYTES: Final = 8192
"""End of a response in which its usage is looked for."""

READABLE_ENCODINGS: Final = frozenset({"gzip", "x-gzip", "deflate", "identity"})
"""The encodings of a response whose tokens can be counted."""

MAX_DECOMPRESSED_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of a response that is decompressed to count its tokens. The rest is counted as it is sent."""

PIECE_BYTES: Final = 64 * 1024
"""Number of bytes that are decompressed in one step."""

MAX_MEMBERS: Final = 100
"""Maximum number of gzip members of a response that are decompressed."""

_TOTAL: Final = re.compile(rb'"total_tokens"\s*:\s*(\d{1,12})')
_EVENT: Final = b"data:"
_GZIP_OR_ZLIB: Final = zlib.MAX_WBITS | 32
_RAW: Final = -zlib.MAX_WBITS
_ZLIB_METHOD: Final = 8


class UsageMeter:
    """Counts the tokens of a response: as the upstream reports them, otherwise one for each event of a stream.

    Args:
        encoding: the response's `Content-Encoding`; empty for none. A copy of the response is decompressed. In an
            encoding that cannot be read, each byte counts as a token: it is worth about four of a text.
    """

    def __init__(self, encoding: str = "") -> None:
        names = [name for part in encoding.lower().split(",") if (name := part.strip()) not in ("", "identity")]
        self._compressed = bool(names)
        readable = len(names) == 1 and names[0] in READABLE_ENCODINGS
        self._decompression = _Decompression() if readable else None
        self._tail = b""
        self._events = 0
        self._bytes = 0
        self._unread_bytes = 0

    def feed(self, chunk: bytes) -> Generator[None, None, None]:
        """Add a chunk of the response, in steps."""
        if not self._compressed:
            self._count(chunk)
            return
        if self._decompression is None:
            self._unread_bytes += len(chunk)
            return
        try:
            for piece in self._decompression.pieces(chunk):
                self._count(piece)
                yield
        except ValueError:
            self._decompression = None
            self._unread_bytes += len(chunk)

    @property
    def reported(self) -> int | None:
        """The number of tokens of request and response that the upstream reports; None if it reports none."""
        found = _TOTAL.findall(self._tail)
        return int(found[-1]) if found else None

    def total(self, prompt_tokens: int) -> int:
        """Tokens of request and response.

        Args:
            prompt_tokens: the estimate of the prompt, which counts if the upstream reports nothing.
        """
        reported = self.reported
        if reported is not None:
            return reported
        return prompt_tokens + self._unread_bytes + (self._events or self._bytes // BYTES_PER_TOKEN)

    def _count(self, chunk: bytes) -> None:
        self._events += chunk.count(_EVENT)
        self._bytes += len(chunk)
        self._tail = (self._tail + chunk[-TAIL_BYTES:])[-TAIL_BYTES:]


class _Decompression:
    """Decompresses a body that arrives in chunks, in bounded pieces."""

    def __init__(self) -> None:
        self._decompressor: zlib._Decompress | None = None
        self._left = MAX_DECOMPRESSED_BYTES
        self._members = 0

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """The pieces that a chunk completes.

        Raises:
            ValueError: the body is not compressed as it says, or is too large.
        """
        while chunk:
            if self._decompressor is None:
                self._decompressor = self._new(chunk)
            try:
                piece = self._decompressor.decompress(chunk, PIECE_BYTES)
            except zlib.error as error:
                raise ValueError("not compressed as it says") from error
            self._left -= len(piece)
            if self._left < 0:
                raise ValueError("too large")
            yield piece
            chunk = self._decompressor.unconsumed_tail
            if self._decompressor.eof:
                chunk = self._decompressor.unused_data
                self._decompressor = None

    def _new(self, chunk: bytes) -> zlib._Decompress:
        self._members += 1
        if self._members > MAX_MEMBERS:
            raise ValueError("too many members")
        # Some servers send deflate without the head that it should have.
        is_gzip = chunk[0] == 0x1F
        return zlib.decompressobj(_GZIP_OR_ZLIB if is_gzip or chunk[0] & 0x0F == _ZLIB_METHOD else _RAW)


def readable_encodings(accepted: Iterable[str]) -> str:
    """The encodings that a caller accepts and whose tokens can be counted.

    Args:
        accepted: the values of `Accept-Encoding`.

    Returns:
        A value of `Accept-Encoding`.
    """
    parts = [part.strip() for value in accepted for part in value.split(",")]
    readable = [part for part in parts if part.partition(";")[0].strip().lower() in READABLE_ENCODINGS]
    return ", ".join(readable) or "identity"
