"""The memory limit of the container, or of whatever control group, that the process runs in."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

CGROUPS: Final = Path("/sys/fs/cgroup")
"""Where control groups are mounted, of version 2 or 1."""

OWN_GROUPS: Final = Path("/proc/self/cgroup")
"""Lists the control groups of the process."""

MAX_LIMIT_BYTES: Final = 2**60
"""A limit above this means none; version 1 has no other way to express it."""


def container_limit_bytes(files: Sequence[str] | None = None) -> int | None:
    """The memory limit.

    Args:
        files: the files that may hold it; None for the files of the process's control groups.

    Returns:
        The lowest limit; None without one, or where it cannot be read.
    """
    limits: list[int] = []
    for file in limit_files() if files is None else files:
        with suppress(OSError, ValueError):  # version 2 writes "max" for none
            limit = int(Path(file).read_text())
            if 0 < limit < MAX_LIMIT_BYTES:
                limits.append(limit)
    return min(limits, default=None)


def usable_memory_bytes() -> int:
    """The memory that the process may use: the limit of its container, or the machine's memory without one."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(container_limit_bytes() or machine, machine)


def limit_files(cgroups: Path = CGROUPS, own_groups: Path = OWN_GROUPS) -> list[str]:
    """The files with the limits of the process's control groups, and of those above them.

    A container sees its own group at the root. Outside of a container the group is a folder below it.

    Args:
        cgroups: where control groups are mounted.
        own_groups: lists the control groups of the process.
    """
    with suppress(OSError):
        return list(dict.fromkeys(_limit_files(cgroups, own_groups.read_text().splitlines())))
    return []


def _limit_files(cgroups: Path, groups: list[str]) -> Iterator[str]:
    yield str(cgroups / "memory.max")
    yield str(cgroups / "memory" / "memory.limit_in_bytes")
    for group in groups:
        _, controllers, path = group.split(":", 2)
        for folder in (PurePosixPath(path), *PurePosixPath(path).parents):
            below = folder.relative_to("/")
            if not controllers:
                yield str(cgroups / below / "memory.max")
            elif "memory" in controllers.split(","):
                yield str(cgroups / "memory" / below / "memory.limit_in_bytes")
