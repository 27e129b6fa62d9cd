"""A memory limit for a service: a control group where one can be made, else a watch."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.support.servers import Served

ROOT_V2: Final = Path("/sys/fs/cgroup")
ROOT_V1: Final = Path("/sys/fs/cgroup/memory")
WATCH_SECONDS: Final = 0.2
MOVE_SECONDS: Final = 0.02
"""Pause between two looks for new children: memory that they take before they are moved stays in the group."""

CLOSE_ATTEMPTS: Final = 25


class MemoryLimit:
    """A limit.

    Args:
        limit_bytes: maximum memory of the service, and of its children, if they have no group of their own.
        children_bytes: maximum memory of the children, which then have a group of their own.

    Attributes:
        kind: `control group`, or `watch` where none can be made.
        peak_bytes: maximum memory so far.
    """

    def __init__(self, limit_bytes: int, children_bytes: int | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.peak_bytes = 0
        self._group = _made_group("service", limit_bytes)
        self._children = None if children_bytes is None else _made_group("children", children_bytes)
        self.kind = "watch" if self._group is None else "control group"
        self._ended = threading.Event()

    @property
    def was_exceeded(self) -> bool:
        """Whether a process was killed for its memory, or, without a control group, had more than the limit."""
        return self.peak_bytes > self.limit_bytes if self._group is None else self.kills > 0

    @property
    def kills(self) -> int:
        """Number of processes that were killed for the memory of the control group."""
        files = ("memory.oom_control", "memory.events")
        return sum(_field(group / name, "oom_kill") for group in self._groups for name in files)

    @property
    def _groups(self) -> list[Path]:
        return [group for group in (self._group, self._children) if group is not None]

    @property
    def prefix(self) -> Sequence[str]:
        """A command that becomes the service, which it is followed by."""
        if self._group is None:
            return ()
        return ["bash", "-c", f'echo $$ > {self._group}/cgroup.procs && exec "$@"', "limited"]

    @contextmanager
    def watching(self, service: Served) -> Iterator[None]:
        """Follow the memory of a service, and kill it beyond the limit if no control group does."""
        watch = threading.Thread(target=self._watch, args=(service,))
        watch.start()
        try:
            yield
        finally:
            self._ended.set()
            watch.join()

    def close(self) -> None:
        """Remove the groups, whose processes have ended or are about to."""
        for group in self._groups:
            for _ in range(CLOSE_ATTEMPTS):
                try:
                    group.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(WATCH_SECONDS)

    def _watch(self, service: Served) -> None:
        while not self._ended.wait(MOVE_SECONDS if self._children else WATCH_SECONDS):
            self._move_children(service)
            used = self._used_bytes(service)
            self.peak_bytes = max(self.peak_bytes, used)
            if self._group is None and used > self.limit_bytes:
                service.process.kill()

    def _move_children(self, service: Served) -> None:
        """Move new children into their group."""
        if self._children is None or self._group is None:
            return
        for process_id in (self._group / "cgroup.procs").read_text().split():
            if int(process_id) != service.process.pid:
                with suppress(OSError):
                    (self._children / "cgroup.procs").write_text(process_id)

    def _used_bytes(self, service: Served) -> int:
        """Memory in use. A control group counts each page once, and here without the cache of files."""
        if self._group is None:
            return sum(map(_resident_bytes, _with_children(service.process.pid)))
        stat = self._group / "memory.stat"
        return _field(stat, "total_rss") or _field(stat, "anon")


def _field(file: Path, name: str) -> int:
    """A number of a file of a control group; 0 if there is none."""
    with suppress(OSError):
        for line in file.read_text().splitlines():
            if line.startswith(f"{name} "):
                return int(line.split()[1])
    return 0


def _made_group(name: str, limit_bytes: int) -> Path | None:
    """A control group of version 2 or 1 with a limit; None where none can be made."""
    for root, limit_file in ((ROOT_V1, "memory.limit_in_bytes"), (ROOT_V2, "memory.max")):
        if not (root / "cgroup.procs").exists():
            continue
        group = root / f"ragstore-hostile-{os.getpid()}-{name}"
        try:
            group.mkdir()
            with suppress(OSError):
                # Version 1 leaves the memory of a process that is moved in its former group, unless this is set.
                (group / "memory.move_charge_at_immigrate").write_text("3")
            (group / limit_file).write_text(str(limit_bytes))
        except OSError:
            with suppress(OSError):
                group.rmdir()
            continue
        return group
    return None


def _with_children(process_id: int) -> Iterator[int]:
    yield process_id
    with suppress(OSError):
        for task in Path(f"/proc/{process_id}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _with_children(int(child))


def _resident_bytes(process_id: int) -> int:
    try:
        return int(Path(f"/proc/{process_id}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0
