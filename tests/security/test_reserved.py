"""Collections of a reserved prefix belong to the gateway: only keys that name the prefix write them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from ragstore.store.name_scope import NameScope
from tests.security.conftest import COLLECTIONS, RESERVED
from tests.security.test_scopes import ON_COLLECTION, QUERY
from tests.support.documents import add, document
from tests.support.keyed_services import KeyedService, send
from tests.support.problems import problem_of
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, running, start_service
from tests.support.transfers import ragstore

WRITES: list[tuple[str, str, Any]] = [
    ("PUT", "/collections/NAME/metadata", {"metadata": {}}),
    ("DELETE", "/collections/NAME", None),
    ("POST", "/collections/NAME/rebuild", None),
    ("POST", "/collections/NAME/documents", {"documents": [document("new")]}),
    ("PUT", "/collections/NAME/documents", {"documents": [document("secret")]}),
    ("PATCH", "/collections/NAME/documents", {"documents": [{"id": "secret", "metadata": {"a": 1}}], "mode": "merge"}),
    ("POST", "/collections/NAME/documents/stream", [document("new")]),
    ("POST", "/collections/NAME/documents/stream?mode=upsert", [document("secret")]),
    ("DELETE", "/collections/NAME/documents?ids=secret", None),
    ("POST", "/collections/NAME/documents/delete", {"ids": ["secret"]}),
    ("DELETE", "/collections/NAME/documents/all", None),
]

READS = [each for each in ON_COLLECTION if each[:2] not in {write[:2] for write in WRITES}]

HIDDEN_FROM = ("reader", "writer", "star")


def state(keyed: KeyedService) -> Any:
    """The collection of the gateway and its documents."""
    with keyed.client("gateway") as http:
        found = http.get(f"/collections/{RESERVED}").json()
        return found, http.get(f"/collections/{RESERVED}/documents").json()


@pytest.mark.parametrize(("method", "path", "body"), [*READS, *WRITES])
@pytest.mark.parametrize("key", HIDDEN_FROM)
def test_for_a_key_that_does_not_name_the_prefix_such_a_collection_is_like_a_missing_one(
    keyed: KeyedService, clients: dict[str | None, httpx.Client], key: str, method: str, path: str, body: Any
) -> None:
    before = state(keyed)
    hidden = send(clients[key], method, path, body, RESERVED)
    absent = send(clients[key], method, path, body, "kb_absent")
    assert hidden.status_code in (403, 404)
    assert hidden.text.replace(RESERVED, "kb_absent") == absent.text
    assert (hidden.status_code, hidden.headers.keys()) == (absent.status_code, absent.headers.keys())
    assert state(keyed) == before


@pytest.mark.parametrize("key", HIDDEN_FROM)
def test_such_collections_are_absent_from_lists_counts_and_queries(
    clients: dict[str | None, httpx.Client], key: str
) -> None:
    http = clients[key]
    listed = http.get("/collections").json()
    names = [found["name"] for found in listed["collections"]]
    assert (set(COLLECTIONS) <= set(names), RESERVED in names) == (True, False)
    assert listed["total"] == len(names)
    assert http.get("/health").json()["collections_count"] == len(names)
    found = http.post("/query", json={"collections": ["repo_a", RESERVED, "kb_absent"], **QUERY}).json()
    assert [error["code"] for error in found["errors"]] == ["collection_not_found"] * 2
    assert [hit["id"] for hit in found["results"]] == ["repo_a"]


@pytest.mark.parametrize("key", ["writer", "star"])
def test_a_creation_is_403_whether_or_not_the_collection_exists(
    clients: dict[str | None, httpx.Client], key: str
) -> None:
    existing = clients[key].post("/collections", json={"name": RESERVED, "get_or_create": True})
    unused = clients[key].post("/collections", json={"name": "kb_unused", "get_or_create": True})
    assert problem_of(existing, 403) == problem_of(unused, 403)
    assert clients["gateway"].get("/collections/kb_unused").status_code == 404


@pytest.mark.parametrize("key", ["admin", "initial", "agent", "restore", "gateway"])
def test_admins_and_keys_that_name_the_prefix_read_such_collections(
    clients: dict[str | None, httpx.Client], key: str
) -> None:
    http = clients[key]
    assert RESERVED in [found["name"] for found in http.get("/collections").json()["collections"]]
    assert http.get(f"/collections/{RESERVED}/documents").json()["total"] == 1
    assert http.post(f"/collections/{RESERVED}/query", json=QUERY).json()["count"] == 1
    assert http.get("/health").json()["collections_count"] >= 1


@pytest.mark.parametrize(("method", "path", "body"), [*WRITES, ("POST", "/collections", {"name": "NAME"})])
@pytest.mark.parametrize("key", ["admin", "initial"])
def test_an_admin_whose_patterns_do_not_name_the_prefix_writes_nothing(
    keyed: KeyedService, clients: dict[str | None, httpx.Client], key: str, method: str, path: str, body: Any
) -> None:
    before = state(keyed)
    problem = problem_of(send(clients[key], method, path, body, RESERVED), 403)
    assert problem["code"] == "collection_reserved"
    assert "a pattern that begins with the prefix" in problem["detail"]
    assert state(keyed) == before


def test_a_reader_that_names_the_prefix_writes_nothing(clients: dict[str | None, httpx.Client]) -> None:
    for method, path, body in WRITES:
        problem_of(send(clients["agent"], method, path, body, RESERVED), 403)


@pytest.mark.parametrize("key", ["gateway", "restore"])
def test_a_key_that_names_the_prefix_creates_writes_and_deletes(
    clients: dict[str | None, httpx.Client], key: str
) -> None:
    http, name = clients[key], f"kb_{uuid4().hex}"
    assert http.post("/collections", json={"name": name}).status_code == 201
    add(http, name, document("a"))
    updated = http.put(f"/collections/{name}/metadata", json={"metadata": {"x": 1}})
    assert updated.status_code == 200
    assert http.post(f"/collections/{name}/documents/delete", json={"ids": ["a"]}).json()["count"] == 1
    assert http.delete(f"/collections/{name}").status_code == 200


def test_health_tells_a_key_whether_it_may_write_such_collections(clients: dict[str | None, httpx.Client]) -> None:
    for key, expected in (("gateway", True), ("restore", True), ("agent", True), ("admin", False), ("star", False)):
        details = clients[key].get("/health").json()["details"]
        assert details["reserved_prefixes"] == {"kb_": expected}, key


@pytest.fixture(scope="module")
@starts_process
def open_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A store without keys, whose folder has a collection of the gateway."""
    folder = tmp_path_factory.mktemp("open")
    none = {"RAGSTORE_RESERVED_PREFIXES": "none"}
    with running(start_service(folder, none)) as served, httpx.Client(base_url=served.url) as http:
        http.post("/collections", json={"name": RESERVED}).raise_for_status()
        add(http, RESERVED, document("secret"))
        assert http.get("/health").json()["details"]["reserved_prefixes"] == {}
    with running(start_service(folder)) as served:
        yield served


