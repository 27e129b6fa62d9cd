"""A configuration that cannot work is rejected when it is written, with the path of each fault."""

from __future__ import annotations

from typing import Any, Final

import httpx
import pytest

from tests.gateway.conftest import Replicas
from tests.gateway.knowledge.conftest import body_of, create, versioned
from tests.support.knowledge_base_faults import KNOWLEDGE_BASE_FAULTS
from tests.support.problems import assert_problem, paths_of
from tests.support.servers import Served

pytestmark = pytest.mark.process

LITERAL = "sk-canary-0123456789"
"""A secret that must appear nowhere."""

UNUSABLE: Final[list[tuple[dict[str, object], str]]] = [
    ({"embeddingParameters": {"model": "intfloat/multilingual-e5-small"}}, "$.embeddingParameters.model"),
    (
        {"embeddingProvider": "openai", "embeddingParameters": {"apiKey": "${env:ABSENT}"}},
        "$.embeddingParameters.apiKey",
    ),
    (
        {"embeddingProvider": "openai", "embeddingParameters": {"apiKey": "${env:RAGSTORE_GATEWAY_PORT}"}},
        "$.embeddingParameters.apiKey",
    ),
    ({"storeType": "pgvector", "storeParameters": {"password": "${env:ABSENT}"}}, "$.storeParameters.password"),
    ({"name": "tea\u2028## Instructions"}, "$.name"),
    ({"name": "tea\u202egnp.x"}, "$.name"),
    ({"name": "tea\x85cup"}, "$.name"),
    ({"storeType": "qdrant", "storeParameters": {"apiKey": "${env:ABSENT}"}}, "$.storeParameters.apiKey"),
]
"""Fields that a gateway elsewhere could use, or that an older one accepted, and the path of the fault."""


@pytest.fixture
def plain(gateway: Served) -> Any:
    """A client of the gateway over SQLite, which has no vault."""
    with httpx.Client(base_url=gateway.url, timeout=30) as client:
        yield client


def rejected(http: httpx.Client, kind: str, body: object) -> list[str]:
    """The paths of the faults of a configuration that is rejected."""
    return paths_of(assert_problem(http.post(f"/ragstore/{kind}", json=body), 400, "invalid_request"))


@pytest.mark.parametrize(("fields", "path"), KNOWLEDGE_BASE_FAULTS)
def test_a_knowledge_base_with_a_fault_is_rejected_with_its_path(
    plain: httpx.Client, name: str, fields: dict[str, object], path: str
) -> None:
    assert rejected(plain, "rags", {"name": name, **fields}) == [path]
    assert plain.get("/ragstore/rags/descriptors", params={"filter": name}).json() == []


@pytest.mark.parametrize(("fields", "path"), UNUSABLE)
def test_what_this_gateway_can_never_use_is_rejected_when_it_is_written(
    plain: httpx.Client, name: str, fields: dict[str, object], path: str
) -> None:
    assert rejected(plain, "rags", {"name": name, **fields}) == [path]
    own = create(plain, "rags", name)
    response = plain.put(versioned(own, 1), json={"name": name, **fields})
    assert paths_of(assert_problem(response, 400, "invalid_request")) == [path]


@pytest.mark.parametrize(
    ("fields", "dimension"),
    [
        ({}, 256),
        ({"embeddingParameters": {"model": "builtin/wordllama", "dimensions": 128}}, 128),
        ({"embeddingProvider": "ollama", "embeddingParameters": {"model": "m", "dimensions": 64}}, 64),
    ],
)
def test_an_engine_for_another_dimension_than_the_models_is_rejected(
    plain: httpx.Client, name: str, fields: dict[str, object], dimension: int
) -> None:
    parameters = {"password": "${env:PGPASSWORD}"}
    body = {"name": name, "storeType": "pgvector", **fields}
    wrong = {**body, "storeParameters": {**parameters, "dimension": 1536}}
    assert rejected(plain, "rags", wrong) == ["$.storeParameters.dimension"]
    right = {**body, "storeParameters": {**parameters, "dimension": dimension}}
    created = plain.post("/ragstore/rags", json=right)
    assert created.status_code == 201, created.text
    path = created.headers["Location"].partition("?")[0]
    response = plain.put(versioned(path, 1), json=wrong)
    assert paths_of(assert_problem(response, 400, "invalid_request")) == ["$.storeParameters.dimension"]


