"""Limits for what a request consists of besides its body: request line, headers, chunk extensions and trailers.

httptools parses whatever it is fed and does not report where in its input a request ends. The meter therefore cuts the
input into slices before it is parsed. A head ends with an empty line, trailers do, too, and the size of everything else
is known in advance. So a slice belongs to one request, and bytes that are no body are counted before they are parsed.

The parser alone decides what is valid: what the meter accepts beyond that, the parser rejects.
"""

from __future__ import annotations

import re
from typing import Final

MAX_HEAD_BYTES: Final = 64 * 1024
"""Maximum size of a request line, headers, chunk extensions and trailers, together."""

MAX_HEADERS: Final = 1_000
"""Maximum number of headers. A header of five bytes takes about 30 times as much memory once it is parsed."""

MAX_SLICE_CHUNKS: Final = 1_000
"""Maximum number of chunks in a slice, which take about 1 ms to parse."""

OVERLAP_BYTES: Final = 3
"""Bytes before a slice that `RequestMeter.cut` needs to see: an empty line can begin in the slice before."""

CHUNK_FRAMING_BYTES: Final = 20
"""Size of a chunk besides its data that is not counted: 16 hexadecimal digits and two line ends."""

MALFORMED: Final = "This is not a valid HTTP request"

_LINE_END: Final = b"\r\n"
_EMPTY_LINE: Final = _LINE_END * 2
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
        count: number of headers that have been parsed.

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
    """Cuts the input of a connection into slices and limits the bytes that are no body.

    Attributes:
        in_body: whether the head of the current request is complete and its body, trailers included, is not.
    """

    def __init__(self) -> None:
        self.in_body = False
        self._chunked = False
        self._in_trailers = False
        self._counted = 0
        self._left = 0
        """Bytes up to the end of the body, or of the current chunk and the line end behind its data."""

    def cut(self, data: bytes, start: int) -> int:
        """Find the end of the next slice, which is parsed next.

        Args:
            data: input; up to `OVERLAP_BYTES` that were parsed before, and what is to be parsed.
            start: index of the first byte that is to be parsed.

        Returns:
            Index after the last byte of the slice; `start` if more input is needed.

        Raises:
            RejectedRequest: the request exceeds its limit.
        """
        if self.in_body and self._chunked and not self._in_trailers:
            return self._cut_chunks(data, start)
        if not self._left:
            return self._cut_lines(data, start)
        end = min(len(data), start + self._left)
        self._left -= end - start
        return end

    def head_complete(self, length: int | None) -> None:
        """The parser has reported the end of a head.

        Args:
            length: what `check_head` has returned.
        """
        self.in_body = True
        self._chunked = length is None
        self._left = length or 0

    def request_complete(self) -> None:
        """The parser has reported the end of a request."""
        self.in_body = self._in_trailers = False
        self._counted = self._left = 0

    def _cut_lines(self, data: bytes, start: int) -> int:
        """A slice of a head or of trailers, up to the empty line that ends them."""
        room = MAX_HEAD_BYTES - self._counted
        found = data.find(_EMPTY_LINE, max(0, start - OVERLAP_BYTES), start + room)
        end = len(data) if found < 0 else found + len(_EMPTY_LINE)
        self._count(end - start)
        return end

    def _cut_chunks(self, data: bytes, start: int) -> int:
        """A slice of chunks, up to the end of the last one's size line; incomplete lines are left for later."""
        if len(data) - start <= self._left:
            self._left -= len(data) - start
            return len(data)
        position, self._left = start + self._left, 0
        for _ in range(MAX_SLICE_CHUNKS):
            room = MAX_HEAD_BYTES - self._counted + CHUNK_FRAMING_BYTES
            end = data.find(_LINE_END, position, position + room)
            if end < 0:
                if len(data) - position >= room:
                    raise _too_large()
                return position
            framing = end - position + 2 * len(_LINE_END)
            if framing > CHUNK_FRAMING_BYTES:
                self._count(framing - CHUNK_FRAMING_BYTES)
            size = _chunk_size(data[position:end])
            position = end + len(_LINE_END)
            if not size:
                self._in_trailers = True
                return position
            position += size + len(_LINE_END)
            if position >= len(data):
                self._left = position - len(data)
                return len(data)
        return position

    def _count(self, count: int) -> None:
        self._counted += count
        if self._counted > MAX_HEAD_BYTES:
            raise _too_large()


def _chunk_size(line: bytes) -> int:
    """The size in the line before a chunk's data."""
    digits = line if b";" not in line else line.partition(b";")[0]
    try:
        size = int(digits, 16)
    except ValueError:
        size = -1
    if size < 0:
        raise RejectedRequest(MALFORMED)
    return size
