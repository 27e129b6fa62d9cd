"""A short soak over each store; `make soak` runs it for longer, and judges memory, too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("store", ["embedded", "remote"])
def test_after_a_load_with_faults_nothing_is_lost_and_files_and_threads_are_as_before(store: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.soak", "--minutes", "0.12", "--round", "8", "--store", store],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    print(run.stdout, run.stderr)
    assert run.returncode == 0
    assert f"{store}: holds" in run.stdout
    acknowledged = re.search(r"documents sent / acknowledged \| \d+ / (\d+)", run.stdout)
    assert acknowledged is not None
    assert int(acknowledged[1]) > 50
