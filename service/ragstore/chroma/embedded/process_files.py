"""The open files of embedded Chroma's process, and when it has too many.

Chroma 1.5.9 divides a fifth of the limit, its number of indexes in memory, among 64 shards, and each shard has at least
one index. So it opens up to 64 * 4 files of indexes also where the limit is lower: with a limit of 150 files, SQLite
could not open its journal after 32 collections. The process is restarted before that.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

if sys.platform != "win32":
    import resource

SUFFICIENT_FILES: Final = 320
"""A limit that Chroma never reaches: 64 indexes of four files, and 22 other files. The process is watched below it."""

SPARE_FILES: Final = 40
"""Files that remain free: until the restart, eight calls may open an index of four files, and SQLite its journal."""


def open_files(process_id: int) -> int:
    """The number of open files of a process; 0 where it cannot be read."""
    with suppress(OSError):
        return len(list(Path(f"/proc/{process_id}/fd").iterdir()))
    return 0


class FileWatch:
    """Decides when a process has too many open files.

    Args:
        limit: its limit, which is the hard limit of this process unless given.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._max_files = 0
        if sys.platform != "win32":
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1] if limit is None else limit
            if 0 <= limit < SUFFICIENT_FILES:
                self._max_files = max(limit - SPARE_FILES, 1)

    def is_exceeded(self, process_id: int) -> bool:
        """Whether a process is to be restarted."""
        return self._max_files > 0 and open_files(process_id) > self._max_files
