"""The image's build and start, run in a folder, since the tests have no container engine.

Real: the files of the context, the build's commands, the hashed lock, a new environment, the variables, the command and
the health check. Replaced or missing: the base image (this machine's Python instead), the user, the read-only root.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.deploy.dockerfile import Engine, built_image, stages
from tests.support.servers import Served, free_port, running

IMAGE = stages()[-1]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The remote variant, built."""
    return built_image(tmp_path_factory.mktemp("image"), store="remote")


@dataclass
class Container:
    """A started image, and the files that it had before the start."""

    served: Served
    environ: dict[str, str]
    files: dict[str, int]
    key: str


@pytest.fixture(scope="module")
def container(image: Engine, chroma: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """The image, started with its CMD."""
    port = free_port()
    folder = tmp_path_factory.mktemp("container")
    new_key = ["ragstore", "keys", "new", "tests", "--role", "reader", "--file", str(folder / "keys")]
    printed = subprocess.run(new_key, env=image.environ, capture_output=True, text=True, check=True).stdout
    key = re.findall(r"rsk_[\w-]{43}", printed)[0]
    environ = {
        "RAGSTORE_PORT": str(port),
        "RAGSTORE_CHROMA_URL": chroma.url,
        "RAGSTORE_KEYS_FILE": str(folder / "keys"),
    }
    files = image.files()
    process = image.start(IMAGE.value("CMD"), environ, folder / "log")
    with running(Served(f"http://127.0.0.1:{port}", process, folder / "log")) as served:
        served.wait_until_ready("/health/ready")
        yield Container(served, environ, files, key)


def in_image(image: Engine, code: str) -> str:
    """The output of Python code that runs in the image."""
    run = subprocess.run(
        ["python", "-c", code], env=image.environ, cwd=image.folder, capture_output=True, text=True, check=True
    )
    return run.stdout.strip()


def command(image: Engine, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """The image's CMD, run to its end."""
    return subprocess.run(
        json.loads(IMAGE.value("CMD")),
        env={**image.environ, "RAGSTORE_DATA_PATH": str(folder), **environ},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=5,
        check=False,
    )


def healthcheck(image: Engine, environ: dict[str, str]) -> int:
    """The exit code of the image's health check."""
    command = json.loads(IMAGE.value("HEALTHCHECK").rpartition("CMD ")[2])
    return subprocess.run(command, env={**image.environ, **environ}, capture_output=True, check=False).returncode


def test_it_gets_ready(container: Container) -> None:
    container.served.wait_until_ready("/health/ready")


def test_its_process_is_the_command_itself(container: Container) -> None:
    # A shell in between would not pass signals on.
    parts = Path(f"/proc/{container.served.process.pid}/cmdline").read_bytes().split(b"\0")
    assert b"sh" not in [os.path.basename(part) for part in parts]


def test_its_health_check_passes(image: Engine, container: Container) -> None:
    assert healthcheck(image, container.environ) == 0


def test_its_health_check_fails_when_the_port_is_closed(image: Engine) -> None:
    assert healthcheck(image, {"RAGSTORE_PORT": str(free_port())}) == 1


def test_its_health_check_uses_no_proxy(image: Engine, container: Container) -> None:
    proxy = {"http_proxy": f"http://127.0.0.1:{free_port()}"}
    assert healthcheck(image, container.environ | proxy) == 0


def test_running_it_changes_none_of_its_files(image: Engine, container: Container) -> None:
    assert image.files() == container.files


@pytest.mark.parametrize("name", ["chromadb", "onnxruntime", "pip", "setuptools", "hatchling"])
def test_it_does_not_contain(image: Engine, name: str) -> None:
    assert in_image(image, f"import importlib.util; print(importlib.util.find_spec({name!r}))") == "None"


def test_it_has_all_dependencies_but_those_of_the_extra_embedded(image: Engine) -> None:
    code = """
import importlib.metadata as metadata, re
plain = lambda name: re.sub(r"[-_.]+", "-", name).lower()
declared = [need for package in ("ragstore", "ragstore-client") for need in metadata.requires(package)]
integrations = ("'langgraph'", "'langchain'", "'llamaindex'")
needed = {plain(re.match(r"[A-Za-z0-9_.-]+", need)[0]) for need in declared if not need.endswith(integrations)}
print(sorted(needed - {plain(distribution.name) for distribution in metadata.distributions()}))
"""
    assert in_image(image, code) == "['chromadb']"


def test_its_commands_for_transfers_and_repairs_run(image: Engine, container: Container, tmp_path: Path) -> None:
    key = container.key
    for words in (["ragstore", "stats", "--url", container.served.url], ["chroma-repair", str(tmp_path)]):
        run = subprocess.run(
            words, env={**image.environ, "RAGSTORE_API_KEY": key}, capture_output=True, text=True, check=False
        )
        assert (run.returncode, run.stderr) == (0, "")


def test_its_packages_are_compiled(image: Engine) -> None:
    # In a read-only image Python could not store what it compiles at the first import.
    compiled = in_image(image, "import ragstore.app as it, os; print(os.path.exists(it.__cached__))")
    assert compiled == "True"


def test_without_keys_it_does_not_start(image: Engine, chroma: Served, tmp_path: Path) -> None:
    # It would serve every address.
    run = command(image, tmp_path, RAGSTORE_CHROMA_URL=chroma.url)
    assert run.returncode == 1
    assert len(run.stderr.splitlines()) == 1
    assert "RAGSTORE_KEYS_FILE" in run.stderr


def test_embedded_chroma_is_rejected_with_one_line(image: Engine, tmp_path: Path) -> None:
    run = command(image, tmp_path, RAGSTORE_HOST="127.0.0.1", RAGSTORE_PORT="0")
    assert run.returncode == 1
    assert len(run.stderr.splitlines()) == 1
    assert "RAGSTORE_CHROMA_URL" in run.stderr
    assert "pip install 'ragstore[embedded]'" in run.stderr


# The last test: it ends the service.
def test_sigterm_ends_it_with_success(container: Container) -> None:
    assert container.served.stop() == 0
