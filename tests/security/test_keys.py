"""Keys: the headers that carry them, requests without one, and the permissions of each role."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support.documents import document
from tests.support.keyed_services import KeyedService, send
from tests.support.problems import problem_of

pytestmark = pytest.mark.process

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
    ("POST", "/collections/NAME/map", {}),
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
ADMIN_REQUESTS: list[tuple[str, str, Any]] = [
    ("DELETE", "/collections/NAME", None),
    ("POST", "/collections/NAME/rebuild", None),
]
PUBLIC_PATHS = ["/", "/access", "/health/live", "/health/ready", "/docs", "/openapi.json", "/ui/"]


@pytest.mark.parametrize(("method", "path", "body"), READS + WRITES + ADMIN_REQUESTS)
def test_a_request_without_a_key_gets_401_with_a_challenge(
    anonymous: httpx.Client, method: str, path: str, body: Any
) -> None:
    response = send(anonymous, method, path, body, "repo_a")

    assert "key" in problem_of(response, 401)["detail"]
    assert response.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("path", PUBLIC_PATHS)
def test_public_paths_need_no_key(anonymous: httpx.Client, path: str) -> None:
    assert anonymous.get(path).status_code == 200


def test_each_operation_requires_a_key_as_the_openapi_document_declares(anonymous: httpx.Client) -> None:
    openapi = anonymous.get("/openapi.json").json()

    for path, item in openapi["paths"].items():
        for method in ("get", "post", "put", "delete"):
            if method in item:
                # An empty object means that the operation works without a key, too.
                security = item[method].get("security", openapi["security"])
                needs_key = bool(security) and {} not in security
                response = anonymous.request(
                    method, path.replace("{collection_name}", "abc").replace("{document_id}", "x")
                )
                assert (response.status_code == 401) == needs_key, (method, path)


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer KEY"},
        {"Authorization": "bearer KEY"},
        {"X-API-Key": "KEY"},
        {"X-API-Key": "KEY", "Authorization": "Bearer KEY"},
        {"X-API-Key": "KEY", "Authorization": "Basic dTpw"},
        {"api-key": "KEY"},
        {"api-key": "of another server", "Authorization": "Bearer KEY"},
    ],
)
def test_a_key_is_accepted_in_either_header(
    keyed: KeyedService, anonymous: httpx.Client, headers: dict[str, str]
) -> None:
    sent = {name: value.replace("KEY", keyed.keys["reader"]) for name, value in headers.items()}
    assert anonymous.get("/collections", headers=sent).status_code == 200


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
        {"api-key": "KEYx"},
    ],
)
def test_an_invalid_key_gets_401(keyed: KeyedService, anonymous: httpx.Client, headers: dict[str, str]) -> None:
    sent = [(name.encode(), value.replace("KEY", keyed.keys["reader"]).encode()) for name, value in headers.items()]
    problem = problem_of(anonymous.get("/collections", headers=sent), 401)
    assert keyed.keys["reader"] not in str(problem)


def test_a_key_in_the_url_is_ignored(keyed: KeyedService, anonymous: httpx.Client) -> None:
    problem_of(anonymous.get("/collections", params={"api_key": keyed.keys["reader"]}), 401)


def test_the_hash_of_a_key_is_not_accepted_as_a_key(keyed: KeyedService, anonymous: httpx.Client) -> None:
    for line in keyed.keys_file.read_text().splitlines():
        hashed = line.partition('"sha256":"')[2][:64]
        problem_of(anonymous.get("/collections", headers={"X-API-Key": hashed}), 401)


@pytest.mark.parametrize(("method", "path", "body"), READS)
def test_a_reader_reads(clients: Clients, method: str, path: str, body: Any) -> None:
    assert send(clients["reader"], method, path, body, "repo_a").status_code in (200, 404)


@pytest.mark.parametrize(("method", "path", "body"), WRITES + ADMIN_REQUESTS)
def test_a_reader_cannot_write(clients: Clients, method: str, path: str, body: Any) -> None:
    assert "'reader'" in problem_of(send(clients["reader"], method, path, body, "repo_a"), 403)["detail"]


def test_a_writer_writes(clients: Clients) -> None:
    name = f"t-{uuid4().hex}"
    try:
        assert [send(clients["writer"], *write, name).is_success for write in WRITES] == [True] * len(WRITES)
    finally:
        clients["admin"].delete(f"/collections/{name}")


@pytest.mark.parametrize(("method", "path", "body"), ADMIN_REQUESTS)
def test_a_writer_cannot_delete_a_collection(clients: Clients, method: str, path: str, body: Any) -> None:
    problem_of(send(clients["writer"], method, path, body, "repo_a"), 403)


def test_an_admin_deletes_collections(clients: Clients) -> None:
    name = f"t-{uuid4().hex}"
    clients["admin"].post("/collections", json={"name": name}).raise_for_status()
    assert clients["admin"].delete(f"/collections/{name}").status_code == 200


def test_a_401_does_not_depend_on_the_body(anonymous: httpx.Client) -> None:
    problem_of(anonymous.post("/collections", content=b"no json", headers={"Content-Type": "text/plain"}), 401)


@pytest.mark.parametrize(
    ("name", "store"),
    [
        ("reader", {"role": "reader"}),
        ("team", {"role": "admin", "collections": ["repo_*", "shared"]}),
    ],
)
def test_access_has_the_rights_of_the_key(clients: Clients, name: str, store: dict[str, object]) -> None:
    access = clients[name].get("/access").json()

    assert access["keysRequired"] is True
    assert access["key"] == {"name": name, "store": store}


def test_access_without_a_key_has_none(anonymous: httpx.Client) -> None:
    assert anonymous.get("/access").json()["key"] is None


def test_access_with_a_wrong_key_is_401(anonymous: httpx.Client) -> None:
    problem_of(anonymous.get("/access", headers={"X-API-Key": "rsk_" + "A" * 43}), 401)


def test_401_is_counted_by_its_route(clients: Clients) -> None:
    clients[None].get("/collections")
    assert 'path="/collections",status_code="401"' in clients["reader"].get("/metrics").text
