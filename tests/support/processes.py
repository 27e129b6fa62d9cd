"""The processes of a service: which they are, and how they end as crashes do."""

from __future__ import annotations

from pathlib import Path

from tests.support.servers import Served


def kill(served: Served) -> None:
    """End a process as a crash does."""
    served.process.kill()
    served.process.wait(timeout=30)


def chroma_process_of(service: Served) -> int:
    """The process that embedded Chroma runs in: the child that the pool has spawned.

    Raises:
        LookupError: there is none now.
    """
    children = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text().split()
    for child in map(int, children):
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
            return child
    raise LookupError("there is no such process")
