"""The examples of the OpenAPI document work, in their order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from ragstore.api.openapi.examples import BODIES, COLLECTION, LINES, PARAMETERS
from ragstore.api.openapi.examples import DOCUMENT as DOCUMENT_ID

DOCUMENT: dict[str, Any] = json.loads((Path(__file__).parents[2] / "openapi" / "openapi.json").read_text())
SUCCESS = range(200, 300)
NDJSON = "application/x-ndjson"


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            if isinstance(operation, dict) and "operationId" in operation:
                yield path, method, operation


OPERATIONS = {operation["operationId"]: (path, method, operation) for path, method, operation in operations()}
READS = [name for name, (_, method, _) in OPERATIONS.items() if method == "get" and name != "getRebuild"]
"""Operations that read. The state of a rebuild is 404 before one: see `tests/transfer/test_rebuilding.py`."""


def send_example(http: httpx.Client, name: str) -> httpx.Response:
    """Send the examples of an operation."""
    path, method, operation = OPERATIONS[name]
    query: dict[str, str] = {}
    for parameter in operation.get("parameters", []):
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", parameter["example"])
        elif "example" in parameter:
            query[parameter["name"]] = parameter["example"]
        elif "content" in parameter:
            query[parameter["name"]] = json.dumps(parameter["content"]["application/json"]["example"])
    content = operation.get("requestBody", {}).get("content", {})
    if NDJSON in content:
        lines = "".join(json.dumps(line) + "\n" for line in content[NDJSON]["example"])
        return http.request(method, path, params=query, content=lines, headers={"Content-Type": NDJSON})
    return http.request(method, path, params=query, json=content.get("application/json", {}).get("example"))


def conforms(response: httpx.Response, name: str) -> None:
    documented = OPERATIONS[name][2]["responses"][str(response.status_code)]
    content_type = response.headers["content-type"]
    schema = {**documented["content"][content_type]["schema"], "components": DOCUMENT["components"]}
    body = [json.loads(line) for line in response.text.splitlines()] if content_type == NDJSON else response.json()
    jsonschema.Draft202012Validator(schema).validate(body)


@pytest.fixture
def with_examples(http: httpx.Client) -> Iterator[httpx.Client]:
    """A service that received the examples that create a collection and documents."""
    http.delete(f"/collections/{COLLECTION}")
    for name in ("createCollection", "upsertDocuments"):
        assert send_example(http, name).status_code in SUCCESS
    yield http
    http.delete(f"/collections/{COLLECTION}")


def test_every_body_that_is_described_has_an_example() -> None:
    described = {name for name, (_, _, operation) in OPERATIONS.items() if "requestBody" in operation}
    assert described == {*BODIES, *LINES}


@pytest.mark.parametrize("name", [*BODIES, *LINES])
def test_an_example_body_is_accepted_unchanged(with_examples: httpx.Client, name: str) -> None:
    response = send_example(with_examples, name)
    assert response.status_code in SUCCESS, response.text
    conforms(response, name)


@pytest.mark.parametrize("name", READS)
def test_a_read_returns_the_documented_example(with_examples: httpx.Client, name: str) -> None:
    response = send_example(with_examples, name)
    assert response.status_code in SUCCESS, response.text
    conforms(response, name)


def test_the_query_of_the_examples_finds_their_document(with_examples: httpx.Client) -> None:
    found = send_example(with_examples, "queryCollection").json()
    assert [hit["id"] for hit in found["results"]] == [DOCUMENT_ID]


def test_the_collection_and_document_of_the_parameters_are_those_of_the_bodies() -> None:
    assert PARAMETERS["collection_name"] == BODIES["createCollection"]["name"]
    assert PARAMETERS["document_id"] == BODIES["upsertDocuments"]["documents"][0]["id"]


@pytest.mark.parametrize("schema", list(DOCUMENT["components"]["schemas"]))
def test_the_examples_of_a_schema_are_of_it(schema: str) -> None:
    described = DOCUMENT["components"]["schemas"][schema]
    whole = {"$ref": f"#/components/schemas/{schema}", "components": DOCUMENT["components"]}
    for example in described.get("examples", []):
        jsonschema.Draft202012Validator(whole).validate(example)
