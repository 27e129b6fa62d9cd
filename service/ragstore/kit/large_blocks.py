"""Memory of large blocks, which the process returns to the system when it frees them."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Final

MIN_BLOCK_BYTES: Final = 256 * 1024
"""Minimum size of a large block."""

MMAP_THRESHOLD: Final = -3
"""glibc's `M_MMAP_THRESHOLD`."""


def return_large_blocks() -> None:
    """Make the C library map each large block separately, so that it is unmapped when it is freed.

    glibc begins with blocks of 128 KiB, but raises this size to the size of each freed block, up to 32 MiB. Later
    blocks are on its heap, which keeps them while a block after them is in use: a second body of 16 MiB took 16 MiB
    more than the first one (measured with glibc 2.36).
    """
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, MIN_BLOCK_BYTES)
