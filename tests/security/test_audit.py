"""Audit lines: the key, the operation and the number of documents of writes, and requests that were rejected."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support.documents import NDJSON_HEADERS, document, lines_of
from tests.support.keyed_services import KeyedService

pytestmark = pytest.mark.process

SECRET = "Zweig-7719"


def audit_line_of(keyed: KeyedService, http: httpx.Client, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """Send a request, and return its audit line."""
    request_id = uuid4().hex
    if isinstance(body, list):
        headers = {"X-Request-ID": request_id, **NDJSON_HEADERS}
        http.request(method, path, content=lines_of(*body), headers=headers)
    else:
        http.request(method, path, json=body, headers={"X-Request-ID": request_id})
    line = keyed.audit_line(request_id)
    assert SECRET not in str(line)
    return {key: line[key] for key in ("who", "operation", "collection", "count", "status")}


def test_every_write_is_audited_with_its_key_operation_and_count(keyed: KeyedService, admin: httpx.Client) -> None:
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
        assert audit_line_of(keyed, admin, method, where, body) == {
            "who": "admin",
            "operation": operation,
            "collection": name,
            "count": count,
            "status": status,
        }


def test_a_request_without_a_key_is_audited_as_anonymous(keyed: KeyedService, anonymous: httpx.Client) -> None:
    line = audit_line_of(keyed, anonymous, "POST", "/collections/repo_a/query", {"query_embedding": [1, 0]})
    assert line == {
        "who": "anonymous",
        "operation": "queryCollection",
        "collection": "repo_a",
        "count": None,
        "status": 401,
    }


def test_a_request_beyond_the_role_of_its_key_is_audited(
    keyed: KeyedService, clients: dict[str | None, httpx.Client]
) -> None:
    line = audit_line_of(keyed, clients["reader"], "DELETE", "/collections/repo_a")
    assert (line["who"], line["operation"], line["status"]) == ("reader", "deleteCollection", 403)


def test_a_request_for_a_hidden_collection_is_audited_with_its_404(keyed: KeyedService, guest: httpx.Client) -> None:
    line = audit_line_of(keyed, guest, "GET", "/collections/secret/documents")
    assert (line["who"], line["collection"], line["status"]) == ("guest", "secret", 404)


def test_a_creation_outside_the_patterns_is_audited(keyed: KeyedService, team: httpx.Client) -> None:
    line = audit_line_of(keyed, team, "POST", "/collections", {"name": "elsewhere"})
    assert (line["who"], line["collection"], line["status"]) == ("team", "elsewhere", 403)


def test_hidden_collections_of_a_query_over_several_are_counted(keyed: KeyedService, guest: httpx.Client) -> None:
    body = {"collections": ["repo_a", "secret", "shared"], "query_embedding": [1, 0]}
    assert audit_line_of(keyed, guest, "POST", "/query", body)["count"] == 2


@pytest.mark.parametrize("path", ["/collections", "/collections/repo_a/documents", "/health"])
def test_a_read_that_is_allowed_leaves_no_audit_line(keyed: KeyedService, admin: httpx.Client, path: str) -> None:
    read, write = uuid4().hex, uuid4().hex
    admin.get(path, headers={"X-Request-ID": read})
    admin.delete("/collections/absent", headers={"X-Request-ID": write})
    keyed.audit_line(write)
    assert keyed.log_lines("audit", read) == []
