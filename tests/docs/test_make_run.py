"""`make run` starts the service with the settings of its environment, as the pages say."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.page_runner import run_with_make
from tests.support.pages import ROOT, blocks_of
from tests.support.servers import Served

pytestmark = pytest.mark.process


def test_make_run_honours_a_chroma_server(chroma: Served, tmp_path: Path) -> None:
    settings = "RAGSTORE_CHROMA_URL=http://chroma:8000 RAGSTORE_KEYS_FILE=keys.jsonl RAGSTORE_HOST=0.0.0.0"
    assert f"{settings} make run\n" in [block.code for block in blocks_of("docs/operating.md")]
    with run_with_make(tmp_path, {"RAGSTORE_CHROMA_URL": chroma.url}):
        assert not (tmp_path / "data").exists()


@pytest.mark.process
def test_an_installation_says_what_it_installs(tmp_path: Path) -> None:
    command = ["make", "--dry-run", "install", f"VENV={tmp_path / 'new'}"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for what, lock in (("the store", "embedded"), ("the gateway", "gateway")):
        packages = len(re.findall(r"^[a-z0-9]", (ROOT / f"requirements/{lock}.txt").read_text(), re.MULTILINE))
        assert f'echo "Installing {what} and {packages} packages into {tmp_path / "new"};' in printed
