"""The OpenAPI document describes the calls of configurations as they are."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from tests.support.servers import Served

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def document(gateway: Served) -> Any:
    return httpx.get(f"{gateway.url}/openapi.json").raise_for_status().json()


@pytest.mark.parametrize(("kind", "name"), [("rags", "KnowledgeBase"), ("assistants", "Assistant")])
def test_each_call_has_its_statuses_and_its_body(document: Any, kind: str, name: str) -> None:
    collection, item = (document["paths"][f"/ragstore/{kind}{suffix}"] for suffix in ("", "/{id}"))
    body = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
    for operation, status, problems in (
        (collection["post"], "201", {"400", "403", "409", "503"}),
        (item["get"], "200", {"404", "503"}),
        (item["put"], "200", {"400", "403", "404", "409", "503"}),
        (item["post"], "201", {"403", "404", "409", "503"}),
    ):
        assert operation["responses"][status]["content"] == body
        assert problems <= operation["responses"].keys()
    assert {"403", "404", "409"} <= item["delete"]["responses"].keys()
    assert "content" not in item["delete"]["responses"]["200"]
    for operation in (collection["post"], item["put"]):
        assert operation["requestBody"]["content"] == body
    assert "requestBody" not in item["post"]


@pytest.mark.parametrize("kind", ["rags", "assistants"])
def test_each_write_documents_the_headers_with_its_path(document: Any, kind: str) -> None:
    paths = document["paths"]
    for operation, status in (
        (paths[f"/ragstore/{kind}"]["post"], "201"),
        (paths[f"/ragstore/{kind}/{{id}}"]["put"], "200"),
        (paths[f"/ragstore/{kind}/{{id}}"]["post"], "201"),
    ):
        headers = operation["responses"][status]["headers"]
        assert headers.keys() == {"Location", "X-Resource-URI"}
        assert all(header["schema"] == {"type": "string"} for header in headers.values())


def test_the_schema_of_a_configuration_rejects_unknown_fields(document: Any) -> None:
    schemas = document["components"]["schemas"]
    for name in ("KnowledgeBase", "Assistant", "Task", "HttpCall", "KnowledgeBaseReference"):
        assert schemas[name]["additionalProperties"] is False


def test_filters_have_the_schema_of_the_filter_language(document: Any) -> None:
    filters = [
        document["components"]["schemas"]["KnowledgeBase"]["properties"]["where"],
        document["components"]["schemas"]["Task"]["properties"]["where"],
        document["paths"]["/ragstore/rags/{id}/query"]["post"]["requestBody"]["content"]["application/json"]["schema"][
            "properties"
        ]["where"],
    ]
    assert {each["$ref"] for each in filters} == {"#/components/schemas/Where"}
    assert all(each["description"] and each["default"] == {} for each in filters)


def test_the_methods_of_each_path_are_those_of_the_document(gateway: Served, document: Any) -> None:
    with httpx.Client(base_url=gateway.url) as http:
        for path, operations in document["paths"].items():
            response = http.options(re.sub(r"\{\w+\}", "x", path))
            allowed = {method.lower() for method in response.headers["allow"].split(", ")}
            assert allowed == {*operations, "options"}, path
