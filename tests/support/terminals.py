"""Runs a command whose standard error is a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Mapping

SECONDS = 120


def run_on_terminal(command: list[str], environ: Mapping[str, str]) -> tuple[int, bytes, bytes]:
    """Run a command until its end.

    Args:
        environ: its environment.

    Returns:
        Its exit code, what it printed, and what it wrote to the terminal.
    """
    reader, terminal = pty.openpty()
    own = {**environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(command, env=own, stdout=subprocess.PIPE, stderr=terminal) as run:
        os.close(terminal)
        # While it runs: a terminal that is not read stops its writers.
        shown = b""
        while part := _read(reader):
            shown += part
        printed, _ = run.communicate(timeout=SECONDS)
    os.close(reader)
    return run.returncode, printed, shown


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        # Linux has EIO when the last writer has ended.
        return b""