@pytest.mark.parametrize(("method", "path", "body"), [*WRITES, ("POST", "/collections", {"name": "NAME"})])
def test_without_keys_such_collections_are_read_only(open_service: Served, method: str, path: str, body: Any) -> None:
    with httpx.Client(base_url=open_service.url) as http:
        assert problem_of(send(http, method, path, body, RESERVED), 403)["code"] == "collection_reserved"
        assert http.get(f"/collections/{RESERVED}/documents").json()["total"] == 1
        assert http.post("/query", json={"collections": [RESERVED], **QUERY}).json()["count"] == 1
        assert http.get("/collections").json()["total"] == 1
        assert http.get("/health").json()["details"]["storage_bytes"] > 0


@pytest.mark.parametrize(
    ("patterns", "reads_reserved", "visible", "writable"),
    [
        (None, False, ["repo"], ["repo"]),
        (None, True, ["kb_a", "kb_b", "repo"], ["repo"]),
        (["*"], False, ["repo"], ["repo"]),
        (["k*"], False, [], []),
        (["k*"], True, ["kb_a", "kb_b"], []),
        (["kb?*", "[k]b_*"], False, [], []),
        (["kb_a*"], False, ["kb_a"], ["kb_a"]),
        (["kb_a*", "*"], False, ["kb_a", "repo"], ["kb_a", "repo"]),
        (["kb_a*", "*"], True, ["kb_a", "kb_b", "repo"], ["kb_a", "repo"]),
        (["KB_*"], False, [], []),
    ],
)
def test_a_pattern_names_a_prefix_if_it_begins_with_it(
    patterns: list[str] | None, reads_reserved: bool, visible: list[str], writable: list[str]
) -> None:
    scope = NameScope(patterns, ("kb_",), reads_reserved=reads_reserved)
    names = ("kb_a", "kb_b", "repo")
    assert [name for name in names if scope.is_visible(name)] == visible
    assert [name for name in names if scope.is_writable(name)] == writable


def test_an_export_of_a_reader_and_an_import_of_an_admin_that_name_the_prefix_work(
    keyed: KeyedService, tmp_path: Path
) -> None:
    url, file, name = keyed.served.url, tmp_path / "base.jsonl", f"kb_{uuid4().hex}"
    exported = ragstore("export", RESERVED, file, "--url", url, RAGSTORE_API_KEY=keyed.keys["agent"])
    assert exported.exit_code == 0, exported
    refused = ragstore("import", file, "--into", name, "--url", url, RAGSTORE_API_KEY=keyed.keys["admin"])
    assert refused.exit_code == 1
    assert "reserved for the gateway" in refused.output
    imported = ragstore("import", file, "--into", name, "--url", url, RAGSTORE_API_KEY=keyed.keys["restore"])
    assert imported.exit_code == 0, imported
    with keyed.client("gateway") as http:
        assert http.get(f"/collections/{name}").json()["count"] == 1
        assert http.delete(f"/collections/{name}").status_code == 200
