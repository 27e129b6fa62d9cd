"""Each faulty request gets a sentence that its sender can act on, with the path of the field."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest

from ragstore_gateway.configurations.name_characters import RULE
from tests.gateway.knowledge.conftest import body_of, create
from tests.support.problems import assert_problem
from tests.support.servers import Served

pytestmark = pytest.mark.process

CALL: Final = {"url": "https://search.example/"}
RETRIEVE: Final = "/ragstore/retrieve"
BLANK: Final = "Must not be blank"
NAME_OF_DOCUMENT: Final = (
    "Must have no control, bidirectional, separator or invisible characters, no space or slash at either end, and no "
    "steps . and .. between its slashes"
)

MESSAGES: Final[list[tuple[str, str, object, str, str]]] = [
    ("GET", "/search?q=%20", None, "$.q", BLANK),
    ("GET", "/search", None, "$.q", "The query parameter is required"),
    ("GET", "/search?q=x&lang=e%20", None, "$.lang", "Must be a language tag such as sv or pt-BR, or empty"),
    ("GET", "/search?q=x&q=y", None, "$.q", "The query parameter must not be repeated"),
    ("GET", "/search?q=x&n=5", None, "$.n", "Unknown query parameter; known are q, k, lang, rank"),
    ("GET", "/audit?limit=1&limit=2", None, "$.limit", "The query parameter must not be repeated"),
    ("GET", "/conversations/c?x=1", None, "$.x", "Unknown query parameter; known are index, limit"),
    (
        "POST",
        "/summarize",
        {"text": "x", "lang": "e n"},
        "$.lang",
        "Must be a language tag such as sv or pt-BR, or empty",
    ),
    ("POST", "/summarize", {"text": " "}, "$.text", BLANK),
    ("POST", "/summarize", {}, "$", "Must have either urls or text"),
    ("POST", "/summarize", {"text": "x", "max_word": 5}, "$.max_word", "Unknown field"),
    ("POST", "/extract", {}, "$.urls", "Required"),
    ("POST", "/extract", {"urls": ["http://x.example/"], "fmt": "html"}, "$.fmt", "Unknown field"),
    ("POST", "/embed", {}, "$.inputs", "Required"),
    ("PUT", "BASE", {"name": "x"}, "$.version", "The query parameter is required"),
    ("GET", "BASE?version=1&version=2", None, "$.version", "The query parameter must not be repeated"),
    ("GET", "BASE?versoin=1", None, "$.versoin", "Unknown query parameter; known are version"),
    ("POST", "BASE/query", {"query": " "}, "$.query", BLANK),
    ("POST", "BASE/query", {"query": "x", "minScore": "0.5"}, "$.minScore", "Expected `float`, got `str`"),
    ("POST", "BASE/query", {"query": "x", "maxResults": "5"}, "$.maxResults", "Expected `int`, got `str`"),
    ("POST", "BASE/query", {"query": "x", "maxresults": 5}, "$.maxresults", "Unknown field"),
    ("POST", "BASE/query", [], "$", "Expected `object`, got `array`"),
    ("POST", RETRIEVE, {"question": " "}, "$.question", BLANK),
    ("POST", RETRIEVE, {"question": "x", "assistant": 5}, "$.assistant", "Expected `str | object`, got `int`"),
    (
        "POST",
        RETRIEVE,
        {"question": "x", "assistant": "a", "base": "b"},
        "$",
        "Must have at most one of assistant and base",
    ),
    ("POST", RETRIEVE, {"question": "x", "maxResults": 5}, "$.maxResults", "Needs base"),
    (
        "POST",
        RETRIEVE,
        {"question": "x", "base": "b", "where": {"owner": "{nobody}"}},
        "$.where.owner",
        "There is no such variable: the variables are {session_id}, {conversation_id}, {user}, {key}",
    ),
    (
        "POST",
        RETRIEVE,
        {"question": "x", "assistant": body_of("assistants", "x", workflow=["nowhere"])},
        "$.assistant.workflow[0]",
        "There is no knowledge base of this name",
    ),
    ("POST", "BASE/ingest?documentName=%20a", {}, "$.documentName", NAME_OF_DOCUMENT),
    ("POST", "BASE/ingest?kbId=%00", {}, "$.kbId", RULE),
    (
        "POST",
        "BASE/ingest?name=a",
        {},
        "$.name",
        "Unknown query parameter; known are version, kbId, documentName, metadata",
    ),
    (
        "POST",
        "/ragstore/assistants",
        body_of("assistants", "x", httpCalls={"search": {**CALL, "headers": {"A": "x", "b c": "x"}}}),
        "$.httpCalls.search.headers.b c",
        "Names of headers must consist of letters, digits and !#$%&'*+.^_`|~-",
    ),
    (
        "POST",
        "/ragstore/assistants",
        body_of("assistants", "x", httpCalls={"search": CALL, "a b": CALL, "c d": CALL}),
        "$.httpCalls.a b",
        "Names must consist of letters, digits, _ and -",
    ),
]
"""Requests, each with the path and the message of its fault. `BASE` is the path of a knowledge base."""


@pytest.fixture(scope="module")
def client(gateway: Served) -> Iterator[httpx.Client]:
    """A client of the shared gateway."""
    with httpx.Client(base_url=gateway.url, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def base(client: httpx.Client) -> str:
    """The path of a knowledge base."""
    return create(client, "rags", "base-of-messages")


def only_error(response: httpx.Response) -> dict[str, Any]:
    """The only field that a problem document blames."""
    (error,) = assert_problem(response, 400, "invalid_request")["errors"]
    found: dict[str, Any] = error
    return found


@pytest.mark.parametrize(("method", "url", "body", "path", "message"), MESSAGES)
def test_a_fault_has_its_path_and_a_sentence(
    client: httpx.Client, base: str, method: str, url: str, body: object, path: str, message: str
) -> None:
    response = client.request(method, url.replace("BASE", base), json=body)
    assert only_error(response) == {"path": path, "message": message}


@pytest.mark.parametrize(
    ("content", "path"),
    [
        (b'{"name": "x", "chunkSize": 1e400}', "$.chunkSize"),
        (b'{"name": "x", "embeddingParameters": {"a": [1, -1e999]}}', "$.embeddingParameters.a[1]"),
    ],
)
def test_a_number_that_is_too_large_is_named(client: httpx.Client, content: bytes, path: str) -> None:
    response = client.post("/ragstore/rags", content=content)
    assert only_error(response) == {"path": path, "message": "Number out of range"}


def test_a_query_has_json_numbers(client: httpx.Client, base: str) -> None:
    response = client.post(f"{base}/query", json={"query": "tea", "minScore": 0, "maxResults": 5.0})
    assert response.json() == {"results": []}


@pytest.mark.parametrize("path", ["/v1/files?page=2", "/health?probe=1", "/health/live?probe=1", "/metrics?name=x"])
def test_openais_routes_and_probes_may_have_unknown_query_parameters(client: httpx.Client, path: str) -> None:
    assert client.get(path).status_code == 200


def test_openais_routes_have_a_parameter_once(client: httpx.Client) -> None:
    response = client.get("/v1/files?limit=1&limit=2")
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "limit"


def test_each_documented_query_parameter_of_one_value_is_known_and_may_be_given_once(client: httpx.Client) -> None:
    for path, operations in client.get("/openapi.json").json()["paths"].items():
        for method, operation in operations.items():
            for name in _query_parameters(operation):
                url = re.sub(r"\{[^}]*\}", "x", path)
                response = client.request(method, url, params=[(name, "1"), (name, "1")])
                assert response.status_code == 400, (method, path, name)
                assert "must not be repeated" in response.text, (method, path, name)


def _query_parameters(operation: dict[str, Any]) -> list[str]:
    given = [each for each in operation.get("parameters", ()) if each["in"] == "query"]
    return [each["name"] for each in given if each["schema"].get("type") != "array"]