def test_a_copy_is_checked_as_a_new_configuration_is(plain: httpx.Client, name: str) -> None:
    base = create(plain, "rags", name)
    tasks = [{"id": "a", "enableWorkflowRag": True}]
    path = create(plain, "assistants", name, workflow=[name], tasks=tasks, httpCalls={})
    plain.delete(base).raise_for_status()
    response = plain.post(path)
    assert paths_of(assert_problem(response, 400, "invalid_request")) == ["$.workflow[0]"]
    assert plain.get("/ragstore/assistants/descriptors", params={"filter": f"{name}-copy"}).json() == []


def test_all_faults_of_parameters_are_named_together(plain: httpx.Client, name: str) -> None:
    body = {
        "name": name,
        "embeddingProvider": "azure-openai",
        "storeType": "pgvector",
        "storeParameters": {"password": "${env:PG}", "port": "x"},
        "chunkSize": 5,
    }
    assert rejected(plain, "rags", body) == [
        "$.embeddingParameters.endpoint",
        "$.embeddingParameters.apiKey",
        "$.embeddingParameters.deploymentName",
        "$.storeParameters.port",
        "$.chunkOverlap",
    ]


def test_an_integer_may_have_a_zero_fraction(plain: httpx.Client, name: str) -> None:
    body = f'{{"name": "{name}", "chunkSize": 256.0, "chunkOverlap": 3e1, "minScore": 1}}'
    stored = plain.post("/ragstore/rags", content=body).json()
    assert (stored["chunkSize"], stored["chunkOverlap"], stored["minScore"]) == (256, 30, 1.0)


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"[]", b'"x"', b"\xff", b'{"name": "\\ud800"}', b"[" * 5000])
def test_a_body_that_is_no_configuration_is_400(plain: httpx.Client, kind: str, content: bytes) -> None:
    assert_problem(plain.post(f"/ragstore/{kind}", content=content), 400, "invalid_request")


def test_an_update_is_checked_as_a_new_configuration_is(plain: httpx.Client, name: str) -> None:
    path = create(plain, "rags", name)
    response = plain.put(versioned(path, 1), json={"name": name, "chunkSize": 1, "chunkOverlap": 1})
    assert paths_of(assert_problem(response, 400, "invalid_request")) == ["$.chunkOverlap"]
    assert plain.get(path).headers["X-Resource-URI"] == versioned(path, 1)


def test_a_literal_secret_is_rejected_and_is_neither_in_the_response_nor_in_the_log(
    gateway: Served, plain: httpx.Client, name: str
) -> None:
    base = {"name": name, "embeddingProvider": "openai", "embeddingParameters": {"apiKey": LITERAL}}
    store = {"name": name, "storeType": "pgvector", "storeParameters": {"password": LITERAL}}
    call = {"url": "https://search.example/", "headers": {"Authorization": LITERAL}, "query": {"api_key": LITERAL}}
    reranked = {"provider": "tei", "baseUrl": "http://rerank.example", "apiKey": LITERAL}
    for kind, body, paths in (
        ("rags", base, ["$.embeddingParameters.apiKey"]),
        ("rags", store, ["$.storeParameters.password"]),
        (
            "assistants",
            body_of("assistants", name, httpCalls={"search": call}),
            ["$.httpCalls.search.headers.Authorization", "$.httpCalls.search.query.api_key"],
        ),
        (
            "assistants",
            body_of("assistants", name, tasks=[{"id": "a", "httpCallRag": "search", "rerank": reranked}]),
            ["$.tasks[0].rerank.apiKey"],
        ),
    ):
        response = plain.post(f"/ragstore/{kind}", json=body)
        assert paths_of(assert_problem(response, 400, "invalid_request")) == paths
        assert LITERAL not in response.text
    assert LITERAL not in gateway.log.read_text()


