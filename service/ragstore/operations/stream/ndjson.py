"""Newline-delimited JSON: the lines of a body that arrives in chunks."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from ragstore.errors import LineTooLarge

BLANK: Final = b" \t\r"


class Line(NamedTuple):
    """A line that is not blank.

    Attributes:
        number: its number, counted from 1, blank lines included.
        content: its bytes, without the newline.
    """

    number: int
    content: bytes


class LineSplitter:
    """Splits the chunks of a body into lines. A line ends with a newline or with the body.

    Args:
        max_line_bytes: maximum size of a line.

    Attributes:
        ready: complete lines, which `take` removes.
        held_bytes: size of all lines that were received and not removed.
    """

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._incomplete: list[bytes] = []
        self._incomplete_bytes = 0
        self._number = 0
        self.ready: deque[Line] = deque()
        self.held_bytes = 0

    def feed(self, chunk: bytes) -> bool:
        """Add the next chunk.

        Returns:
            Whether it completed a line, blank lines included.

        Raises:
            LineTooLarge: a line is too large, whether it is complete or not.
        """
        *complete, rest = chunk.split(b"\n")
        for content in complete:
            self._extend(content)
            self._complete()
        self._extend(rest)
        return bool(complete)

    def take(self) -> Line:
        """Remove the first complete line."""
        line = self.ready.popleft()
        self.held_bytes -= len(line.content)
        return line

    def end(self) -> None:
        """Complete the last line at the end of the body."""
        self._complete()

    def _extend(self, content: bytes) -> None:
        if not content:
            return
        self._incomplete.append(content)
        self._incomplete_bytes += len(content)
        self.held_bytes += len(content)
        if self._incomplete_bytes > self._max_line_bytes:
            raise LineTooLarge(self._number + 1, self._max_line_bytes)

    def _complete(self) -> None:
        content = b"".join(self._incomplete)
        self._incomplete = []
        self._incomplete_bytes = 0
        self._number += 1
        if content.strip(BLANK):
            self.ready.append(Line(self._number, content))
        else:
            self.held_bytes -= len(content)
