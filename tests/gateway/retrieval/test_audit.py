"""Audit records of the gateway: key, operation, resource and outcome of each call that may change something."""

from __future__ import annotations

import json
import re
from typing import Any, Final
from uuid import uuid4

import httpx
import pytest

from tests.gateway.retrieval.conftest import Assisted
from tests.support.log_lines import log_line, log_lines
from tests.support.pages import ROOT

pytestmark = pytest.mark.process

READS: Final = {
    "createChatCompletion",
    "createResponse",
    "createEmbeddings",
    "embed",
    "extractPages",
    "previewSource",
    "queryKnowledgeBase",
    "retrieve",
    "searchVectorStore",
    "summarize",
    "verifyAuditLedger",
}
"""Operations that change nothing although their method is POST. A summary that is stored records its write itself."""

CANARY: Final = "CANARY-TEXT-AUDIT"


def operations() -> list[tuple[str, str, str]]:
    """Operation id, method and path of each operation that is no GET."""
    paths = json.loads((ROOT / "openapi/gateway.json").read_text())["paths"]
    return [
        (operation["operationId"], method.upper(), re.sub(r"\{[^}]*\}", "absent", path))
        for path, methods in paths.items()
        for method, operation in methods.items()
        if method in ("post", "put", "patch", "delete")
    ]


def audit_of(assisted: Assisted, request_id: str) -> dict[str, Any]:
    """The audit record of a request, without what every line has."""
    line = log_line(assisted.served.log, "audit", request_id=request_id)
    return {name: line[name] for name in ("who", "operation", "resource", "count", "status")}


def call(assisted: Assisted, method: str, path: str, key: str = "root", **options: Any) -> tuple[str, httpx.Response]:
    """Send a request with an id of its own."""
    request_id = uuid4().hex
    headers = {"X-Request-ID": request_id, **options.pop("headers", {})}
    return request_id, assisted.call(key, method, path, headers=headers, **options)


def test_each_operation_that_may_change_something_is_audited_also_when_it_fails(assistant_gateway: Assisted) -> None:
    sent = {
        (operation, path): call(assistant_gateway, method, path)
        for operation, method, path in operations()
        if operation not in READS
    }
    for (operation, path), (request_id, response) in sent.items():
        # The upstream of these tests accepts any call below a model or a response.
        assert response.status_code >= 400 or operation in ("callResponse", "deleteModel", "deleteResponse"), operation
        assert audit_of(assistant_gateway, request_id) == {
            "who": "root",
            "operation": operation,
            "resource": path.lstrip("/"),
            "count": None,
            "status": response.status_code,
        }


def test_a_read_with_a_body_has_no_audit_record(assistant_gateway: Assisted) -> None:
    reads = [call(assistant_gateway, method, path) for operation, method, path in operations() if operation in READS]
    marker, _ = call(assistant_gateway, "DELETE", "/ragstore/rags/absent")
    audit_of(assistant_gateway, marker)
    assert len(reads) >= len(READS)
    assert [log_lines(assistant_gateway.served.log, "audit", request_id=request_id) for request_id, _ in reads] == [
        [] for _ in reads
    ]


def test_the_life_of_a_base_is_audited_with_the_ids_that_it_made(assistant_gateway: Assisted) -> None:
    name = f"audited-{uuid4().hex}"
    created, response = call(assistant_gateway, "POST", "/ragstore/rags", json={"name": name})
    path = response.headers["Location"].partition("?")[0]
    base = path.removeprefix("/")
    updated, _ = call(assistant_gateway, "PUT", f"{path}?version=1", json={"name": name, "description": CANARY})
    text: dict[str, Any] = {"content": CANARY.encode(), "headers": {"Content-Type": "text/plain"}}
    ingested, _ = call(assistant_gateway, "POST", f"{path}/ingest?documentName=k0.txt", **text)
    lines = "".join(json.dumps({"documentName": each, "text": CANARY}) + "\n" for each in ("a.txt", "b.txt"))
    batch, _ = call(
        assistant_gateway,
        "POST",
        f"{path}/ingest/batch",
        content=lines,
        headers={"Content-Type": "application/x-ndjson"},
    )
    denied, _ = call(assistant_gateway, "DELETE", f"{path}/documents/k0.txt", key="ann")
    deleted, _ = call(assistant_gateway, "DELETE", f"{path}/documents/k0.txt")
    removed, _ = call(assistant_gateway, "DELETE", f"{path}?permanent=true")
    expected = {
        created: ("root", "createKnowledgeBase", f"{base}?version=1", None, 201),
        updated: ("root", "updateKnowledgeBase", f"{base}?version=2", None, 200),
        ingested: ("root", "ingestDocument", f"{base}/documents/k0.txt", 1, 202),
        batch: ("root", "ingestDocuments", f"{base}/documents", 2, 202),
        denied: ("ann", "deleteKnowledgeBaseDocument", f"{base}/documents/k0.txt", None, 403),
        deleted: ("root", "deleteKnowledgeBaseDocument", f"{base}/documents/k0.txt", None, 204),
        removed: ("root", "deleteKnowledgeBase", base, None, 200),
    }
    found = {request_id: tuple(audit_of(assistant_gateway, request_id).values()) for request_id in expected}
    assert found == expected
    assert CANARY not in assistant_gateway.served.log.read_text()


def test_files_of_vector_stores_are_audited_with_their_ids(assistant_gateway: Assisted) -> None:
    stored, response = call(
        assistant_gateway,
        "POST",
        "/v1/files",
        files={"file": ("tea.txt", b"tea", "text/plain")},
        data={"purpose": "assistants"},
    )
    file = response.json()["id"]
    created, response = call(assistant_gateway, "POST", "/v1/vector_stores", json={"name": f"audited-{uuid4().hex}"})
    store = response.json()["id"]
    attached, _ = call(assistant_gateway, "POST", f"/v1/vector_stores/{store}/files", json={"file_id": file})
    deleted, _ = call(assistant_gateway, "DELETE", f"/v1/files/{file}")
    expected = {
        stored: ("createFile", f"v1/files/{file}"),
        created: ("createVectorStore", f"v1/vector_stores/{store}"),
        attached: ("createVectorStoreFile", f"v1/vector_stores/{store}/files/{file}"),
        deleted: ("deleteFile", f"v1/files/{file}"),
    }
    for request_id, (operation, resource) in expected.items():
        found = audit_of(assistant_gateway, request_id)
        assert (found["operation"], found["resource"]) == (operation, resource)


def test_a_request_without_a_key_is_audited_as_anonymous(assistant_gateway: Assisted) -> None:
    request_id, _ = call(assistant_gateway, "DELETE", "/ragstore/rags/absent", key="")
    assert audit_of(assistant_gateway, request_id)["who"] == "anonymous"
