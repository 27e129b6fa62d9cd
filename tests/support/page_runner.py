"""Runs a page's blocks as a reader would: in their order, in a folder that looks like a fresh clone.

A shell block that ends with `make run` or `ragstore serve` and names a port of its own starts a service, which serves
the blocks that follow. The service of `make run` alone, on port 8080, runs already. A block that ends with
`make gateway` or `ragstore-gateway serve` starts a gateway, on port 8090 unless it names another one. A gateway that
has the port is stopped before, as the page says.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.support.node_build import CLIENT, build
from tests.support.node_build import run as run_in_client
from tests.support.page_output import check_answer
from tests.support.pages import ANSWER, ROOT, Block, text_of
from tests.support.servers import Served, free_port

SECONDS: Final = 60
SERVES: Final = re.compile(r"^(?:[A-Z_]+=\S+ )*(?:make run|\S*ragstore serve)$", flags=re.MULTILINE)
GATEWAY: Final = re.compile(r"^(?:[A-Z_]+=\S+ )*(?:make gateway|\S*ragstore-gateway serve)$", flags=re.MULTILINE)
PORTS: Final = re.compile(r"\b80[89]\d\b")
"""Ports that pages name. Each is a free one when it is run."""

KEPT: Final = """set -eu -o pipefail -o allexport
[ ! -f .kept ] || . ./.kept
trap 'export -p > .kept' EXIT
"""
"""Passes the variables of one block on to the next, as a terminal does."""


class Reader:
    """Runs the blocks of one page.

    Args:
        page: the page's path below the root.
        folder: an empty folder, which is made to look like a clone.
        service: what runs on port 8080.
        stack: ends what is started.
    """

    def __init__(self, page: str, folder: Path, service: Served, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._ports = {port: str(free_port()) for port in sorted(set(PORTS.findall(text_of(page))) - {"8080"})}
        self._ports["8080"] = service.url.rpartition(":")[2]
        self._ports.setdefault("8090", str(free_port()))
        self._names: dict[str, object] = {}
        self._served: dict[str, subprocess.Popen[bytes]] = {}
        self._printed = ""
        stack.callback(self._forget)
        like_a_clone(folder)

    def read(self, block: Block) -> None:
        """Run a block, or compare it with what the last one printed."""
        if block.language in ANSWER:
            check_answer(block, self._with_page_ports(self._printed))
        elif block.language == "sh":
            self._shell(block)
        elif block.language == "python":
            self._python(block)
        elif block.language == "js":
            self._node(block)
        else:
            raise AssertionError(f"{block.place}: '{block.language}' is not run")

    def _shell(self, block: Block) -> None:
        served = SERVES.search(block.code)
        gateway = GATEWAY.search(block.code)
        if gateway is not None and not block.fails:
            named = re.search(r"RAGSTORE_GATEWAY_PORT=(\d+)", gateway[0])
            self._serve(block, self._ports[named[1] if named else "8090"])
        elif served is None or block.fails:
            self._printed = self._run(block)
        elif named := re.search(r"RAGSTORE_PORT=(\d+)", served[0]):
            self._serve(block, self._ports[named[1]])
        else:
            assert block.code.rstrip().endswith(("make run", "ragstore serve")), block.place

    def _run(self, block: Block) -> str:
        output, complaint = self._folder / ".output", self._folder / ".complaint"
        complaint.unlink(missing_ok=True)
        process = self._start(block, output, output if block.fails else complaint)
        process.wait(timeout=SECONDS)
        assert (process.returncode != 0) == block.fails, f"{block.place}: {output.read_text()}{complaint.read_text()}"
        return output.read_text()

    def _serve(self, block: Block, port: str) -> None:
        if port in self._served:
            os.killpg(self._served[port].pid, signal.SIGTERM)
            self._served[port].wait(timeout=SECONDS)
        log = self._folder / f".log-{port}"
        process = self._start(block, log, log)
        served = Served(f"http://127.0.0.1:{port}", process, log)
        self._served[port] = process
        # A service with embedded Chroma becomes ready; one with the address of a Chroma server may never be.
        served.wait_until_ready("/health/live" if "RAGSTORE_CHROMA_URL" in block.code else "/health/ready")
        self._printed = ""

    def _start(self, block: Block, output: Path, complaint: Path) -> subprocess.Popen[bytes]:
        """Start a block in a group of its own, so that what it leaves in the background ends with the page."""
        complaint.touch()
        with output.open("wb") as printed, complaint.open("ab") as told:
            process = subprocess.Popen(
                ["bash", "-c", KEPT + self._here(block.code)],
                cwd=self._folder,
                # The gateway's address, for a block that does not name one.
                env={
                    **own_environ(),
                    "RAGSTORE_GATEWAY_PORT": self._ports["8090"],
                    "RAGSTORE_GATEWAY_URL": f"http://127.0.0.1:{self._ports['8090']}",
                },
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=told,
                start_new_session=True,
            )
        self._stack.callback(end_group, process)
        return process

    def _python(self, block: Block) -> None:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(self._here(block.code), block.place, "exec"), self._names)
        self._printed = printed.getvalue()

    def _forget(self) -> None:
        """Close the clients that a page's example leaves open until the interpreter ends.

        Otherwise their sockets are found in a later test, which fails.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            self._names.clear()
            gc.collect()

    def _node(self, block: Block) -> None:
        build()
        # Inside the package, so that its own name resolves.
        script = CLIENT / "build" / f"{block.page.replace('/', '-')}-{block.line}.mjs"
        script.write_text(self._here(block.code))
        self._printed = run_in_client("node", str(script))

    def _here(self, code: str) -> str:
        """A block's code, with ports that are free."""
        return PORTS.sub(lambda port: self._ports[port[0]], code)

    def _with_page_ports(self, printed: str) -> str:
        for named, real in self._ports.items():
            printed = re.sub(rf"\b{real}\b", named, printed)
        return printed


def like_a_clone(folder: Path) -> None:
    """Fill a folder with links to what a clone has, and to the environment that `make` puts there."""
    for entry in ROOT.iterdir():
        if not entry.name.startswith(".") and entry.name not in ("data", "build"):
            (folder / entry.name).symlink_to(entry)
    (folder / ".venv").symlink_to(sys.prefix)


def own_environ() -> dict[str, str]:
    """The environment, without settings of the service that it may hold."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RAGSTORE_")}


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children immediately: its data is deleted with the page."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def run_with_make(folder: Path, environ: dict[str, str]) -> Iterator[Served]:
    """The service of `make run`, with data in a folder. It ends with all that make started."""
    port = free_port()
    log = folder / "make.log"
    settings = {"RAGSTORE_PORT": str(port), "RAGSTORE_DATA_PATH": str(folder / "data"), **environ}
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["make", "run"],
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=own_environ() | settings,
            start_new_session=True,
        )
    try:
        served = Served(f"http://127.0.0.1:{port}", process, log)
        served.wait_until_ready("/health/ready")
        yield served
    finally:
        end_group(process)
