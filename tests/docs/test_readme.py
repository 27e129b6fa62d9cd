"""The README does what it says: its commands are run as they stand, against the service that `make run` starts."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from docs.settings_table import table
from ragstore.settings import Settings, variable
from serving import Served, free_port, running

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
ADDRESS = "http://127.0.0.1:8080"


@dataclass(frozen=True)
class Shown:
    """A command of the README and the output that it shows."""

    command: str
    output: str


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.M | re.S)


def shown_commands() -> list[Shown]:
    """The commands of all console blocks, in their order. A command goes on while its lines are indented."""
    found = []
    for block in blocks("console"):
        for command, output in re.findall(r"^\$ (.*?\n(?: .*\n)*)((?:(?!\$ ).*\n)*)", block, flags=re.M):
            found.append(Shown(command, output))
    return found


def start_with_make(folder: Path, environ: dict[str, str]) -> Served:
    port = free_port()
    log = folder / "make.log"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAGSTORE_")}
    settings = {"RAGSTORE_PORT": str(port), "RAGSTORE_DATA_PATH": str(folder / "data"), **environ}
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["make", "run"], cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, env={**inherited, **settings}
        )
    served = Served(f"http://127.0.0.1:{port}", process, log)
    served.wait_until_ready("/health/ready")
    return served


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with running(start_with_make(tmp_path_factory.mktemp("readme"), {})) as served:
        yield served


def test_every_command_prints_what_the_readme_shows(made: Served) -> None:
    commands = shown_commands()
    assert len(commands) == 5
    for shown in commands:
        command = shown.command.replace(ADDRESS, made.url)
        run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=30, check=True)
        assert json.loads(run.stdout) == approximately(json.loads(shown.output)), shown.command


def approximately(value: object) -> object:
    """The same value, with its numbers as float32 keeps them."""
    if isinstance(value, dict):
        return {key: approximately(item) for key, item in value.items()}
    if isinstance(value, list):
        return [approximately(item) for item in value]
    return pytest.approx(value, rel=1e-5) if isinstance(value, float) else value


def test_make_run_honours_a_chroma_server(chroma: Served, tmp_path: Path) -> None:
    command = next(block for block in blocks("sh") if "RAGSTORE_CHROMA_URL" in block)
    settings = "RAGSTORE_CHROMA_URL=http://chroma:8000 RAGSTORE_KEYS_FILE=keys.jsonl RAGSTORE_HOST=0.0.0.0"
    assert command == f"{settings} make run\n"
    with running(start_with_make(tmp_path, {"RAGSTORE_CHROMA_URL": chroma.url})):
        assert not (tmp_path / "data").exists()


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    for command in re.findall(r"^(make \w+)", blocks("sh")[0], flags=re.M):
        subprocess.run([*command.split(), "--dry-run"], cwd=ROOT, check=True, capture_output=True)


def test_the_settings_table_is_the_code_s() -> None:
    assert table() in README, "run: python tests/docs/settings_table.py"


def test_every_setting_is_described() -> None:
    for field in Settings.__struct_fields__:
        assert f"| `{variable(field)}` |" in table()
