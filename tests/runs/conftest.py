"""An inner run: generated tests in a folder of their own, run with the plugins of these tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from tests.support.pages import ROOT

PLUGINS = 'pytest_plugins = ["tests.support.fast_tier", "tests.support.file_times", "tests.support.second_run"]\n'

CONFIGURATION = """
[pytest]
addopts = --strict-markers --import-mode=importlib -p pytest_asyncio.plugin -p xdist.plugin
asyncio_mode = auto
asyncio_default_fixture_loop_scope = session
"""


@dataclass(frozen=True)
class Outcome:
    """The exit code and the output of a run."""

    code: int
    output: str

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of the closing line."""
        closing = self.output.rstrip().splitlines()[-1]
        return {name.removesuffix("s"): int(count) for count, name in re.findall(r"(\d+) ([a-z]+)", closing)}


class InnerRun:
    """Generated tests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "pytest.ini").write_text(CONFIGURATION)
        self.write("conftest", "")

    def write(self, module: str, text: str) -> None:
        """Write a module of the tests."""
        path = self._folder / f"{module}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((PLUGINS if module == "conftest" else "") + dedent(text))

    def pytest(self, *options: str) -> Outcome:
        """Run the tests."""
        return self.shell(" ".join([str(Path(sys.executable).parent / "pytest"), *options]))

    def command(self, target: str, *variables: str) -> str:
        """The command of a target of the Makefile that runs pytest."""
        dry = ["make", "--dry-run", target, f"BIN={Path(sys.executable).parent}", *variables]
        printed = subprocess.run(dry, cwd=ROOT, env=_environ(), capture_output=True, text=True, check=True).stdout
        [command] = [line for line in printed.splitlines() if "--numprocesses" in line]
        return command

    def shell(self, command: str) -> Outcome:
        """Run a command in the folder, as make does."""
        shell = ["bash", "-eu", "-o", "pipefail", "-c", command]
        # Importing the other plugins takes a second of each run.
        environ = {**_environ(), "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        found = subprocess.run(
            shell, cwd=self._folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return Outcome(found.returncode, found.stdout)


def _environ() -> dict[str, str]:
    """The environment without what this run of pytest and a make around it have added."""
    added = ("PYTEST_", "MAKE", "MFLAGS", "AFTER_FAST", "ATTEMPTS", "JOBS")
    return {name: value for name, value in os.environ.items() if not name.startswith(added)}


@pytest.fixture
def inner(tmp_path: Path) -> InnerRun:
    """A folder without tests."""
    return InnerRun(tmp_path)
