"""Keys: how they are shown, what is refused without one, and what each role may do."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support.documents import document
from tests.support.keyed_services import Guarded, send
from tests.support.problems import problem_of

Clients = dict[str | None, httpx.Client]

DOCUMENT = {"documents": [document("x")]}
QUERY = {"query_embedding": [1, 0]}

READS: list[tuple[str, str, Any]] = [
    ("GET", "/health", None),
    ("GET", "/metrics", None),
    ("GET", "/collections", None),
    ("GET", "/collections/NAME", None),
    ("GET", "/collections/NAME/metadata-values?field=a", None),
    ("GET", "/collections/NAME/documents", None),
    ("POST", "/collections/NAME/documents/filter", {}),
    ("GET", "/collections/NAME/documents/x", None),
    ("GET", "/collections/NAME/documents/all", None),
    ("POST", "/collections/NAME/query", QUERY),
    ("POST", "/query", {"collection": "NAME", **QUERY}),
]
WRITES: list[tuple[str, str, Any]] = [
    ("POST", "/collections", {"name": "NAME"}),
    ("PUT", "/collections/NAME/metadata", {"metadata": {}}),
    ("POST", "/collections/NAME/documents", DOCUMENT),
    ("PUT", "/collections/NAME/documents", DOCUMENT),
    ("POST", "/collections/NAME/documents/stream?mode=upsert", [document("x")]),
    ("DELETE", "/collections/NAME/documents?ids=x", None),
    ("POST", "/collections/NAME/documents/delete", {"ids": ["x"]}),
    ("DELETE", "/collections/NAME/documents/all", None),
]
ADMINISTERS: list[tuple[str, str, Any]] = [("DELETE", "/collections/NAME", None)]
OPEN = ["/", "/health/live", "/health/ready", "/docs", "/openapi.json"]


@pytest.mark.parametrize(("method", "path", "body"), READS + WRITES + ADMINISTERS)
def test_without_a_key_everything_is_401_with_a_challenge(
    nobody: httpx.Client, method: str, path: str, body: Any
) -> None:
    answer = send(nobody, method, path, body, "repo_a")

    assert "key" in problem_of(answer, 401)["detail"]
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("path", OPEN)
def test_what_tells_nothing_of_what_is_stored_needs_no_key(nobody: httpx.Client, path: str) -> None:
    assert nobody.get(path).status_code == 200


def test_every_operation_of_the_openapi_document_asks_for_a_key_as_it_says(nobody: httpx.Client) -> None:
    told = nobody.get("/openapi.json").json()

    for path, item in told["paths"].items():
        for method in ("get", "post", "put", "delete"):
            if method in item:
                wants = bool(item[method].get("security", told["security"]))
                answer = nobody.request(method, path.replace("{collection_name}", "abc").replace("{document_id}", "x"))
                assert (answer.status_code == 401) == wants, (method, path)


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer KEY"},
        {"Authorization": "bearer KEY"},
        {"X-API-Key": "KEY"},
        {"X-API-Key": "KEY", "Authorization": "Bearer KEY"},
        {"X-API-Key": "KEY", "Authorization": "Basic dTpw"},
    ],
)
def test_a_key_is_shown_by_either_header(keyed: Guarded, nobody: httpx.Client, headers: dict[str, str]) -> None:
    shown = {name: value.replace("KEY", keyed.plain["reader"]) for name, value in headers.items()}
    assert nobody.get("/collections", headers=shown).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "KEY"},
        {"Authorization": "Basic KEY"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer KEYx"},
        {"Authorization": "Bearer ké"},
        {"X-API-Key": ""},
        {"X-API-Key": "rsk_" + "A" * 43},
        {"X-API-Key": "KEY", "Authorization": "Bearer other"},
        {"Cookie": "X-API-Key=KEY"},
    ],
)
def test_what_is_no_key_is_401(keyed: Guarded, nobody: httpx.Client, headers: dict[str, str]) -> None:
    shown = [(name.encode(), value.replace("KEY", keyed.plain["reader"]).encode()) for name, value in headers.items()]
    problem = problem_of(nobody.get("/collections", headers=shown), 401)
    assert keyed.plain["reader"] not in str(problem)


def test_a_key_in_the_url_does_not_count(keyed: Guarded, nobody: httpx.Client) -> None:
    problem_of(nobody.get("/collections", params={"api_key": keyed.plain["reader"]}), 401)


def test_the_hash_of_a_key_is_no_key(keyed: Guarded, nobody: httpx.Client) -> None:
    for line in keyed.file.read_text().splitlines():
        hashed = line.partition('"sha256":"')[2][:64]
        problem_of(nobody.get("/collections", headers={"X-API-Key": hashed}), 401)


@pytest.mark.parametrize(("method", "path", "body"), READS)
def test_a_reader_reads(clients: Clients, method: str, path: str, body: Any) -> None:
    assert send(clients["reader"], method, path, body, "repo_a").status_code in (200, 404)


@pytest.mark.parametrize(("method", "path", "body"), WRITES + ADMINISTERS)
def test_a_reader_writes_nothing(clients: Clients, method: str, path: str, body: Any) -> None:
    assert "'reader'" in problem_of(send(clients["reader"], method, path, body, "repo_a"), 403)["detail"]


def test_a_writer_writes(clients: Clients) -> None:
    name = f"t-{uuid4().hex}"
    try:
        assert [send(clients["writer"], *write, name).is_success for write in WRITES] == [True] * len(WRITES)
    finally:
        clients["boss"].delete(f"/collections/{name}")


@pytest.mark.parametrize(("method", "path", "body"), ADMINISTERS)
def test_a_writer_deletes_no_collection(clients: Clients, method: str, path: str, body: Any) -> None:
    problem_of(send(clients["writer"], method, path, body, "repo_a"), 403)


def test_an_admin_deletes_collections(clients: Clients) -> None:
    name = f"t-{uuid4().hex}"
    clients["boss"].post("/collections", json={"name": name}).raise_for_status()
    assert clients["boss"].delete(f"/collections/{name}").status_code == 200


def test_a_refusal_does_not_read_the_body(nobody: httpx.Client) -> None:
    problem_of(nobody.post("/collections", content=b"no json", headers={"Content-Type": "text/plain"}), 401)


def test_refusals_are_counted_as_what_they_are(clients: Clients) -> None:
    clients[None].get("/collections")
    assert 'path="/collections",status_code="401"' in clients["reader"].get("/metrics").text
