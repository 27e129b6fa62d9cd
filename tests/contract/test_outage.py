"""Chroma is unavailable: the service starts, reports it, and works when Chroma returns."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.problems import problem_of
from tests.support.servers import free_port, running, start_chroma, start_service

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def port() -> int:
    """A port for Chroma."""
    return free_port()


@pytest.fixture(scope="module")
def without_chroma(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[httpx.Client]:
    """A client of a service without its Chroma."""
    environ = {"RAGSTORE_CHROMA_URL": f"http://127.0.0.1:{port}"}
    with (
        running(start_service(tmp_path_factory.mktemp("without_chroma"), environ, ready=False)) as served,
        httpx.Client(base_url=served.url, timeout=30) as client,
    ):
        yield client


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data folder of a Chroma server."""
    return tmp_path_factory.mktemp("late-chroma")


def test_without_chroma_the_service_is_alive(without_chroma: httpx.Client) -> None:
    assert without_chroma.get("/health/live").status_code == 200


def test_without_chroma_the_service_is_unhealthy_and_has_an_error(without_chroma: httpx.Client) -> None:
    response = without_chroma.get("/health")

    assert response.status_code == 503
    health = response.json()
    assert health["status"] == "unhealthy"
    assert "Chroma" in health["error"]
    assert health["timestamp"]
    assert health["version"]
    assert health["collections_count"] is None


def test_without_chroma_the_service_is_not_ready_and_has_an_error(without_chroma: httpx.Client) -> None:
    response = without_chroma.get("/health/ready")

    assert response.status_code == 503
    assert response.json()["status"] == "unready"
    assert "Chroma" in response.json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/collections", None),
        ("POST", "/collections", {"name": "abc"}),
        ("GET", "/collections/abc/documents", None),
        ("POST", "/collections/abc/documents", {"documents": [{"text": "x", "embedding": [1]}]}),
        ("POST", "/collections/abc/query", {"query_embedding": [1]}),
    ],
)
def test_without_chroma_requests_are_503_with_retry_after(
    without_chroma: httpx.Client, method: str, path: str, body: object
) -> None:
    response = without_chroma.request(method, path, json=body)

    assert "Chroma" in problem_of(response, 503)["detail"]
    assert int(response.headers["retry-after"]) >= 1


def test_without_chroma_a_failed_collection_is_reported_with_its_status(without_chroma: httpx.Client) -> None:
    response = without_chroma.post("/query", json={"collections": ["abc"], "query_embedding": [1]})

    assert [error["status"] for error in response.json()["errors"]] == [503]


def test_without_chroma_bad_input_is_still_400(without_chroma: httpx.Client) -> None:
    problem_of(without_chroma.post("/collections", json={"name": "a/b"}), 400)


def test_when_chroma_returns_the_service_works_without_restart(
    without_chroma: httpx.Client, port: int, folder: Path
) -> None:
    with running(start_chroma(folder, port)):
        assert without_chroma.get("/health/ready").status_code == 200
        assert without_chroma.get("/health").json()["status"] == "healthy"
        assert without_chroma.post("/collections", json={"name": "abc"}).status_code == 201

    assert without_chroma.get("/health/ready").status_code == 503
    problem_of(without_chroma.get("/collections/abc"), 503)

    with running(start_chroma(folder, port)):
        assert without_chroma.get("/health/ready").status_code == 200
        assert without_chroma.get("/collections/abc").status_code == 200


def test_a_chroma_that_does_not_respond_in_time_is_504(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environ = {
            "RAGSTORE_CHROMA_URL": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "RAGSTORE_CHROMA_TIMEOUT_SECONDS": "0.2",
        }
        with running(start_service(tmp_path, environ, ready=False)) as served:
            response = httpx.get(f"{served.url}/collections")
            problem = problem_of(response, 504)

    assert "time" in problem["detail"]
