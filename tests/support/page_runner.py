"""Runs a page's blocks as a reader would: in their order, in a folder that looks like a fresh clone."""

from __future__ import annotations

import contextlib
import gc
import io
import re
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.support.clones import Clone, Command
from tests.support.node_build import CLIENT, build
from tests.support.node_build import run as run_in_client
from tests.support.page_output import check_answer
from tests.support.pages import ANSWER, ROOT, Block
from tests.support.processes import end_session
from tests.support.servers import Served, free_port, inherited_environ

SECONDS: Final = 60
STORE_CLIENT: Final = re.compile(r"\bmake demo\b|\bragstore_client\.")
"""Commands whose default is the store on port 8080, or `RAGSTORE_URL`, which is a setting of the gateway, too."""

KEPT: Final = """set -eu -o pipefail -o allexport
[ ! -f .kept ] || . ./.kept
trap 'export -p > .kept' EXIT
"""
"""Passes the variables of one block on to the next, as a terminal does."""


class Reader:
    """Runs the blocks of one page.

    Args:
        clone: the folder in which the blocks are run, with its services.
        stack: ends what is started.
    """

    def __init__(self, clone: Clone, stack: ExitStack) -> None:
        self._folder = clone.folder
        self._clone = clone
        self._stack = stack
        self._names: dict[str, object] = {}
        self._printed = ""
        stack.callback(self._forget)
        # Each page is read in a terminal of its own.
        (self._folder / ".kept").unlink(missing_ok=True)

    def read(self, block: Block) -> None:
        """Run a block, or compare it with what the last one printed."""
        if block.language in ANSWER:
            check_answer(block, self._clone.ports.in_output(self._printed))
        elif block.language == "sh":
            self._shell(block)
        elif block.language == "python":
            self._python(block)
        elif block.language == "js":
            self._node(block)
        else:
            raise AssertionError(f"{block.place}: '{block.language}' is not run")

    def _shell(self, block: Block) -> None:
        self._printed = ""
        if Command.of(block) is None:
            self._printed = self._run(block)
        else:
            self._clone.serve(block)

    def _run(self, block: Block) -> str:
        output, complaint = self._folder / ".output", self._folder / ".complaint"
        with output.open("wb") as printed, complaint.open("wb") as told:
            # In a session of its own, so that what it leaves in the background ends with the test.
            process = subprocess.Popen(
                ["bash", "-c", KEPT + self._clone.ports.in_code(block.code)],
                cwd=self._folder,
                env=self._environ(block),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed if block.fails else told,
                start_new_session=True,
            )
        self._stack.callback(end_session, process)
        process.wait(timeout=SECONDS)
        assert (process.returncode != 0) == block.fails, f"{block.place}: {output.read_text()}{complaint.read_text()}"
        return output.read_text()

    def _environ(self, block: Block) -> dict[str, str]:
        if STORE_CLIENT.search(block.code):
            return self._clone.environ(RAGSTORE_URL=f"http://127.0.0.1:{self._clone.ports['8080']}")
        return self._clone.environ()

    def _python(self, block: Block) -> None:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(self._clone.ports.in_code(block.code), block.place, "exec"), self._names)
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
        script.write_text(self._clone.ports.in_code(block.code))
        self._printed = run_in_client("node", str(script))


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
            env=inherited_environ() | settings,
            start_new_session=True,
        )
    try:
        served = Served(f"http://127.0.0.1:{port}", process, log)
        served.wait_until_ready("/health/ready")
        yield served
    finally:
        end_session(process)
