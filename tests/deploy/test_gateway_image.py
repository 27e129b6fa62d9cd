"""The gateway's image, built once and started in a folder; see `test_image.py` for what that shows.

`test_image.py` also shows that the packages of an image are compiled, with the same commands. Here they are not.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.deploy.dockerfile import GATEWAY_DOCKERFILE, Engine, built_image, stages
from tests.support.servers import Served, free_port, running

IMAGE = stages(GATEWAY_DOCKERFILE)[-1]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The image, built."""
    return built_image(tmp_path_factory.mktemp("image"), GATEWAY_DOCKERFILE, compiles=False)


@pytest.fixture(scope="module")
def container(image: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str]]:
    """The image, started with its CMD, and a key."""
    port, folder = free_port(), tmp_path_factory.mktemp("container")
    keys = str(folder / "keys")
    new_key = ["ragstore-gateway", "keys", "new", "tests", "--role", "reader", "--file", keys]
    printed = subprocess.run(new_key, env=image.environ, capture_output=True, text=True, check=True).stdout
    environ = {
        "RAGSTORE_GATEWAY_PORT": str(port),
        "RAGSTORE_GATEWAY_DATA_PATH": str(folder / "data"),
        "RAGSTORE_GATEWAY_KEYS_FILE": keys,
    }
    process = image.start(IMAGE.value("CMD"), environ, folder / "log")
    with running(Served(f"http://127.0.0.1:{port}", process, folder / "log")) as served:
        served.wait_until_ready("/health/ready")
        yield served, re.findall(r"rsk_[\w-]{43}", printed)[0]


def test_it_has_the_store_and_a_model_in_its_process(container: tuple[Served, str]) -> None:
    served, key = container
    health = httpx.get(served.url + "/health", headers={"Authorization": f"Bearer {key}"}).json()
    assert health["ok"] is True
    assert health["model"] == "builtin/wordllama"
    assert health["store"]["kind"] == "in-process"


def test_without_keys_it_does_not_start(image: Engine, tmp_path: Path) -> None:
    # It would serve every address.
    environ = {**image.environ, "RAGSTORE_GATEWAY_DATA_PATH": str(tmp_path)}
    run = subprocess.run(["ragstore-gateway", "serve"], env=environ, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "RAGSTORE_GATEWAY_KEYS_FILE" in run.stderr


# The last test: it ends the gateway.
def test_sigterm_ends_it_with_success(container: tuple[Served, str]) -> None:
    assert container[0].stop() == 0
