"""Every kind of problem that a caller can cause carries its code."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from ragstore.errors import CODES
from tests.support.documents import add, document, documents_path
from tests.support.problems import problem_of
from tests.support.servers import Served, running, start_service

pytestmark = pytest.mark.process

NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/collections", {"name": 7}, 400, "invalid_request"),
        ("POST", "/collections", {"name": "a b c"}, 400, "invalid_name"),
        ("POST", "/collections", {"name": "abc", "metadata": {"$a": 1}}, 400, "invalid_metadata"),
        ("POST", "{}/documents", {"documents": []}, 400, "invalid_documents"),
        ("POST", "{}/documents", {"documents": [document("new", embedding=[1, 2, 3])]}, 400, "dimension_mismatch"),
        ("POST", "{}/documents/filter", {"where": {"a": {"$like": 1}}}, 400, "invalid_filter"),
        ("POST", "{}/query", {"query_embedding": [1, 0], "top_k": "5"}, 400, "invalid_request"),
        ("POST", "{}/map", {"points": 0}, 400, "invalid_request"),
        ("GET", "/collections?limit=none", None, 400, "invalid_request"),
        ("GET", "/nowhere", None, 404, "not_found"),
        ("GET", "/collections/nowhere", None, 404, "collection_not_found"),
        ("GET", "{}/documents/nowhere", None, 404, "document_not_found"),
        ("DELETE", "/collections", None, 405, "method_not_allowed"),
        ("POST", "/collections", {"name": "{name}"}, 409, "collection_exists"),
        ("POST", "{}/documents", {"documents": [document("kept")]}, 409, "documents_exist"),
    ],
)
def test_a_problem_carries_its_code(
    http: httpx.Client, untouched: str, method: str, path: str, body: object, status: int, code: str
) -> None:
    content = None if body is None else json.dumps(body).replace("{name}", untouched)

    response = http.request(method, path.replace("{}", f"/collections/{untouched}"), content=content)

    assert problem_of(response, status)["code"] == code


def test_a_body_of_another_media_type_has_its_code(http: httpx.Client) -> None:
    response = http.post("/collections", content="name=a", headers={"Content-Type": "text/plain"})

    assert problem_of(response, 415)["code"] == "unsupported_media_type"


def test_a_collection_that_fails_in_a_query_over_several_has_its_code(http: httpx.Client, untouched: str) -> None:
    response = http.post("/query", json={"query_embedding": [1, 0], "collections": [untouched, "nowhere"]})

    assert [error["code"] for error in response.json()["errors"]] == ["collection_not_found"]


def test_a_request_that_is_not_http_has_its_code(service: Served) -> None:
    parts = urlsplit(service.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=10) as connection:
        connection.sendall(b"no http\r\n\r\n")
        head, _, body = connection.makefile("rb").read().partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert json.loads(body)["code"] == "invalid_http"


@pytest.mark.process
def test_limits_have_codes(tmp_path: Path) -> None:
    limits = {
        "RAGSTORE_MAX_BATCH_SIZE": "1",
        "RAGSTORE_MAX_BODY_BYTES": "300",
        "RAGSTORE_RATE_LIMIT": "5",
        "RAGSTORE_REQUEST_TIMEOUT_SECONDS": "1",
    }
    served = start_service(tmp_path, limits)
    with running(served), httpx.Client(base_url=served.url) as http:
        http.post("/collections", json={"name": "small"}).raise_for_status()
        documents = documents_path("small")
        many = http.post(documents, json={"documents": [document("a"), document("b")]})
        large = http.post(documents, content=b" " * 301)
        line = http.post(f"{documents}/stream", content=b" " * 301 + b"1", headers=NDJSON)
        add(http, "small", document("a"))
        often = http.get("/collections")
        head = _unfinished(served.url, b"GET / HTTP/1.1\r\n")
        body = _unfinished(served.url, b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")

    assert problem_of(many, 400)["code"] == "batch_too_large"
    assert problem_of(large, 413)["code"] == "body_too_large"
    assert problem_of(line, 413)["code"] == "line_too_large"
    assert problem_of(often, 429)["code"] == "rate_limited"
    assert head["code"] == "head_timeout"
    assert body["code"] in ("body_timeout", "not_found")


def _unfinished(url: str, sent: bytes) -> dict[str, str]:
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=10) as connection:
        connection.sendall(sent)
        problem: dict[str, str] = json.loads(connection.makefile("rb").read().partition(b"\r\n\r\n")[2])
        return problem


def test_the_openapi_document_lists_the_codes(http: httpx.Client) -> None:
    schemas = http.get("/openapi.json").json()["components"]["schemas"]

    assert schemas["ProblemCode"]["enum"] == list(CODES)
    assert schemas["Problem"]["properties"]["code"] == {"$ref": "#/components/schemas/ProblemCode"}
    assert "code" in schemas["Problem"]["required"]
