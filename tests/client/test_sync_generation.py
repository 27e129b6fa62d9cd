"""The synchronous client is the asynchronous one, generated."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "clients/python/ragstore_client"
SCRIPT = ROOT / "scripts/generate_sync_client.py"
GENERATED = [
    path
    for path in sorted([*PACKAGE.glob("_sync/*.py"), *PACKAGE.glob("gateway/_sync/*.py")])
    if path.name not in {"__init__.py", "runtime.py"}
]


def run(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of what the generator reads and writes."""
    for path in (SCRIPT, ROOT / "pyproject.toml", *PACKAGE.rglob("_*sync/*.py")):
        to = tmp_path / path.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
    return tmp_path


def test_the_committed_modules_are_what_the_generator_makes() -> None:
    done = run(SCRIPT, "--check")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("edited", ["_sync/documents.py", "_async/documents.py", "gateway/_sync/client.py"])
def test_an_edited_module_fails_the_check_and_is_generated_again(copy: Path, edited: str) -> None:
    script, module = (copy / path.relative_to(ROOT) for path in (SCRIPT, PACKAGE / edited))
    module.write_text(module.read_text().replace('"""The ', '"""Some ').replace("Delete documents.", "Delete some."))
    done = run(script, "--check")
    assert done.returncode == 1
    assert "the synchronous client is out of date: make generate" in done.stderr
    assert run(script).returncode == 0
    assert run(script, "--check").returncode == 0


def test_a_module_without_an_asynchronous_counterpart_fails_the_check(copy: Path) -> None:
    script, module = (copy / path.relative_to(ROOT) for path in (SCRIPT, PACKAGE / "_sync/left_over.py"))
    module.write_text("")
    assert run(script, "--check").returncode == 1
    assert run(script).returncode == 0
    assert not module.exists()


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_generated_module_says_so_and_has_nothing_asynchronous(path: Path) -> None:
    source = path.read_text()
    assert source.startswith(f"# Generated from _async/{path.name} by scripts/generate_sync_client.py: do not edit.\n")
    assert "async" not in source.lower().replace("_async/", "")
    assert "await" not in source
    asynchronous = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)
    assert not any(isinstance(node, asynchronous) for node in ast.walk(ast.parse(source)))


def test_both_runtimes_define_the_same_names() -> None:
    def names(side: str) -> set[str]:
        tree = ast.parse((PACKAGE / side / "runtime.py").read_text())
        defined = [
            node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        ]
        aliases = [
            node.target.id
            for node in tree.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        ]
        return {name.removeprefix("Async") for name in [*(node.name for node in defined), *aliases] if name[0] != "_"}

    assert names("_async") == names("_sync")
