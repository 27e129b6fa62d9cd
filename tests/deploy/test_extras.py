"""Installed without extras, ragstore serves in front of a Chroma server, and names the extra that a feature needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.dockerfile import ROOT, settings_of_pip
from tests.deploy.test_dockerfile import pins
from tests.support.servers import Served, free_port, running


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new Python environment with ragstore and the pinned versions of its own dependencies."""
    folder = tmp_path_factory.mktemp("extras")
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(pins("remote")))
    pip = [sys.executable, "-m", "pip"]
    run(*pip, "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    run(sys.executable, "-m", "venv", "--without-pip", str(folder / "venv"))
    python = str(folder / "venv/bin/python")
    (wheel,) = folder.glob("ragstore-*.whl")
    run(*pip, "--python", python, "install", "--quiet", "--no-compile", "--constraint", str(constraints), str(wheel))
    return folder / "venv"


def run(*command: str) -> None:
    """Run a command that must succeed."""
    environ = {"PATH": os.environ["PATH"], **settings_of_pip()}
    ended = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def ragstore(environment: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the environment to its end."""
    command = [str(environment / "bin" / arguments[0]), *arguments[1:]]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", ["chromadb", "opentelemetry-sdk", "ragstore-client", "zstandard"])
def test_a_plain_installation_contains_no_extra(environment: Path, name: str) -> None:
    code = f"import importlib.metadata as metadata; print({name!r} in [d.name for d in metadata.distributions()])"
    assert ragstore(environment, "python", "-c", code).stdout == "False\n"


def test_a_plain_installation_serves_over_a_chroma_server(environment: Path, chroma: Served, tmp_path: Path) -> None:
    port = free_port()
    environ = {"RAGSTORE_CHROMA_URL": chroma.url, "RAGSTORE_PORT": str(port)}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([environment / "bin/ragstore", "serve"], env=environ, stdout=log, stderr=log)
    with running(Served(f"http://127.0.0.1:{port}", process, tmp_path / "log")) as served:
        served.wait_until_ready("/health/ready")


def test_a_plain_installation_has_chroma_repair(environment: Path, tmp_path: Path) -> None:
    assert ragstore(environment, "chroma-repair", str(tmp_path)).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "environ", "extra"),
    [
        (["serve"], {}, "embedded"),
        (["check"], {}, "embedded"),
        (["stats"], {}, "transfer"),
        (["export", "handbook", "-"], {}, "transfer"),
        (["import", "-"], {}, "transfer"),
        (["copy", "handbook", "--to", "http://127.0.0.1:1"], {}, "transfer"),
        (
            ["serve"],
            {"RAGSTORE_CHROMA_URL": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
            "tracing",
        ),
    ],
)
def test_a_missing_extra_is_named_in_one_line(
    environment: Path, arguments: list[str], environ: dict[str, str], extra: str
) -> None:
    ended = ragstore(environment, "ragstore", *arguments, **environ)
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1
    assert f"pip install 'ragstore[{extra}]'" in ended.stderr
