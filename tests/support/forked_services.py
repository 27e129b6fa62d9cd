"""Starts services as forks of a process that has made their imports, which take more than half of a start.

A fork runs the same command, with the same environment and folder, as a process that `subprocess.Popen` starts.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

MODULES = (
    "ragstore.app",
    "ragstore.chroma.embedded.process",
    "ragstore_client.gateway",
    "aiohttp",
    "alembic.command",
    "chromadb.api.client",
    "litestar.plugins.pydantic",
    "numpy",
    "prometheus_client",
    "sqlalchemy.ext.asyncio",
    "sqlalchemy.orm",
    "structlog",
)
"""The modules that the first process imports: the store, and the libraries of the gateway. The gateway's own modules
add its metrics to the registry of a process, and a store has none of them."""

OF_INTERPRETER = ("PYTHON", "LD_", "MALLOC_")
"""Prefixes of variables that have an effect only when an interpreter starts."""

IS_TESTING = "PYTEST_VERSION" in os.environ
"""Whether pytest runs. Its workers inherit the variable."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(list(MODULES))


class ForkedProcess:
    """A running fork, with the methods of `subprocess.Popen` that tests use.

    Args:
        process: the fork.
    """

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process
        assert process.pid is not None
        self.pid = process.pid
        # A fork that a failed test leaves running must not keep this process from its end.
        multiprocessing.process._children.discard(process)  # type: ignore[attr-defined]  # there is no public way

    @property
    def returncode(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        Returns:
            The exit code.

        Raises:
            TimeoutExpired: it still runs.
        """
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired("fork", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM, if it still runs."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL, if it still runs."""
        self.send_signal(signal.SIGKILL)


def can_fork(environ: Mapping[str, str]) -> bool:
    """Whether a fork has the same effect as a new interpreter, in the tests: benchmarks measure what users start.

    Args:
        environ: variables of the new process, in addition to the tests' own.
    """
    return IS_TESTING and not any(name.startswith(OF_INTERPRETER) for name in environ)


def start_fork(module: str, arguments: Sequence[str], log: Path, environ: Mapping[str, str]) -> ForkedProcess:
    """Start `python -m MODULE ARGUMENTS` as a fork, in the folder of its log.

    Args:
        module: the package of the command.
        log: file for its output.
        environ: all of its variables.
    """
    process = _context.Process(target=_run, args=(module, list(arguments), log, dict(environ)))
    process.start()
    return ForkedProcess(process)


def _run(module: str, arguments: Sequence[str], log: Path, environ: Mapping[str, str]) -> None:
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.chdir(log.parent)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = [module, *arguments]
    sys.path.insert(0, str(log.parent))
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        # A fork ends without them.
        atexit._run_exitfuncs()
