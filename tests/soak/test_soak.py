"""A short soak test over each store; `make soak` runs it for longer, and asserts memory, too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def soak(module: str, *options: str) -> str:
    """Run a soak test, and return its output."""
    run = subprocess.run(
        [sys.executable, "-m", module, *options],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    print(run.stdout, run.stderr)
    assert run.returncode == 0
    return run.stdout


@pytest.mark.parametrize("store", ["embedded", "remote"])
def test_a_load_with_faults_loses_no_document_and_leaks_no_file_or_thread(store: str) -> None:
    output = soak("tests.soak", "--minutes", "0.12", "--round", "8", "--store", store)
    assert f"{store}: passed" in output
    acknowledged = re.search(r"documents sent / acknowledged \| \d+ / (\d+)", output)
    assert acknowledged is not None
    assert int(acknowledged[1]) > 50


def test_a_load_with_faults_on_the_gateways_chat_leaves_the_books_correct_and_leaks_nothing() -> None:
    output = soak("tests.soak.gateway", "--minutes", "0.04", "--round", "3")
    assert output.rstrip().endswith("passed")
