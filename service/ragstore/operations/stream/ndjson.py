"""Newline-delimited JSON: the lines of a body that comes in pieces."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from ragstore.errors import LineTooLarge

BLANK: Final = b" \t\r"


class Line(NamedTuple):
    """A line that is not blank.

    Attributes:
        number: its number; all lines count, from 1.
        content: its bytes, without the newline.
    """

    number: int
    content: bytes


class Lines:
    """Cuts pieces of a body into lines. A line ends with a newline, the last one also with the body.

    Args:
        most: most bytes of a line.

    Attributes:
        ready: the lines that are complete, for the caller to take.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._begun: list[bytes] = []
        self._begun_bytes = 0
        self._number = 0
        self.ready: deque[Line] = deque()

    def feed(self, piece: bytes) -> bool:
        """Take the next piece.

        Args:
            piece: bytes of the body.

        Returns:
            Whether it completed a line, blank ones included.

        Raises:
            LineTooLarge: a line is too large, whether it is complete or not.
        """
        *complete, rest = piece.split(b"\n")
        for content in complete:
            self._begin(content)
            self._complete()
        self._begin(rest)
        return bool(complete)

    def end(self) -> None:
        """The body has ended."""
        self._complete()

    def _begin(self, content: bytes) -> None:
        if not content:
            return
        self._begun.append(content)
        self._begun_bytes += len(content)
        if self._begun_bytes > self._most:
            raise LineTooLarge(self._number + 1, self._most)

    def _complete(self) -> None:
        content = b"".join(self._begun)
        self._begun = []
        self._begun_bytes = 0
        self._number += 1
        if content.strip(BLANK):
            self.ready.append(Line(self._number, content))
