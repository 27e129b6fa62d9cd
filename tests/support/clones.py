"""A folder that looks like a fresh clone, and the services that a reader of pages starts in it.

A block whose last command is `make run`, `make gateway` or `serve` starts a service in a terminal of its own, which
Ctrl-C reaches. Ports that pages name are free ones when a block is run.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.log_lines import log_lines
from tests.support.pages import ROOT, Block, prose_before
from tests.support.processes import end_session
from tests.support.servers import Served, free_port, inherited_environ

SECONDS: Final = 60
PORTS: Final = re.compile(r"\b80[89]\d\b")
STORE: Final = re.compile(r"^(?:[A-Z_]+=\S+ )*(?:make run|\S*ragstore serve)$", flags=re.MULTILINE)
GATEWAY: Final = re.compile(r"^(?:[A-Z_]+=\S+ )*(?:make gateway|\S*ragstore-gateway serve)$", flags=re.MULTILINE)

ON_TERMINAL: Final = ("env", "--default-signal=INT", "setsid", "--ctty", "bash", "-c")
"""Runs a script whose standard input is its controlling terminal. A run of tests in the background ignores SIGINT."""

IN_TERMINAL: Final = """set -eu -o pipefail -m
[ ! -f .kept ] || . ./.kept
"""
"""Jobs of the background are not in the group that Ctrl-C reaches, as in a terminal."""


@dataclass(frozen=True)
class Command:
    """The command of a block that starts a service.

    Attributes:
        port: the port, as the page names it.
        data: the folder of its data; empty if it has none.
    """

    port: str
    data: str

    @classmethod
    def of(cls, block: Block) -> Command | None:
        """The command in a block; None if the block starts no service, or fails to."""
        for pattern, prefix, port in ((GATEWAY, "RAGSTORE_GATEWAY", "8090"), (STORE, "RAGSTORE", "8080")):
            started = pattern.search(block.code)
            if started is not None and not block.fails:
                assert block.code.rstrip().endswith(started[0]), f"{block.place}: a service is the last command"
                settings = dict(re.findall(r"\b([A-Z_]+)=(\S+)", started[0]))
                data = "" if "RAGSTORE_CHROMA_URL" in settings else settings.get(f"{prefix}_DATA_PATH", "data")
                return cls(settings.get(f"{prefix}_PORT", port), data)
        return None


@dataclass(frozen=True)
class Running:
    """A service in its terminal.

    Attributes:
        terminal: the other end of its terminal; None for a service that is not the clone's own.
    """

    command: Command
    served: Served
    terminal: int | None = None


class Ports(dict[str, str]):
    """The free port in place of each port that a page names."""

    def __missing__(self, named: str) -> str:
        """Choose a port."""
        self[named] = str(free_port())
        return self[named]

    def in_code(self, code: str) -> str:
        """A block's code, with ports that are free."""
        return PORTS.sub(lambda port: self[port[0]], code)

    def in_output(self, printed: str) -> str:
        """Output, with the ports that the page names."""
        for named, free in self.items():
            printed = re.sub(rf"\b{free}\b", named, printed)
        return printed


class Clone:
    """A folder that looks like a fresh clone.

    Args:
        folder: an empty folder.
        stack: ends what is started.
        service: a service that runs on port 8080, which `make run` does not start then.

    """

    def __init__(self, folder: Path, stack: ExitStack, service: Served | None = None) -> None:
        self.folder = folder
        self.ports = Ports()
        self._stack = stack
        self._running: list[Running] = []
        self._logs: list[Path] = []
        if service is not None:
            self.ports["8080"] = service.url.rpartition(":")[2]
            self._running.append(Running(Command("8080", "data of its own"), service))
        for entry in ROOT.iterdir():
            if not entry.name.startswith(".") and entry.name not in ("data", "build"):
                (folder / entry.name).symlink_to(entry)
        _link_environment(folder / ".venv")

    def environ(self, **variables: str) -> dict[str, str]:
        """The environment of a terminal: the tests' own without settings, and the address of the gateway."""
        port = self.ports["8090"]
        gateway = {"RAGSTORE_GATEWAY_PORT": port, "RAGSTORE_GATEWAY_URL": f"http://127.0.0.1:{port}"}
        return inherited_environ() | gateway | variables

    def serve(self, block: Block) -> None:
        """Do what a block says whose last command starts a service, and wait until the service is ready.

        Services that have its port or its folder are stopped by Ctrl-C before: the page must say so, between this block
        and the block before. If the page says that the service may run already, and it does, nothing is done.
        """
        command = Command.of(block)
        assert command is not None
        prose = prose_before(block)
        for other in list(self._running):
            if other.command.port == command.port or (command.data and other.command.data == command.data):
                if other.terminal is None or ("runs already" in prose and other.command == command):
                    return
                assert "Ctrl-C" in prose, f"{block.place}: {other.command} runs, and the page stops it nowhere"
                self._interrupt(other)
        self._start(command, self.ports.in_code(block.code))

    def _start(self, command: Command, code: str) -> None:
        port = self.ports[command.port]
        log = self.folder / f".log-{command.port}-{len(self._logs)}"
        self._logs.append(log)
        reader, terminal = pty.openpty()
        self._stack.callback(os.close, reader)
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*ON_TERMINAL, IN_TERMINAL + code],
                cwd=self.folder,
                env=self.environ(RAGSTORE_PORT=self.ports["8080"]),
                stdin=terminal,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        os.close(terminal)
        self._stack.callback(end_session, process)
        served = Served(f"http://127.0.0.1:{port}", process, log)
        self._running.append(Running(command, served, reader))
        # A service with embedded Chroma becomes ready; one with the address of a Chroma server may never be.
        served.wait_until_ready("/health/ready" if command.data else "/health/live")

    def _interrupt(self, running: Running) -> None:
        assert running.terminal is not None
        os.write(running.terminal, b"\x03")
        running.served.process.wait(timeout=SECONDS)
        assert log_lines(running.served.log, "stopped"), running.served.log.read_text()
        self._running.remove(running)


def _link_environment(folder: Path) -> None:
    """Give a clone the environment of the tests, with current stamps, so that `make` installs nothing."""
    folder.mkdir()
    for entry in Path(sys.prefix).iterdir():
        if entry.suffix != ".stamp":
            (folder / entry.name).symlink_to(entry)
    now = time.time()
    for name in ("run", "gateway", "dev"):
        stamp = folder / f"{name}.stamp"
        stamp.touch()
        # The same time for all: each depends on the one before.
        os.utime(stamp, (now, now))
