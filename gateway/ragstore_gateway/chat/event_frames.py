"""`EventFrames`: divides a stream of bytes into server-sent events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

MAX_EVENT_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of an event that is held until its end."""

DONE: Final = b"[DONE]"
"""The data of the last event of a chat completion."""

is_error: Final = re.compile(rb'\s*\{\s*"error"\s*:\s*[^\s n]').match
"""Whether the data of an event begin as an error that an upstream reports. A null in this place is none."""

_END: Final = re.compile(rb"\r?\n\r?\n|\r\r")
_END_BYTES: Final = 4


class EventFrames:
    """Holds the bytes of an event until its end arrives."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0

    @property
    def is_too_large(self) -> bool:
        """Whether the event that has begun is larger than `MAX_EVENT_BYTES`."""
        return len(self._buffer) > MAX_EVENT_BYTES

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The events that a chunk completes, each with the bytes that end it.

        Only one event is in memory twice: a chunk may have hundreds of them.

        Args:
            chunk: the next bytes of the stream.
        """
        self._buffer += chunk
        start = 0
        while match := _END.search(self._buffer, max(start, self._searched)):
            yield bytes(self._buffer[start : match.start()]), match[0]
            start = match.end()
        del self._buffer[:start]
        # The next search begins where an end may have begun.
        self._searched = max(0, len(self._buffer) - _END_BYTES)

    def take_rest(self) -> bytes:
        """Take the bytes of the event that has begun."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._searched = 0
        return rest
