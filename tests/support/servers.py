"""Starts what the tests talk to: real Chroma servers and real services, on free ports, over real sockets."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.forked_services import ForkedProcess, can_fork, start_fork

START_SECONDS = 60.0


WORKERS = 8
"""Workers of pytest-xdist that have ports of their own."""

PORTS = range(10_000, 32_000)
"""Ports below the range that Linux gives to connections and to listeners on port 0."""

# Its own generator: Hypothesis seeds the global one, which would return the same ports again.
_random = random.Random()


def free_port() -> int:
    """A free port. No other worker, and no connection, takes it before its server listens."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
    while True:
        port = _random.choice(PORTS[worker::WORKERS])
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


@dataclass
class Served:
    """A process that serves HTTP.

    Attributes:
        url: its address.
        log: file with what it printed.
    """

    url: str
    process: subprocess.Popen[bytes] | ForkedProcess
    log: Path

    def wait_until_ready(self, path: str) -> None:
        """Wait until a path returns a success status.

        Raises:
            RuntimeError: the process ended, or did not respond in time.
        """
        deadline = time.monotonic() + START_SECONDS
        # Loading the certificates takes 20 ms, which hundreds of starts would repeat with each request.
        with httpx.Client(base_url=self.url, timeout=5, verify=False) as client:
            while time.monotonic() < deadline:
                if self.process.poll() is not None:
                    raise RuntimeError(f"ended with {self.process.returncode}: {self.log.read_text()}")
                with suppress(httpx.HTTPError):
                    if client.get(path).is_success:
                        return
                time.sleep(0.05)
        raise RuntimeError(f"no answer from {path}: {self.log.read_text()}")

    def stop(self) -> int:
        """End the process as a service manager does, and wait for it.

        Returns:
            Its exit code.
        """
        self.process.terminate()
        try:
            return self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


def inherited_environ() -> dict[str, str]:
    """The environment of the tests without settings of the service."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RAGSTORE_")}


def start_process(command: list[str], url: str, log: Path, environ: Mapping[str, str]) -> Served:
    """Start a process that serves HTTP, in the folder of its log, and do not wait for it.

    Args:
        url: its address.
        log: file for its output.
        environ: variables in addition to the tests' own.

    Returns:
        The process.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env={**inherited_environ(), **environ}, cwd=log.parent
        )
    return Served(url, process, log)


def start_command(
    module: str, arguments: Sequence[str], url: str, log: Path, environ: Mapping[str, str], prefix: Sequence[str] = ()
) -> Served:
    """Start `python -m MODULE ARGUMENTS`. See `start_process`.

    Args:
        module: the package of the command.
        prefix: a command that becomes the process, which it is followed by.
    """
    if prefix or not can_fork(environ):
        return start_process([*prefix, sys.executable, "-m", module, *arguments], url, log, environ)
    return Served(url, start_fork(module, arguments, log, {**inherited_environ(), **environ}), log)


def start_chroma(folder: Path, port: int | None = None) -> Served:
    """Start a Chroma server and wait until it responds.

    Args:
        folder: where its data and its log go.
        port: the port to listen on; a free one when None.

    Returns:
        The running server.
    """
    port = port or free_port()
    command = [
        str(Path(sys.executable).parent / "chroma"),
        *("run", "--path", str(folder / "chroma"), "--host", "127.0.0.1", "--port", str(port)),
    ]
    served = start_process(command, f"http://127.0.0.1:{port}", folder / "chroma.log", {})
    served.wait_until_ready("/api/v2/heartbeat")
    return served


def start_service(
    folder: Path,
    environ: Mapping[str, str] | None = None,
    *,
    port: int | None = None,
    ready: bool = True,
    prefix: Sequence[str] = (),
) -> Served:
    """Start the service.

    Args:
        folder: where its data and its log go.
        environ: `RAGSTORE_*` variables; embedded Chroma below `folder` without `RAGSTORE_CHROMA_URL`.
        port: the port to listen on; a free one when None.
        ready: whether to wait until it is ready, or only until it listens.
        prefix: a command that becomes the service, which it is followed by.

    Returns:
        The running service.
    """
    port = port or free_port()
    settings = {
        "RAGSTORE_PORT": str(port),
        "RAGSTORE_DATA_PATH": str(folder / "data"),
        **(environ or {}),
    }
    served = start_command("ragstore", ["serve"], f"http://127.0.0.1:{port}", folder / "service.log", settings, prefix)
    served.wait_until_ready("/health/ready" if ready else "/health/live")
    return served


@contextmanager
def running(served: Served) -> Iterator[Served]:
    """Stop a process at the end, if it still runs."""
    try:
        yield served
    finally:
        if served.process.poll() is None:
            served.stop()
