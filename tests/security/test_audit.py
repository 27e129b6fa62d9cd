"""The audit line: who wrote what, how much, and who was refused."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support.documents import NDJSON_HEADERS, document, lines_of
from tests.support.keyed_services import Guarded

SECRET = "Zweig-7719"


def told(keyed: Guarded, http: httpx.Client, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """Send a request, and read its audit line."""
    request_id = uuid4().hex
    if isinstance(body, list):
        headers = {"X-Request-ID": request_id, **NDJSON_HEADERS}
        http.request(method, path, content=lines_of(*body), headers=headers)
    else:
        http.request(method, path, json=body, headers={"X-Request-ID": request_id})
    line = keyed.audited(request_id)
    assert SECRET not in str(line)
    return {key: line[key] for key in ("who", "operation", "collection", "count", "status")}


def test_every_write_is_told_with_who_what_and_how_many(keyed: Guarded, boss: httpx.Client) -> None:
    name = f"t-{uuid4().hex}"
    path = f"/collections/{name}"
    two = {"documents": [document("a", text=SECRET, secret=SECRET), document("b", text=SECRET)]}
    calls: list[tuple[str, str, Any, str, int | None, int]] = [
        ("POST", "/collections", {"name": name, "metadata": {"about": SECRET}}, "createCollection", None, 201),
        ("PUT", f"{path}/metadata", {"metadata": {"about": SECRET}}, "updateCollectionMetadata", None, 200),
        ("POST", f"{path}/documents", two, "addDocuments", 2, 201),
        ("POST", f"{path}/documents", two, "addDocuments", 2, 409),
        ("PUT", f"{path}/documents", two, "upsertDocuments", 2, 200),
        ("POST", f"{path}/documents/stream?mode=upsert", [document("a", text=SECRET)], "streamDocuments", 1, 200),
        ("POST", f"{path}/documents/stream", [document("n"), document("n", text=SECRET)], "streamDocuments", 2, 409),
        ("DELETE", f"{path}/documents?ids=n", None, "deleteDocuments", 1, 200),
        ("DELETE", f"{path}/documents?ids=a&ids=x", None, "deleteDocuments", 1, 200),
        ("POST", f"{path}/documents/delete", {"where": {"secret": SECRET}}, "deleteDocumentsByBody", 0, 200),
        ("DELETE", f"{path}/documents/all", None, "emptyCollection", 1, 200),
        ("DELETE", path, None, "deleteCollection", None, 200),
        ("DELETE", path, None, "deleteCollection", None, 404),
    ]

    for method, where, body, operation, count, status in calls:
        assert told(keyed, boss, method, where, body) == {
            "who": "boss",
            "operation": operation,
            "collection": name,
            "count": count,
            "status": status,
        }


def test_a_request_without_a_key_is_told_as_anonymous(keyed: Guarded, nobody: httpx.Client) -> None:
    line = told(keyed, nobody, "POST", "/collections/repo_a/query", {"query_embedding": [1, 0]})
    assert line == {
        "who": "anonymous",
        "operation": "queryCollection",
        "collection": "repo_a",
        "count": None,
        "status": 401,
    }


def test_a_role_that_is_not_enough_is_told(keyed: Guarded, clients: dict[str | None, httpx.Client]) -> None:
    line = told(keyed, clients["reader"], "DELETE", "/collections/repo_a")
    assert (line["who"], line["operation"], line["status"]) == ("reader", "deleteCollection", 403)


def test_a_hidden_collection_is_told_though_the_answer_says_404(keyed: Guarded, guest: httpx.Client) -> None:
    line = told(keyed, guest, "GET", "/collections/secret/documents")
    assert (line["who"], line["collection"], line["status"]) == ("guest", "secret", 404)


def test_a_creation_outside_the_patterns_is_told(keyed: Guarded, team: httpx.Client) -> None:
    line = told(keyed, team, "POST", "/collections", {"name": "elsewhere"})
    assert (line["who"], line["collection"], line["status"]) == ("team", "elsewhere", 403)


def test_hidden_collections_of_a_query_over_several_are_counted(keyed: Guarded, guest: httpx.Client) -> None:
    body = {"collections": ["repo_a", "secret", "shared"], "query_embedding": [1, 0]}
    assert told(keyed, guest, "POST", "/query", body)["count"] == 2


@pytest.mark.parametrize("path", ["/collections", "/collections/repo_a/documents", "/health"])
def test_a_read_that_is_allowed_leaves_no_audit_line(keyed: Guarded, boss: httpx.Client, path: str) -> None:
    read, write = uuid4().hex, uuid4().hex
    boss.get(path, headers={"X-Request-ID": read})
    boss.delete("/collections/absent", headers={"X-Request-ID": write})
    keyed.audited(write)
    assert keyed.lines("audit", read) == []
