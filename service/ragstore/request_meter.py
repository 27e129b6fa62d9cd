"""Limits for what a request consists of besides its body: request line, headers, chunk extensions and trailers.

httptools parses whatever it is fed and does not report where in its input a request ends. The meter therefore cuts the
input into slices before it is parsed. A head ends with an empty line, and so does a chunked body; a body with a
`Content-Length` ends after that many bytes. Each slice ends at the next such position, so it belongs to one request.
The parser alone decides what the bytes mean: an empty line inside a body only makes an additional slice.
"""

from __future__ import annotations

import re
from typing import Final

MAX_HEAD_BYTES: Final = 64 * 1024
"""Maximum size of a request line, headers, chunk extensions and trailers, together."""

MAX_HEADERS: Final = 1_000
"""Maximum number of headers. A header of five bytes takes about 30 times as much memory once it is parsed."""

MAX_SLICE_BYTES: Final = 64 * 1024
"""Maximum size of a slice of a chunked body, and so the maximum of what is parsed beyond `MAX_HEAD_BYTES`."""

OVERLAP_BYTES: Final = 3
"""Bytes before a slice that `RequestMeter.cut` needs to see: an empty line can begin in the slice before."""

CHUNK_FRAMING_BYTES: Final = 20
"""What a chunk needs besides its data and is not counted: 16 hexadecimal digits and two line ends."""

_EMPTY_LINE: Final = b"\r\n\r\n"
_HOST: Final = re.compile(rb"(?:\[[0-9A-Za-z:.%_~-]+\]|[0-9A-Za-z._~!$&'()*+,;=%-]*)(?::[0-9]*)?")
_WITHOUT_HOST: Final = frozenset({"0.9", "1.0"})
"""Versions of HTTP whose requests need no `Host` header."""


class RejectedRequest(Exception):
    """A request that breaks a rule of HTTP or a limit, before the application sees it.

    Attributes:
        detail: what the caller learns about it.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


def _too_large() -> RejectedRequest:
    return RejectedRequest(
        "The request line, headers, chunk extensions and trailers of a request must not exceed 64 KiB together"
    )


def check_header_count(count: int) -> None:
    """Limit the number of headers.

    Args:
        count: headers including the one that has just been parsed.

    Raises:
        RejectedRequest: there are too many.
    """
    if count > MAX_HEADERS:
        raise RejectedRequest(f"A request must not have more than {MAX_HEADERS:,} headers")


def check_head(version: str, headers: list[tuple[bytes, bytes]]) -> int | None:
    """Check what the parser leaves to its user: `Host` and `Transfer-Encoding`.

    The parser itself rejects an unknown `Transfer-Encoding` only after it has reported the end of the head, which
    starts the application.

    Args:
        version: version of HTTP.
        headers: names in lower case, and values.

    Returns:
        Size of the body, or None for a chunked body.

    Raises:
        RejectedRequest: the head is invalid.
    """
    hosts = 0
    length: int | None = 0
    for name, value in headers:
        if name == b"host":
            hosts += 1
            if not _HOST.fullmatch(value.strip(b" \t")):
                raise RejectedRequest("The Host header is invalid")
        elif name == b"content-length":
            length = int(value)
        elif name == b"transfer-encoding":
            if value.strip(b" \t").lower() != b"chunked":
                raise RejectedRequest("The only supported Transfer-Encoding is chunked")
            length = None
    if hosts > 1 or (not hosts and version not in _WITHOUT_HOST):
        raise RejectedRequest("A request must have exactly one Host header")
    return length


class RequestMeter:
    """Cuts the input of a connection into slices and counts the bytes that are no body.

    Bytes of the head are counted before they are parsed. In a chunked body only the parser knows which bytes are data,
    so a slice is parsed first, and what was neither data nor the usual framing of a chunk is counted afterwards.

    Attributes:
        in_body: whether the head of the current request is complete and its body is not.
    """

    def __init__(self) -> None:
        self.in_body = False
        self._complete = False
        self._length: int | None = None
        self._head_bytes = 0
        self._chunk_bytes = 0
        self._data_bytes = 0
        self._chunks = 0

    def cut(self, data: bytes, start: int) -> int:
        """Find the end of the next slice.

        Args:
            data: input; up to `OVERLAP_BYTES` that were parsed before, and what is to be parsed.
            start: index of the first byte that is to be parsed.

        Returns:
            Index after the last byte of the slice.

        Raises:
            RejectedRequest: the head exceeds its limit.
        """
        if self.in_body and self._length:
            return min(len(data), start + self._length)
        room = MAX_SLICE_BYTES if self.in_body else MAX_HEAD_BYTES - self._head_bytes
        found = data.find(_EMPTY_LINE, max(0, start - OVERLAP_BYTES), start + room)
        if found >= 0:
            return found + len(_EMPTY_LINE)
        if len(data) - start <= room:
            return len(data)
        if self.in_body:
            return start + room
        raise _too_large()

    def head_complete(self, length: int | None) -> None:
        """The parser has reported the end of a head.

        Args:
            length: what `check_head` has returned.
        """
        self.in_body = True
        self._length = length

    def chunk_started(self) -> None:
        """The parser has reported the size of a chunk."""
        self._chunks += 1

    def data_received(self, count: int) -> None:
        """The parser has reported data of a body."""
        self._data_bytes += count

    def request_complete(self) -> None:
        """The parser has reported the end of a request."""
        self.in_body = False
        self._complete = True

    def parsed(self, count: int, in_body: bool) -> None:
        """Account for a slice.

        Args:
            count: its size.
            in_body: `in_body` before it was parsed.

        Raises:
            RejectedRequest: chunk extensions and trailers exceed the limit.
        """
        if not in_body:
            self._head_bytes += count
        elif self._length:
            self._length -= count
        else:
            framing = count - self._data_bytes - CHUNK_FRAMING_BYTES * self._chunks
            self._chunk_bytes = max(0, self._chunk_bytes + framing)
            if self._head_bytes + self._chunk_bytes > MAX_HEAD_BYTES:
                raise _too_large()
        self._data_bytes = self._chunks = 0
        if self._complete:
            self._complete = False
            self._head_bytes = self._chunk_bytes = 0
