"""The Node client: its generated types match the OpenAPI document, and its tests run against real services."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragstore import __version__
from tests.support.node_build import CLIENT, build, run, run_node_tests
from tests.support.servers import Served, free_port, running, start_service


@pytest.fixture(scope="module")
def built() -> None:
    """Compile the client and its tests."""
    build()


@pytest.fixture(scope="module")
def remote(chroma: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service over the Chroma server."""
    environ = {"RAGSTORE_CHROMA_URL": chroma.url, "RAGSTORE_CHROMA_DATABASE": "node_tests"}
    with running(start_service(tmp_path_factory.mktemp("remote"), environ)) as served:
        yield served


@pytest.fixture(scope="module")
def away(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service without its Chroma, and with a small maximum body size."""
    environ = {"RAGSTORE_CHROMA_URL": f"http://127.0.0.1:{free_port()}", "RAGSTORE_MAX_BODY_BYTES": "30000"}
    with running(start_service(tmp_path_factory.mktemp("away"), environ, ready=False)) as served:
        yield served


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service whose Chroma accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environ = {
            "RAGSTORE_CHROMA_URL": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "RAGSTORE_CHROMA_TIMEOUT_SECONDS": "0.3",
        }
        with running(start_service(tmp_path_factory.mktemp("slow"), environ, ready=False)) as served:
            yield served


@pytest.mark.usefixtures("built")
def test_the_client_against_real_services(service: Served, away: Served, slow: Served) -> None:
    run_node_tests(
        "service",
        RAGSTORE_TEST_URL=service.url,
        RAGSTORE_TEST_AWAY_URL=away.url,
        RAGSTORE_TEST_SLOW_URL=slow.url,
    )


@pytest.mark.parametrize("name", ["local", "arguments", "ingest"])
@pytest.mark.usefixtures("built")
def test_the_client_against_scripted_servers(name: str) -> None:
    run_node_tests(name)


@pytest.mark.usefixtures("built")
def test_the_retriever_over_ragstore_and_plain_chroma(remote: Served, chroma: Served) -> None:
    run_node_tests("rag", RAGSTORE_TEST_URL=remote.url, RAGSTORE_TEST_CHROMA_URL=chroma.url)


@pytest.mark.usefixtures("built")
def test_the_vector_store_of_langchain(remote: Served) -> None:
    run_node_tests("langchain", RAGSTORE_TEST_URL=remote.url)


def test_the_generated_types_match_the_openapi_documents(built: None, tmp_path: Path) -> None:
    generate = json.loads((CLIENT / "package.json").read_text())["scripts"]["generate"]
    tools = CLIENT / "node_modules" / ".bin"
    run("sh", "-c", generate.replace("--output src/", f"--output {tmp_path}/"), PATH=f"{tools}:{os.environ['PATH']}")
    for types in ("schema.d.ts", "gateway/schema.d.ts"):
        committed = (CLIENT / "src" / types).read_text()
        assert (tmp_path / types).read_text() == committed, f"{types}: npm run generate in clients/node"


def test_no_modules_import_each_other(built: None) -> None:
    run("npm", "run", "cycles")


def test_the_package_has_the_version_of_the_service() -> None:
    assert json.loads((CLIENT / "package.json").read_text())["version"] == __version__


def test_openapi_fetch_is_the_only_dependency_at_run_time() -> None:
    assert list(json.loads((CLIENT / "package.json").read_text())["dependencies"]) == ["openapi-fetch"]


@pytest.mark.parametrize("folder", [CLIENT, Path(__file__).parent / "ecosystem"], ids=["client", "ecosystem"])
def test_the_lock_file_names_no_host(folder: Path) -> None:
    lock = (folder / "package-lock.json").read_text()
    assert "://" not in lock, "npm run lock in clients/node"
    packages = json.loads(lock)["packages"]
    assert all("integrity" in entry and "resolved" not in entry for name, entry in packages.items() if name)
