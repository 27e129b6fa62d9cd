"""The memory of embedded Chroma's process, and when it is too much.

Chroma 1.5.9 keeps the index of every collection that was used since it started, also of deleted collections, with
2.6 MiB and 4 open files each. It can only limit the number of indexes in memory, and then fails on collections whose
index was evicted and never saved ("Nothing found on disk"). So its process is restarted instead: a new one loads the
collections that are used from then on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ragstore.kit.container_memory import container_limit_bytes

CONTAINER_SHARE: Final = 0.6
"""Share of the container's memory that Chroma's process may take, unless a setting says otherwise. The service, which
is in the same container, takes the rest."""

CHECK_SECONDS: Final = 1.0
"""Minimum time between two checks."""

MIN_LIFETIME_SECONDS: Final = 300.0
"""Minimum time between two restarts: if the collections in use need more than the limit, restarts do not help."""


def resident_bytes(process_id: int) -> int:
    """The resident memory of a process; 0 where it cannot be read."""
    try:
        pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


class MemoryWatch:
    """Decides when a process has taken too much memory.

    Args:
        max_bytes: maximum memory; 0 for a share of the container's, if that has a limit.
        clock: the time in seconds.
        min_lifetime: minimum time between two restarts, in seconds.
    """

    def __init__(
        self,
        max_bytes: int,
        clock: Callable[[], float] = time.monotonic,
        min_lifetime: float = MIN_LIFETIME_SECONDS,
    ) -> None:
        self.max_bytes = max_bytes or int((container_limit_bytes() or 0) * CONTAINER_SHARE)
        self._clock = clock
        self._min_lifetime = min_lifetime
        self._next_check = clock()

    def is_exceeded(self, process_id: int) -> bool:
        """Whether a process is to be restarted. It is checked once a second, and after a restart not for a while."""
        now = self._clock()
        if not self.max_bytes or now < self._next_check:
            return False
        exceeded = resident_bytes(process_id) > self.max_bytes
        self._next_check = now + (self._min_lifetime if exceeded else CHECK_SECONDS)
        return exceeded