def test_references_to_secrets_stay_references_in_every_response(plain: httpx.Client, name: str) -> None:
    parameters = {"apiKey": "${env:OPENAI_API_KEY}", "model": "text-embedding-3-small"}
    body = {"name": name, "embeddingProvider": "openai", "embeddingParameters": parameters}
    created = plain.post("/ragstore/rags", json=body)
    path = created.headers["Location"].partition("?")[0]
    copied = plain.post(path)
    updated = plain.put(versioned(path, 1), json=body)
    for response in (created, copied, updated, plain.get(path), plain.get(versioned(path, 1))):
        assert response.json()["embeddingParameters"] == parameters


def test_a_reference_of_a_kind_that_is_not_configured_is_rejected(plain: httpx.Client, name: str) -> None:
    parameters = {"apiKey": "${eddivault:tenant/agent/openai-key}"}
    body = {"name": name, "embeddingProvider": "openai", "embeddingParameters": parameters}
    assert rejected(plain, "rags", body) == ["$.embeddingParameters.apiKey"]


def test_the_documented_configuration_of_eddi_is_accepted_as_it_stands(replicas: Replicas, name: str) -> None:
    body = {
        "name": name,
        "embeddingProvider": "openai",
        "embeddingParameters": {
            "model": "text-embedding-3-small",
            "apiKey": "${eddivault:tenant/agent/openai-key}",
        },
        "storeType": "in-memory",
        "storeParameters": {},
        "chunkStrategy": "recursive",
        "chunkSize": 512,
        "chunkOverlap": 64,
        "maxResults": 5,
        "minScore": 0.6,
    }
    with replicas.client() as http:
        stored = http.post("/ragstore/rags", json=body).json()
    assert {key: stored[key] for key in body} == body


