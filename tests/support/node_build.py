"""Compiles the Node client and its tests, once for all test processes."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest
from filelock import FileLock

ROOT: Final = Path(__file__).resolve().parents[2]
CLIENT: Final = ROOT / "clients" / "node"
_SOURCES: Final = (
    "clients/node/src",
    "clients/node/scripts",
    "clients/node/package.json",
    "clients/node/tsconfig.json",
    "clients/node/tsconfig.cjs.json",
)


def run(*command: str, **environ: str) -> str:
    """Run a command in the client's folder and return its output. It must succeed."""
    return run_in(CLIENT, *command, **environ)


def run_in(folder: Path, *command: str, **environ: str) -> str:
    """Run a command in a folder and return its output. It must succeed."""
    completed = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return completed.stdout


def run_node_tests(name: str, **environ: str) -> None:
    """Run a compiled file of the client's tests. All its tests must pass."""
    # Garbage is collected by the test of an ingestion that is never iterated.
    command = ("node", "--expose-gc", "--test", "--test-reporter=tap", f"build/tests/{name}.test.js")
    printed = run(*command, **environ)
    totals = {word: int(number) for word, number in re.findall(r"^# (\w+) (\d+)$", printed, flags=re.M)}
    assert totals["tests"] > 0, printed
    assert totals["pass"] == totals["tests"], printed


def build() -> None:
    """Compile the client and its tests unless they are up to date. Test processes take turns: they share a folder."""
    if not (CLIENT / "node_modules").is_dir():
        pytest.fail("the Node client's tools are not installed: make node")
    stamp = CLIENT / "build" / "built"
    with FileLock(CLIENT / "node_modules" / ".build.lock"):
        if not stamp.exists() or stamp.stat().st_mtime < _newest():
            run("npm", "run", "build:tests")
            stamp.touch()


def _newest() -> float:
    """Modification time of the newest source."""
    files = [file for name in _SOURCES for file in [ROOT / name, *(ROOT / name).rglob("*")]]
    files += (ROOT / "tests" / "node").glob("*.ts*")
    return max(file.stat().st_mtime for file in files if file.is_file())
