"""The contract's section "Service", with Chroma available."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from tests.support.documents import add, document, documents_path
from tests.support.problems import problem_of
from tests.support.servers import Served

pytestmark = pytest.mark.process

BODY_MAX = 64 * 1024 * 1024


def test_the_root_has_name_version_and_links(http: httpx.Client) -> None:
    response = http.get("/")

    assert response.status_code == 200
    assert response.json()["name"] == "ragstore"
    assert re.match(r"\d+\.\d+", response.json()["version"])
    assert response.json()["links"]


def test_every_link_of_the_root_leads_somewhere(http: httpx.Client) -> None:
    links = http.get("/").json()["links"]

    statuses = {path: http.get(path, follow_redirects=True).status_code for path in links.values()}

    assert set(statuses.values()) == {200}, statuses


def test_health_reports_a_healthy_service(http: httpx.Client, collection: str) -> None:
    response = http.get("/health")

    assert response.status_code == 200
    health = response.json()
    assert health["status"] == "healthy"
    assert health["version"] == http.get("/").json()["version"]
    assert health["collections_count"] == http.get("/collections").json()["total"]
    assert "error" not in health


def test_health_has_a_size_or_the_schema_says_why_not(http: httpx.Client, collection: str) -> None:
    details = http.get("/health").json()["details"]
    schema = http.get("/openapi.json").json()["components"]["schemas"]["HealthDetails"]["properties"]["storage_bytes"]

    if details["store"] == "embedded":
        assert details["storage_bytes"] > 0
    else:
        assert details["storage_bytes"] is None
        assert "Null over a Chroma server" in schema["description"]


def test_health_has_the_time_of_the_check(http: httpx.Client) -> None:
    timestamp = datetime.fromisoformat(http.get("/health").json()["timestamp"])

    assert abs(datetime.now(UTC) - timestamp) < timedelta(minutes=1)


def test_health_has_details_of_the_store(http: httpx.Client, service: Served) -> None:
    details = http.get("/health").json()["details"]

    assert details["store"] in ("embedded", "remote")
    assert re.match(r"\d+\.\d+", details["chroma_version"])


def test_liveness(http: httpx.Client) -> None:
    response = http.get("/health/live")

    assert (response.status_code, response.json()["status"]) == (200, "alive")


def test_readiness(http: httpx.Client) -> None:
    response = http.get("/health/ready")

    assert (response.status_code, response.json()["status"]) == (200, "ready")


def test_metrics_are_for_prometheus(http: httpx.Client) -> None:
    http.get("/collections")

    response = http.get("/metrics")

    assert response.status_code == 200
    assert response.headers["content-type"].startswith(("text/plain", "application/openmetrics-text"))
    assert re.search(r'^ragstore_requests_total\{.*path="/collections".*\}', response.text, re.MULTILINE)


def test_metrics_name_routes_and_not_documents(http: httpx.Client, collection: str) -> None:
    add(http, collection, document("an-id-of-its-own"))
    http.get(f"{documents_path(collection)}/an-id-of-its-own")

    text = http.get("/metrics").text

    assert "an-id-of-its-own" not in text
    assert collection not in text


def test_the_openapi_document_has_every_route(http: httpx.Client) -> None:
    document = http.get("/openapi.json").json()

    assert document["openapi"].startswith("3.1")
    assert {
        "/",
        "/health",
        "/health/live",
        "/health/ready",
        "/query",
        "/collections",
        "/collections/{collection_name}",
        "/collections/{collection_name}/metadata",
        "/collections/{collection_name}/metadata-values",
        "/collections/{collection_name}/documents",
        "/collections/{collection_name}/documents/filter",
        "/collections/{collection_name}/documents/delete",
        "/collections/{collection_name}/documents/all",
        "/collections/{collection_name}/documents/{document_id}",
        "/collections/{collection_name}/query",
        "/collections/{collection_name}/map",
    } <= set(document["paths"])


def test_a_document_is_read_by_one_operation_of_the_openapi_document(http: httpx.Client) -> None:
    paths = http.get("/openapi.json").json()["paths"]

    reading = {
        path: item["get"]["operationId"]
        for path, item in paths.items()
        if path.startswith("/collections/{collection_name}/documents/") and "get" in item
    }
    assert reading == {"/collections/{collection_name}/documents/{document_id}": "getDocument"}


def test_the_documentation_is_a_page(http: httpx.Client) -> None:
    response = http.get("/docs", follow_redirects=True)

    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("path", ["/nowhere", "/collections/abc/nowhere", "/health/nowhere", "/collection", "/query/x"])
def test_an_unknown_route_is_404(http: httpx.Client, path: str) -> None:
    problem_of(http.get(path), 404)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", "/collections"),
        ("DELETE", "/collections"),
        ("POST", "/collections/abc"),
        ("GET", "/collections/abc/query"),
        ("GET", "/query"),
        ("POST", "/health"),
        ("PATCH", "/collections/abc/documents/some-id"),
        ("GET", "/collections/abc/metadata"),
    ],
)
def test_a_wrong_method_is_405_with_the_allowed_ones(http: httpx.Client, method: str, path: str) -> None:
    response = http.request(method, path)

    problem_of(response, 405)
    assert response.headers["allow"]
    assert method not in response.headers["allow"].split(", ")


@pytest.mark.parametrize("word", ["all", "delete", "filter", "stream"])
def test_the_methods_of_a_path_are_those_of_the_openapi_document(
    http: httpx.Client, collection: str, word: str
) -> None:
    path = "/collections/{collection_name}/documents/" + word
    documented = http.get("/openapi.json").json()["paths"][path]

    response = http.options(path.format(collection_name=collection))

    allowed = {method.lower() for method in response.headers["allow"].split(", ")}
    assert allowed == {*documented, "options"}


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/xml",
        "nonsense",
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/collections"),
        ("PUT", "/collections/abc/metadata"),
        ("POST", "/collections/abc/documents"),
        ("PUT", "/collections/abc/documents"),
        ("POST", "/collections/abc/documents/filter"),
        ("POST", "/collections/abc/documents/delete"),
        ("POST", "/collections/abc/query"),
        ("POST", "/query"),
    ],
)
def test_a_wrong_content_type_is_415(http: httpx.Client, method: str, path: str, content_type: str) -> None:
    response = http.request(method, path, content="{}", headers={"Content-Type": content_type})

    assert "application/json" in problem_of(response, 415)["detail"]


def test_a_body_that_is_too_large_is_413(http: httpx.Client, collection: str) -> None:
    response = http.post(documents_path(collection), content=b" " * (BODY_MAX + 1))

    problem_of(response, 413)


def test_a_body_that_grows_too_large_is_413(http: httpx.Client, collection: str) -> None:
    def growing() -> Iterator[bytes]:
        for _ in range(BODY_MAX // 2**20 + 2):
            yield b" " * 2**20

    response = http.post(documents_path(collection), content=growing())

    problem_of(response, 413)
