"""A base keeps the model that it was made with, whatever the default of a later version is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from ragstore_gateway.app import create_embeddings
from ragstore_gateway.settings import Settings
from tests.support.gateways import start_gateway
from tests.support.process_fixtures import starts_process
from tests.support.servers import running

MINILM = {"model": "builtin/minilm"}
WORDLLAMA = {"model": "builtin/wordllama"}


@pytest.fixture(scope="module")
@starts_process
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A gateway with its own defaults."""
    folder = tmp_path_factory.mktemp("models")
    with (
        running(start_gateway(folder, {"RAGSTORE_GATEWAY_EMBEDDING_MODEL": ""})) as served,
        httpx.Client(base_url=served.url, timeout=30) as client,
    ):
        yield client


def created(http: httpx.Client, name: str, **fields: Any) -> str:
    """Create a base; its path."""
    response = http.post("/ragstore/rags", json={"name": name, **fields})
    assert response.status_code == 201, response.text
    return response.headers["Location"].partition("?")[0]


def parameters(http: httpx.Client, path: str) -> dict[str, Any]:
    """The stored parameters of a base."""
    found: dict[str, Any] = http.get(path).json()["embeddingParameters"]
    return found


def written(http: httpx.Client, path: str, **fields: Any) -> dict[str, Any]:
    """Write a new version; its stored parameters."""
    response = http.get(path)
    version = response.headers["X-Resource-URI"].rpartition("=")[2]
    http.put(f"{path}?version={version}", json={**response.json(), **fields}).raise_for_status()
    return parameters(http, path)


@pytest.mark.parametrize(
    ("fields", "stored"),
    [
        ({}, MINILM),
        ({"embeddingParameters": WORDLLAMA}, WORDLLAMA),
        ({"embeddingParameters": {"dimensions": 64}}, {**WORDLLAMA, "dimensions": 64}),
        ({"embeddingProvider": "ollama", "embeddingParameters": {"model": "m"}}, {"model": "m"}),
    ],
)
def test_the_model_of_a_new_base_is_stored_with_it(
    http: httpx.Client, fields: dict[str, Any], stored: dict[str, Any]
) -> None:
    path = created(http, f"stored-{len(str(fields))}", **fields)
    assert parameters(http, path) == stored


def test_a_version_without_a_model_has_that_of_the_version_before(http: httpx.Client) -> None:
    path = created(http, "kept")
    assert written(http, path, embeddingParameters={}, description="second") == MINILM
    path = created(http, "small", embeddingParameters=WORDLLAMA)
    assert written(http, path, embeddingParameters={}) == WORDLLAMA


def test_a_model_of_another_provider_is_not_kept(http: httpx.Client) -> None:
    path = created(http, "moved", embeddingProvider="ollama", embeddingParameters={"model": "m"})
    assert written(http, path, embeddingProvider="local", embeddingParameters={}) == MINILM


def test_a_vector_store_of_openais_api_has_the_model_of_new_bases(http: httpx.Client) -> None:
    store = http.post("/v1/vector_stores", json={"name": "openai"}).json()["id"]
    found = http.get("/ragstore/rags/descriptors?filter=openai").json()
    assert store
    assert parameters(http, found[0]["resource"].partition("?")[0]) == MINILM


def test_a_document_is_embedded_by_the_model_of_its_base(http: httpx.Client) -> None:
    path = created(http, "embedded", chunkSize=100, chunkOverlap=0)
    http.post(
        f"{path}/ingest",
        params={"documentName": "a"},
        content=b"The shop opens at nine.",
        headers={"Content-Type": "text/plain"},
    ).raise_for_status()
    found: list[Any] = []
    while not found:
        found = http.post(f"{path}/query", json={"query": "When can I go shopping?"}).json()["results"]
    assert found[0]["score"] > 0.7
    names = [each["name"] for each in http.get("/collections?limit=100").json()["collections"]]
    [name] = [each for each in names if each.startswith("kb_" + path.rpartition("/")[2].replace("-", ""))]
    assert http.get(f"/collections/{name}").json()["dimension"] == 384


def test_a_base_of_an_earlier_version_keeps_the_model_that_it_does_not_name() -> None:
    embeddings = create_embeddings(Settings())
    assert embeddings.with_model("local", {}, {}) == {}
    assert embeddings.with_model("local", {"dimensions": 64}, {}) == {"dimensions": 64}
    assert embeddings.of("local", {}).name == "builtin/wordllama"


def test_a_built_in_model_that_the_gateway_names_is_that_of_new_bases() -> None:
    embeddings = create_embeddings(Settings(embedding_model="builtin/wordllama"))
    assert embeddings.with_model("local", {}, None) == WORDLLAMA
    assert create_embeddings(Settings()).with_model("local", {}, None) == MINILM
