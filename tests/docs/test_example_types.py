"""The Python examples of the pages about the client satisfy mypy --strict, and pyright, which editors use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages import ROOT, blocks_of

PAGES = ("clients/python/README.md", "docs/answering-with-sources.md", "docs/contract.md")
PYRIGHT = ROOT / "node_modules/pyright/index.js"

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the blocks of each page as one module, since they follow each other."""
    folder = tmp_path_factory.mktemp("examples")
    for page in PAGES:
        code = "\n".join(block.code for block in blocks_of(page) if block.language == "python" and not block.reason)
        (folder / f"{page.replace('/', '_').removesuffix('.md').replace('-', '_')}.py").write_text(code)
    return folder


def checked(command: list[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "MYPYPATH": f"{ROOT / 'service'}:{ROOT / 'clients/python'}"}
    return subprocess.run(command, capture_output=True, text=True, env=environ, cwd=folder)


def test_mypy_accepts_the_examples(examples: Path) -> None:
    options = ["--strict", "--config-file", "", "--disable-error-code", "import-untyped", "--allow-redefinition"]
    done = checked([sys.executable, "-m", "mypy", *options, "."], examples)
    assert done.returncode == 0, done.stdout


def test_pyright_accepts_the_examples(examples: Path) -> None:
    node = shutil.which("node")
    assert node
    paths = f'"{ROOT / "clients/python"}", "{ROOT / "service"}"'
    (examples / "pyrightconfig.json").write_text(f'{{"extraPaths": [{paths}], "reportMissingModuleSource": false}}')
    done = checked([node, PYRIGHT, "--pythonpath", sys.executable, "--project", "."], examples)
    assert done.returncode == 0, done.stdout