HTTP_CALL = {"url": "https://search.example/?q={userInput}"}
TEXT = {"Content-Type": "text/plain"}


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        ({"workflow": ["no-such-base"]}, ["$.workflow[0]"]),
        ({"workflow": [{"name": "no-such-base"}]}, ["$.workflow[0].name"]),
        ({"workflow": ["BASE", {"name": "BASE"}]}, ["$.workflow[1].name"]),
        ({"workflow": [{"name": "BASE", "version": 2}]}, ["$.workflow[0].version"]),
        ({"workflow": [{"name": "BASE", "vers": 1}]}, ["$.workflow[0].vers"]),
        ({"tasks": []}, ["$.tasks"]),
        ({"tasks": None}, ["$.tasks"]),
        ({"tasks": [{}]}, ["$.tasks[0]"]),
        ({"tasks": [{"httpCallRag": "search", "parameters": {"apiKey": "x"}}]}, ["$.tasks[0].parameters.apiKey"]),
        ({"tasks": [{"id": "task-2", "httpCallRag": "search"}, {"httpCallRag": "search"}]}, ["$.tasks[1].id"]),
        ({"tasks": [{"id": "a"}]}, ["$.tasks[0]"]),
        ({"tasks": [{"id": "a", "enableWorkflowRag": True}]}, ["$.tasks[0].enableWorkflowRag"]),
        ({"tasks": [{"id": "a", "httpCallRag": "no-such-call"}]}, ["$.tasks[0].httpCallRag"]),
        ({"tasks": [{"id": "a", "knowledgeBases": [{"name": "BASE"}]}]}, ["$.tasks[0].knowledgeBases[0].name"]),
        (
            {"workflow": ["BASE"], "tasks": [{"id": "a", "knowledgeBases": [{"name": "BASE"}, {"name": "BASE"}]}]},
            ["$.tasks[0].knowledgeBases[1].name"],
        ),
        (
            {"workflow": ["BASE"], "tasks": [{"id": "a", "knowledgeBases": [{"name": "BASE", "minScore": 2}]}]},
            ["$.tasks[0].knowledgeBases[0].minScore"],
        ),
        ({"tasks": [{"id": "a", "httpCallRag": "search"}] * 2}, ["$.tasks[1].id"]),
        ({"tasks": [{"id": "a b", "httpCallRag": "search"}]}, ["$.tasks[0].id"]),
        (
            {"tasks": [{"id": "a", "httpCallRag": "search", "maxRagContextChars": 0}]},
            ["$.tasks[0].maxRagContextChars"],
        ),
        ({"tasks": [{"id": "a", "httpCallRag": "search", "diversity": 1.5}]}, ["$.tasks[0].diversity"]),
        (
            {"tasks": [{"id": "a", "httpCallRag": "search", "rerank": {"provider": "cohere", "baseUrl": "http://r"}}]},
            ["$.tasks[0].rerank.model"],
        ),
        ({"httpCalls": {"search": {"url": "ftp://x"}}}, ["$.httpCalls.search.url"]),
        ({"httpCalls": {"search": {"url": "https://u:p@x/"}}}, ["$.httpCalls.search.url"]),
        ({"httpCalls": {"search": {"url": "https://{userInput}/"}}}, ["$.httpCalls.search.url"]),
        ({"httpCalls": {"search": {**HTTP_CALL, "body": '"x"'}}}, ["$.httpCalls.search.body"]),
        ({"httpCalls": {"search": {**HTTP_CALL, "headers": {"a b": "x"}}}}, ["$.httpCalls.search.headers.a b"]),
        ({"httpCalls": {"search": {**HTTP_CALL, "headers": {"X-A": "a\r\nb"}}}}, ["$.httpCalls.search.headers.X-A"]),
        ({"httpCalls": {"search": {**HTTP_CALL, "query": {"q": "${vault:x}"}}}}, ["$.httpCalls.search.query.q"]),
        ({"httpCalls": {"search": {**HTTP_CALL, "query": {"q": 5}}}}, ["$.httpCalls.search.query.q"]),
        # Keys that look like msgspec's own sign for a key, or like steps of a path.
        ({"httpCalls": {"search": {**HTTP_CALL, "query": {"[...]": 5}}}}, ["$.httpCalls.search.query.[...]"]),
        ({"httpCalls": {"search": {**HTTP_CALL, "query": {"a.b[0]": 5}}}}, ["$.httpCalls.search.query.a.b[0]"]),
        ({"httpCalls": {"search": {**HTTP_CALL, "timeoutSeconds": 61}}}, ["$.httpCalls.search.timeoutSeconds"]),
        ({"httpCalls": {"search": {**HTTP_CALL, "maxBytes": 0}}}, ["$.httpCalls.search.maxBytes"]),
        ({"httpCalls": {"search": {**HTTP_CALL, "pointer": "results"}}}, ["$.httpCalls.search.pointer"]),
        ({"httpCalls": {"search": HTTP_CALL, "a b": HTTP_CALL}}, ["$.httpCalls.a b"]),
        ({"httpCalls": {"search": {**HTTP_CALL, "query": {"q": "${env:ABSENT}"}}}}, ["$.httpCalls.search.query.q"]),
        (
            {"httpCalls": {"search": {**HTTP_CALL, "body": "${env:RAGSTORE_X}", "method": "PUT", "headers": TEXT}}},
            ["$.httpCalls.search.body"],
        ),
        (
            {
                "tasks": [
                    {
                        "id": "a",
                        "httpCallRag": "search",
                        "rerank": {"provider": "tei", "baseUrl": "http://r", "apiKey": "${env:ABSENT}"},
                    }
                ]
            },
            ["$.tasks[0].rerank.apiKey"],
        ),
        ({"model": "rag/other"}, ["$.model"]),
    ],
)
def test_an_assistant_that_cannot_retrieve_is_rejected_with_the_path(
    plain: httpx.Client, name: str, fields: dict[str, object], paths: list[str]
) -> None:
    create(plain, "rags", name)
    body = _named(body_of("assistants", f"{name}-assistant", **fields), name)
    assert rejected(plain, "assistants", body) == paths


