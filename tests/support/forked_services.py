"""Starts services as forks of a process that has made their imports, which take more than half of a start.

A fork runs the same command, with the same environment and folder, as a process that `subprocess.Popen` starts. The
store and the gateway have a process each that forks them: the gateway's modules add its metrics to the registry of a
process, and a store has none of them. The process of embedded Chroma is a fork of its service.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import NoReturn

MODULES = (
    "ragstore.app",
    "ragstore.cli",
    "ragstore.chroma.embedded.process",
    "ragstore.kit.server.runner",
    "ragstore_client.gateway",
    "aiohttp",
    "alembic.command",
    "chromadb.api.client",
    "chromadb.api.rust",
    "chromadb.db.impl.sqlite",
    "chromadb.telemetry.product.posthog",
    "h2.connection",
    "httptools",
    "litestar.plugins.pydantic",
    "numpy",
    "prometheus_client",
    "sqlalchemy.ext.asyncio",
    "sqlalchemy.orm",
    "structlog",
    "uvicorn.lifespan.on",
    "uvloop",
)
"""The modules that both processes import: the store, and the libraries of the gateway."""

GATEWAY_MODULES = ("ragstore_gateway.app", "ragstore_gateway.commands.cli")
"""The modules that the gateway's process imports, too."""

OF_INTERPRETER = ("PYTHON", "LD_", "MALLOC_")
"""Prefixes of variables that have an effect only when an interpreter starts."""

SPAWNED = "spawn_main"
"""Name of a process that `multiprocessing` has spawned, in `/proc/ID/comm`. A new interpreter has it among its
arguments."""

IS_TESTING = "PYTEST_VERSION" in os.environ
"""Whether pytest runs. Its workers inherit the variable."""

_context = multiprocessing.get_context("forkserver")

_stores = forkserver.ForkServer()
_stores.set_forkserver_preload(list(MODULES))
_gateways = forkserver.ForkServer()
_gateways.set_forkserver_preload([*MODULES, *GATEWAY_MODULES])
_starting = threading.Lock()


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
    server = _gateways if module == "ragstore_gateway" else _stores
    with _starting:
        # `multiprocessing` has one server, which it finds by this function.
        forkserver.connect_to_new_process = server.connect_to_new_process
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
    multiprocessing.util.spawnv_passfds = _fork_spawned
    sys.argv = [module, *arguments]
    sys.path.insert(0, str(log.parent))
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        # A fork ends without them.
        atexit._run_exitfuncs()


def _fork_spawned(path: bytes, args: Sequence[object], passfds: Sequence[int]) -> int:
    """Start a process of `multiprocessing`'s method `spawn` as a fork. Replaces `multiprocessing.util.spawnv_passfds`.

    A new interpreter takes four times as long, most of it for importing `chromadb`.

    Args:
        path: the interpreter.
        args: its arguments, the last but one of which is the program of the new process.
        passfds: the files that the new process inherits.

    Returns:
        The id of the process.
    """
    process_id = os.fork()
    if process_id == 0:
        _run_spawned(str(args[-2]), passfds)
    return process_id


def _run_spawned(program: str, passfds: Sequence[int]) -> NoReturn:
    code: object = 1
    try:
        # The event loop's signals and sockets are the parent's.
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        first = 3
        for kept in sorted({2, *passfds}):
            os.closerange(first, kept)
            first = kept + 1
        os.closerange(first, os.sysconf("SC_OPEN_MAX"))
        Path("/proc/self/comm").write_text(SPAWNED)
        atexit._clear()
        sys.argv = ["-c", "--multiprocessing-fork"]
        exec(program, {})  # the program is `multiprocessing`'s
    except SystemExit as end:
        code = end.code
        atexit._run_exitfuncs()
    finally:
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)
