"""Disks that can be full, made without rights that only some machines give."""

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
"""What a place for a mount of one's own takes: as root, and as anybody."""


class Disk(Protocol):
    """Where a service keeps its data."""

    @property
    def kind(self) -> str:
        """What it is, for the report."""

    @property
    def path(self) -> Path:
        """The folder for the data."""

    @property
    def prefix(self) -> tuple[str, ...]:
        """What starts a process that sees it."""

    def fill(self, service: Served) -> None:
        """Leave no room."""

    def free(self, service: Served) -> None:
        """Give room again."""


class SmallDisk:
    """A file system of 4 MB, which a few thousand documents would fill.

    Args:
        path: where it is.
        prefix: what starts a process that sees it.
    """

    kind = "a small file system"

    def __init__(self, path: Path, prefix: tuple[str, ...]) -> None:
        self.path = path
        self.prefix = prefix

    def fill(self, service: Served) -> None:
        """Write a file until there is no room."""
        written = subprocess.run(
            [*self.prefix, "dd", "if=/dev/zero", f"of={self.path}/filler", "bs=4096"], capture_output=True, check=False
        )
        assert b"No space left" in written.stderr, written.stderr

    def free(self, service: Served) -> None:
        """Remove that file."""
        subprocess.run([*self.prefix, "rm", f"{self.path}/filler"], check=True)


class LimitedFiles:
    """A file system whose files may not grow, by the limit that the system has for the files of a process.

    The service and Chroma's process get it. The service's own log stays far below.

    Args:
        path: where the data is.
    """

    kind = "files that may not grow"
    prefix = ()

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self, service: Served) -> None:
        """Let no file grow beyond what the largest has."""
        self._limit(service, max(file.stat().st_size for file in self.path.rglob("*") if file.is_file()))

    def free(self, service: Served) -> None:
        """Let them grow again."""
        self._limit(service, resource.RLIM_INFINITY)

    @staticmethod
    def _limit(service: Served, size: int) -> None:
        # The service first: what it starts from now on has its limit.
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        with suppress(LookupError, OSError):
            resource.prlimit(chroma_process_of(service), resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@contextmanager
def small_disk(folder: Path) -> Iterator[Disk]:
    """A disk that can be full: a small file system, or limited files where the machine lets nobody mount one.

    Args:
        folder: where it is made.

    Yields:
        The disk; a file system is seen only by processes that are started with its prefix.
    """
    path = folder / "small"
    path.mkdir()
    for namespace in NAMESPACES:
        script = 'mount -t tmpfs -o size=4m tmpfs "$0" && echo mounted && exec cat'
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
