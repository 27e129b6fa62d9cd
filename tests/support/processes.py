"""The processes of a service, and how to kill them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

from tests.support.forked_services import SPAWNED
from tests.support.servers import Served


def kill(served: Served) -> None:
    """Kill a process with SIGKILL, as in a crash."""
    served.process.kill()
    served.process.wait(timeout=30)


def end_session(leader: subprocess.Popen[bytes]) -> None:
    """Kill a process and all others of its session immediately: their data is deleted."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # The fields after the command's name, which may contain spaces: state, parent, group, session.
            session = int((process / "stat").read_text().rpartition(")")[2].split()[3])
            if session == leader.pid:
                os.kill(int(process.name), signal.SIGKILL)
    leader.wait()


def chroma_process_of(service: Served) -> int:
    """The id of the process that embedded Chroma runs in, the child that the process pool has spawned.

    Raises:
        LookupError: there is none at the moment.
    """
    children = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text().split()
    for child in map(int, children):
        process = Path(f"/proc/{child}")
        if SPAWNED.encode() in process.joinpath("cmdline").read_bytes() + process.joinpath("comm").read_bytes():
            return child
    raise LookupError("there is no such process")
