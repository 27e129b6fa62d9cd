"""Bytes whose memory is released while they are read."""

from __future__ import annotations

import mmap
from collections.abc import Generator
from typing import Final

STEP_BYTES: Final = 1024 * 1024
"""Bytes that are copied or released in one step; a multiple of the size of a page."""


class ReleasableBytes:
    """A copy of bytes in memory of its own. Bytes that were read can be released before the others.

    Args:
        size: their number, at least 1.

    Attributes:
        view: the bytes.
    """

    def __init__(self, size: int) -> None:
        self._memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._released = 0
        self.view = memoryview(self._memory)

    def fill(self, content: bytes) -> Generator[None, None, None]:
        """Copy the bytes.

        Args:
            content: the bytes.

        Yields:
            After each step.
        """
        for start in range(0, len(content), STEP_BYTES):
            self.view[start : start + STEP_BYTES] = content[start : start + STEP_BYTES]
            yield

    def release(self, end: int) -> None:
        """Release whole steps before an index. They must not be read again.

        Args:
            end: the index.
        """
        whole = end - end % STEP_BYTES
        if whole > self._released:
            self._memory.madvise(mmap.MADV_DONTNEED, self._released, whole - self._released)
            self._released = whole
