"""The parts that the programs of child processes have in common: their streams, their limits, and frames."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from pathlib import Path
from typing import BinaryIO, Final

from ragstore_gateway.extraction.protocol import LENGTH

_SET_PARENT_DEATH_SIGNAL: Final = 1
_NO_NEW_PRIVILEGES: Final = 38
GRACE_SECONDS: Final = 2
"""How long a process outlives the time limit of a request if the gateway does not kill it."""

NICENESS: Final = 5
"""Added to the niceness of the gateway. On busy cores, its event loop and Chroma's process get three times the time of
this process, so that searches wait less for documents."""


def own_streams() -> tuple[BinaryIO, BinaryIO]:
    """The streams of the messages. Libraries read and print on the null device."""
    requests = os.fdopen(os.dup(0), "rb")
    responses = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    return requests, responses


def restrict(memory_bytes: int) -> None:
    """Limit what a hostile document can do, let the gateway run first, and end when the gateway ends, however it ends.

    Args:
        memory_bytes: the maximum memory of the process.
    """
    os.nice(NICENESS)
    parent = os.getppid()
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(0)
        # If the container is out of memory, the kernel kills this process rather than the gateway.
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    # No file is written; a core file would have content.
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def read_frame(stream: BinaryIO) -> bytes | None:
    """The next frame; None at the end."""
    length = stream.read(LENGTH.size)
    if len(length) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(length)
    content = stream.read(size)
    return content if len(content) == size else None


def write_frame(stream: BinaryIO, content: bytes) -> None:
    """Write a frame."""
    stream.write(LENGTH.pack(len(content)))
    stream.write(content)
    stream.flush()
