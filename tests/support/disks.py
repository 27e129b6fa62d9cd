"""Disks that can be filled, made with the privileges that the machine grants."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

from tests.support.processes import chroma_process_of
from tests.support.servers import Served

NAMESPACES: Final = (("--mount",), ("--user", "--map-root-user", "--mount"))
"""Options of `unshare` for a mount namespace: as root, and as an unprivileged user."""


class Disk(Protocol):
    """A disk for the data of a service."""

    @property
    def kind(self) -> str:
        """The kind of disk, for the report."""

    @property
    def path(self) -> Path:
        """The folder of the data."""

    @property
    def prefix(self) -> tuple[str, ...]:
        """The command that starts a process with access to the disk."""

    def fill(self, service: Served) -> None:
        """Fill the disk."""

    def free(self, service: Served) -> None:
        """Free the disk again."""


class SmallDisk:
    """A small file system.

    Args:
        path: its mount point.
        prefix: the command that starts a process with access to it.
    """

    kind = "a small file system"

    def __init__(self, path: Path, prefix: tuple[str, ...]) -> None:
        self.path = path
        self.prefix = prefix

    def fill(self, service: Served) -> None:
        """Write a file until the disk is full."""
        written = subprocess.run(
            [*self.prefix, "dd", "if=/dev/zero", f"of={self.path}/filler", "bs=4096"], capture_output=True, check=False
        )
        assert b"No space left" in written.stderr, written.stderr

    def free(self, service: Served) -> None:
        """Remove that file."""
        subprocess.run([*self.prefix, "rm", f"{self.path}/filler"], check=True)


class LimitedFiles:
    """Files that may not grow, by the limit of the operating system for the files of a process (`RLIMIT_FSIZE`).

    The limit applies to the service and to Chroma's process. The service's own log stays far below it.

    Args:
        path: the folder of the data.
    """

    kind = "files that may not grow"
    prefix = ()

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self, service: Served) -> None:
        """Limit files to the size of the largest one."""
        self._limit(service, max(file.stat().st_size for file in self.path.rglob("*") if file.is_file()))

    def free(self, service: Served) -> None:
        """Remove the limit."""
        self._limit(service, resource.RLIM_INFINITY)

    @staticmethod
    def _limit(service: Served, size: int) -> None:
        # The service first: the processes that it starts from now on inherit its limit.
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        with suppress(LookupError, OSError):
            resource.prlimit(chroma_process_of(service), resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@contextmanager
def small_disk(folder: Path, size_mb: int = 4) -> Iterator[Disk]:
    """A disk that can be filled: a small file system, or limited files on a machine that allows no mounts.

    Args:
        folder: the folder of the mount point.
        size_mb: size of the file system. 4 MB are enough for a few thousand documents.

    Yields:
        The disk. A file system is visible only to processes that are started with its prefix.
    """
    path = folder / "small"
    path.mkdir()
    for namespace in NAMESPACES:
        script = f'mount -t tmpfs -o size={size_mb}m tmpfs "$0" && echo mounted && exec cat'
        with subprocess.Popen(
            ["unshare", *namespace, "sh", "-c", script, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as holder:
            assert holder.stdout is not None
            if holder.stdout.readline() == b"mounted\n":
                user = ("--user", "--preserve-credentials") if "--user" in namespace else ()
                yield SmallDisk(path, ("nsenter", "--target", str(holder.pid), *user, "--mount", f"--wd={os.getcwd()}"))
                return  # closing its input ends the holder, and with it the file system
    yield LimitedFiles(path)
