"""The contract on Chroma being away: the service starts, says so, and works once Chroma does."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.problems import problem_of
from tests.support.servers import free_port, running, start_chroma, start_service


@pytest.fixture(scope="module")
def port() -> int:
    """A port where Chroma is to be."""
    return free_port()


@pytest.fixture(scope="module")
def lonely(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[httpx.Client]:
    """A client on a service whose Chroma is not there."""
    environ = {"RAGSTORE_CHROMA_URL": f"http://127.0.0.1:{port}"}
    with (
        running(start_service(tmp_path_factory.mktemp("lonely"), environ, ready=False)) as served,
        httpx.Client(base_url=served.url, timeout=30) as client,
    ):
        yield client


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a Chroma server keeps its data."""
    return tmp_path_factory.mktemp("late-chroma")


def test_without_chroma_the_service_lives(lonely: httpx.Client) -> None:
    assert lonely.get("/health/live").status_code == 200


def test_without_chroma_the_service_is_unhealthy_and_says_why(lonely: httpx.Client) -> None:
    answer = lonely.get("/health")

    assert answer.status_code == 503
    health = answer.json()
    assert health["status"] == "unhealthy"
    assert "Chroma" in health["error"]
    assert health["timestamp"]
    assert health["version"]
    assert health["collections_count"] is None


def test_without_chroma_the_service_is_not_ready_and_says_why(lonely: httpx.Client) -> None:
    answer = lonely.get("/health/ready")

    assert answer.status_code == 503
    assert answer.json()["status"] == "unready"
    assert "Chroma" in answer.json()["error"]


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
    lonely: httpx.Client, method: str, path: str, body: object
) -> None:
    answer = lonely.request(method, path, json=body)

    assert "Chroma" in problem_of(answer, 503)["detail"]
    assert int(answer.headers["retry-after"]) >= 1


def test_without_chroma_a_collection_that_fails_is_told_with_its_status(lonely: httpx.Client) -> None:
    answer = lonely.post("/query", json={"collections": ["abc"], "query_embedding": [1]})

    assert [error["status"] for error in answer.json()["errors"]] == [503]


def test_without_chroma_bad_input_is_still_400(lonely: httpx.Client) -> None:
    problem_of(lonely.post("/collections", json={"name": "a/b"}), 400)


def test_once_chroma_is_there_the_service_works_without_restart(lonely: httpx.Client, port: int, folder: Path) -> None:
    with running(start_chroma(folder, port)):
        assert lonely.get("/health/ready").status_code == 200
        assert lonely.get("/health").json()["status"] == "healthy"
        assert lonely.post("/collections", json={"name": "abc"}).status_code == 201

    assert lonely.get("/health/ready").status_code == 503
    problem_of(lonely.get("/collections/abc"), 503)

    with running(start_chroma(folder, port)):
        assert lonely.get("/health/ready").status_code == 200
        assert lonely.get("/collections/abc").status_code == 200


def test_a_chroma_that_does_not_answer_in_time_is_504(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environ = {
            "RAGSTORE_CHROMA_URL": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "RAGSTORE_CHROMA_TIMEOUT_SECONDS": "0.2",
        }
        with running(start_service(tmp_path, environ, ready=False)) as served:
            answer = httpx.get(f"{served.url}/collections")
            problem = problem_of(answer, 504)

    assert "time" in problem["detail"]
