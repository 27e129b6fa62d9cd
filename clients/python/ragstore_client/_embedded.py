"""A service of a client's own: `Client.embedded(path)`."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path
from typing import IO

import httpx

from ragstore_client._exceptions import InvalidConfiguration, RagstoreError

_START_SECONDS = 60.0
_STOP_SECONDS = 15.0
_POLL_SECONDS = 0.05
_MAX_PORTS = 3
_SHOWN_BYTES = 2000

_CHILD = """
import os, runpy, signal, sys, threading

def stop_with_parent():
    sys.stdin.buffer.read()  # ends when the parent closes the pipe, or has ended
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=stop_with_parent, daemon=True).start()
sys.argv = ["ragstore", "serve"]
runpy.run_module("ragstore", run_name="__main__", alter_sys=True)
"""


class EmbeddedServiceFailed(RagstoreError):
    """The service of `Client.embedded` did not start."""


class EmbeddedService:
    """A ragstore service in a child process, which listens on a free port of this machine.

    Args:
        path: folder of its data.

    Raises:
        InvalidConfiguration: the distribution `ragstore` is not installed.
        EmbeddedServiceFailed: the service has ended, or was not ready in time.
    """

    def __init__(self, path: Path) -> None:
        if importlib.util.find_spec("ragstore") is None:
            raise InvalidConfiguration("Client.embedded needs the distribution ragstore, with its extra 'embedded'")
        for remaining in reversed(range(_MAX_PORTS)):
            try:
                self._start(path, _free_port())
            except EmbeddedServiceFailed as error:
                # Another process may have taken the port since it was found to be free.
                if remaining == 0 or "address already in use" not in str(error):
                    raise
            else:
                return

    def close(self) -> None:
        """Stop the service: gracefully, and by force if that takes too long."""
        self._finalizer()

    def _start(self, path: Path, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by _stop
        environ = {name: value for name, value in os.environ.items() if not name.startswith("RAGSTORE_")}
        environ |= {
            "RAGSTORE_DATA_PATH": str(path.absolute()),
            "RAGSTORE_HOST": "127.0.0.1",
            "RAGSTORE_PORT": str(port),
        }
        process = subprocess.Popen(  # noqa: S603 - this interpreter, with the program above
            [sys.executable, "-c", _CHILD],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            # Ctrl-C goes to the whole process group of a terminal: the service ends with its parent, not before.
            start_new_session=True,
        )
        self._finalizer = weakref.finalize(self, _stop, process, log)
        deadline = time.monotonic() + _START_SECONDS
        while not _is_ready(self.url):
            ended = process.poll() is not None
            if ended or time.monotonic() > deadline:
                text = _end_of(log)
                self._finalizer()
                reason = f"ended with {process.returncode}" if ended else f"was not ready within {_START_SECONDS:g} s"
                raise EmbeddedServiceFailed(f"the embedded service {reason}: {text}")
            time.sleep(_POLL_SECONDS)


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health/ready", timeout=5, trust_env=False).is_success
    except httpx.HTTPError:
        return False


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _end_of(log: IO[bytes]) -> str:
    size = log.seek(0, os.SEEK_END)
    log.seek(max(size - _SHOWN_BYTES, 0))
    return log.read().decode(errors="replace").strip()


def _stop(process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    log.close()
