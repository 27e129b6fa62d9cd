"""The memory that this process may use: the limit of its control groups, or the machine's memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

CGROUPS: Final = Path("/sys/fs/cgroup")
OWN_CGROUPS: Final = Path("/proc/self/cgroup")


def memory_limit(cgroups: Path = CGROUPS, own: Path = OWN_CGROUPS) -> int:
    """The memory that this process may use, in bytes.

    Args:
        cgroups: where control groups are mounted, of version 1 or 2.
        own: file that lists those of this process.
    """
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *_limits(cgroups, own)])


def _limits(cgroups: Path, own: Path) -> Iterator[int]:
    """The limits of the process's groups and of all above them. A container sees its own group as the topmost one."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            root, name = cgroups / "memory", "memory.limit_in_bytes"
        elif not controllers:
            root, name = cgroups, "memory.max"
        else:
            continue
        for folder in (PurePosixPath(path), *PurePosixPath(path).parents):
            try:
                yield int((root / folder.relative_to("/") / name).read_text())
            except (OSError, ValueError):  # "max" means no limit
                continue
