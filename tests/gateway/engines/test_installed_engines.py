"""Another distribution adds an engine by an entry point, and tests it by the conformance suite of the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages import ROOT
from tests.support.process_fixtures import starts_process

pytestmark = pytest.mark.process

EXAMPLE = ROOT / "examples/sqlite_engine"
SUITE = "test_sqlite_engine.py"

SELECT = """
import msgspec
from ragstore_gateway.configurations.json_schema import KNOWLEDGE_BASE_CHOICES, json_schema
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
msgspec.convert({"name": "tea", "storeType": "sqlite"}, KnowledgeBase)
schema = json_schema(KnowledgeBase, KNOWLEDGE_BASE_CHOICES)
assert "sqlite" in schema["properties"]["storeType"]["enum"]
assert "SqliteParameters" in schema["$defs"]
"""

BREAKAGES = {
    "the filter is ignored": (
        "            if language.matches(where, metadata)\n",
        "",
        "test_each_filter_selects_the_same_records_in_search_and_count",
    ),
    "scores are cosines": (
        "cosine_relevance(query, found)",
        "float(query @ found)",
        "test_scores_are_relevance_from_0_to_1",
    ),
    "a write creates the collection": (
        "if await self._found_dimension(sql) is None:",
        "if False:",
        "test_writing_to_a_dropped_collection_is_an_error_and_creates_nothing",
    ),
    "vectors of other lengths are stored as they are": (
        "vectors = unit_matrix(records, self._dimension)",
        "vectors = [record.vector for record in records]",
        "test_lengths_of_vectors_do_not_change_scores",
    ),
}
"""Faults of an adapter: the right code, the wrong code, and a test that fails then."""


@pytest.fixture(scope="module")
@starts_process
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the example is installed, as `pip install` does it."""
    folder = tmp_path_factory.mktemp("installed")
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--target", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(EXAMPLE)], check=True, timeout=300)
    return folder


def run(site: Path, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder of its own, with the distributions of another one."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def suite_run(site: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the suite of the example with its own settings of pytest."""
    for name in ("pyproject.toml", SUITE):
        shutil.copy(EXAMPLE / name, folder)
    return run(site, folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", SUITE, *options)


def declared(folder: Path, value: str) -> Path:
    """A folder with the metadata of a distribution that declares an engine."""
    metadata = folder / "tea_engine-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tea-engine\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[ragstore_gateway.engines]\ntea = {value}\n")
    return folder


def test_the_example_passes_the_suite(installed: Path, tmp_path: Path) -> None:
    ended = suite_run(installed, tmp_path)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_a_broken_adapter_fails_the_suite(breakage: str, installed: Path, tmp_path: Path) -> None:
    right, wrong, failing = BREAKAGES[breakage]
    broken = tmp_path / "broken"
    shutil.copytree(installed, broken)
    adapter = broken / "sqlite_store.py"
    assert adapter.read_text().count(right) == 1
    adapter.write_text(adapter.read_text().replace(right, wrong))
    ended = suite_run(broken, tmp_path, "-k", failing)
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED
    assert f"FAILED {SUITE}::TestSqlite::{failing}" in ended.stdout


def test_a_configuration_selects_an_installed_engine(installed: Path, tmp_path: Path) -> None:
    ended = run(installed, tmp_path, "-c", SELECT)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("absent_module:ENGINE", "cannot be loaded: No module named 'absent_module'"),
        ("json:dumps", "is not an Engine with a module: json:dumps"),
        ("taken:ABSENT", "cannot be loaded: "),
        ("taken:OWN", "is not an Engine with a module: taken:OWN"),
        ("taken:ENGINE", "has the name of another engine: chroma"),
    ],
)
def test_an_engine_that_is_not_valid_prevents_the_start_with_one_line(value: str, problem: str, tmp_path: Path) -> None:
    site = declared(tmp_path, value)
    (site / "taken.py").write_text(
        "from ragstore_gateway.engines.engine import Engine\n"
        "from ragstore_gateway.engines.store_parameters import Parameters\n"
        "ENGINE = Engine('chroma', Parameters, 'taken')\n"
        "OWN = Engine('own', Parameters)\n"
    )
    ended = run(site, tmp_path, "-m", "ragstore_gateway", "serve")
    assert ended.returncode == 1
    assert ended.stderr.startswith("Error: The engine 'tea' of tea-engine ")
    assert problem in ended.stderr
    assert ended.stderr.count("\n") == 1
