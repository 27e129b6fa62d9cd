"""The memory limit of the container, or of whatever control group, that the process runs in."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

LIMIT_FILES: Final = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)
"""Of control groups version 2 and 1. A container sees its own group at the root."""

MAX_LIMIT_BYTES: Final = 2**60
"""A limit above this means none; version 1 has no other way to express it."""


def container_limit_bytes(files: tuple[str, ...] = LIMIT_FILES) -> int | None:
    """The memory limit.

    Args:
        files: the files that may hold it.

    Returns:
        The limit; None without one, or where it cannot be read.
    """
    for file in files:
        with suppress(OSError, ValueError):
            limit = int(Path(file).read_text())
            return limit if 0 < limit < MAX_LIMIT_BYTES else None
    return None