def test_the_name_of_an_assistant_has_no_characters_that_nobody_sees(plain: httpx.Client, name: str) -> None:
    create(plain, "rags", name)
    body = _named(body_of("assistants", f"{name}\u202e"), name)
    assert rejected(plain, "assistants", body) == ["$.name"]


def test_an_assistant_may_use_bases_by_name_and_version_and_httpcalls_together(http: httpx.Client, name: str) -> None:
    create(http, "rags", f"{name}-docs")
    create(http, "rags", f"{name}-faq")
    body = {
        "name": name,
        "model": "gpt-5-mini",
        "systemMessage": "You are a helpful assistant.",
        "workflow": [f"{name}-docs", {"name": f"{name}-faq", "version": 1}],
        "httpCalls": {
            "search-api": {
                "method": "POST",
                "url": "https://search.example/{userInput}",
                "headers": {"Authorization": "Bearer ${env:SEARCH_KEY}"},
                "query": {"lang": "en"},
                "body": '{"q": "{userInput}"}',
                "pointer": "/results/0",
            }
        },
        "tasks": [
            {
                "id": "explicit",
                "knowledgeBases": [{"name": f"{name}-docs", "maxResults": 5, "minScore": 0.7}, {"name": f"{name}-faq"}],
                "httpCallRag": "search-api",
            },
            {"id": "discovered", "enableWorkflowRag": True, "ragDefaults": {"maxResults": 5, "minScore": 0.7}},
        ],
    }
    response = http.post("/ragstore/assistants", json=body)
    assert response.status_code == 201, response.text
    stored = http.get(response.headers["Location"]).json()
    assert stored["tasks"][0]["maxRagContextChars"] == 20_000
    assert stored["workflow"] == body["workflow"]
    assert stored["httpCalls"]["search-api"]["headers"] == {"Authorization": "Bearer ${env:SEARCH_KEY}"}


def test_the_documented_tasks_of_eddi_are_accepted_as_they_stand(plain: httpx.Client, name: str) -> None:
    for base in ("product-docs", "faq"):
        # Other tests may have them.
        assert plain.post("/ragstore/rags", json={"name": base}).status_code in (201, 409)
    explicit = {
        "actions": ["*"],
        "type": "openai",
        "knowledgeBases": [
            {"name": "product-docs", "maxResults": 5, "minScore": 0.7},
            {"name": "faq", "maxResults": 3},
        ],
        "parameters": {"systemMessage": "You are a helpful assistant."},
    }
    discovered = {"enableWorkflowRag": True, "ragDefaults": {"maxResults": 5, "minScore": 0.7}}
    called = {"httpCallRag": "search-api"}
    body = {
        "name": name,
        "workflow": ["product-docs", "faq"],
        "httpCalls": {"search-api": {"url": "https://search.example/"}},
        "tasks": [explicit, discovered, called],
    }
    response = plain.post("/ragstore/assistants", json=body)
    assert response.status_code == 201, response.text
    stored = response.json()["tasks"]
    assert [task["id"] for task in stored] == ["task-1", "task-2", "task-3"]
    assert {key: stored[0][key] for key in ("actions", "type", "parameters")} == {
        key: explicit[key] for key in ("actions", "type", "parameters")
    }


def _named(value: Any, name: str) -> Any:
    """A value in which `BASE` is replaced by a name."""
    if isinstance(value, dict):
        return {key: _named(each, name) for key, each in value.items()}
    if isinstance(value, list):
        return [_named(each, name) for each in value]
    return name if value == "BASE" else value
