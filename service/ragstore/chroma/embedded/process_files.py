"""The open files of embedded Chroma, and when it has too many.

Chroma 1.5.9 divides a fifth of the limit, its number of indexes in memory, among 64 shards, and each shard has at least
one index. So it opens up to 64 * 4 files of indexes also where the limit is lower: with a limit of 150 files, SQLite
could not open its journal after 32 collections. Chroma's data is reopened before that, which closes all indexes.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Final

if sys.platform != "win32":
    import resource

SUFFICIENT_FILES: Final = 320
"""A limit that Chroma never reaches: 64 indexes of four files, and 22 other files. The files are counted below it."""

SPARE_FILES: Final = 40
"""Files that are free before a call. It opens an index of four files, and SQLite its journal and up to five connections
with two files each."""


def open_files() -> int:
    """The number of open files of this process; 0 where it cannot be read."""
    with suppress(OSError):
        return len(os.listdir("/proc/self/fd"))
    return 0


class FileWatch:
    """Decides when this process has too many open files.

    Args:
        limit: maximum number of open files; the process's own limit when None.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._max_files = 0
        if sys.platform != "win32":
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if limit is None else limit
            if 0 <= limit < SUFFICIENT_FILES:
                self._max_files = max(limit - SPARE_FILES, 1)

    def is_exceeded(self) -> bool:
        """Whether fewer than `SPARE_FILES` are free."""
        return self._max_files > 0 and open_files() > self._max_files
