"""Bases over existing collections: linked ones only search them, shared ones also keep their documents there."""

from __future__ import annotations

import asyncio
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from ragstore_client import Client, NewDocument
from ragstore_gateway.embeddings.minilm import load_minilm
from ragstore_gateway.embeddings.wordllama import WordLlamaEmbedder
from tests.gateway.chat.conftest import new_key
from tests.support.fake_upstream import FakeUpstream, fake_upstream
from tests.support.gateways import FAST_MODEL, start_gateway
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, running

pytestmark = pytest.mark.process

OLD_DATA = Path(__file__).parent / "gateway-0.2.tar.gz"
"""The data folder of version 0.2: a collection `memory`, filled with its command `ingest`, and `notes`, filled by
another program. Both have vectors of builtin/wordllama; `notes` does not record it."""

WARRANTY = "The warranty of the kettle lasts three years."
CLEANING = "Clean the kettle with vinegar every month."
BOILER = "The boiler is in the cellar, behind the bicycles."


@pytest.fixture
def http(gateway: Served) -> Iterator[httpx.Client]:
    """A client of a gateway with its store in its process, without keys."""
    with httpx.Client(base_url=gateway.url, timeout=30) as client:
        yield client


def fill(url: str, texts: dict[str, str], *, embedder: Any = None, key: str = "", **fields: Any) -> str:
    """A new collection, filled by another program; its name."""
    name = f"others-{uuid4().hex[:8]}"
    vectors = asyncio.run((embedder or WordLlamaEmbedder()).embed(list(texts.values()), "document"))
    metadata = fields.pop("metadata", {})
    with Client(url, api_key=key or None) as client:
        client.create_collection(name, **fields)
        client.upsert_documents(
            name,
            [
                NewDocument(id=id, text=text, embedding=vector.tolist(), metadata={"source": f"{id}.txt", **metadata})
                for (id, text), vector in zip(texts.items(), vectors, strict=True)
            ],
        )
    return name


def linked(http: httpx.Client, collection: str, **parameters: Any) -> str:
    """A base over a collection; its path."""
    body = {"name": f"base-{uuid4().hex[:8]}", "storeParameters": {"collection": collection, **parameters}}
    response = http.post("/ragstore/rags", json=body)
    assert response.status_code == 201, response.text
    return response.headers["Location"].partition("?")[0]


def ingest(http: httpx.Client, path: str, name: str, text: str) -> dict[str, Any]:
    """Ingest a document, and wait for the end; its status."""
    accepted = http.post(
        f"{path}/ingest", params={"documentName": name}, content=text, headers={"Content-Type": "text/plain"}
    )
    assert accepted.status_code == 202, accepted.text
    deadline = time.monotonic() + 60
    while True:
        status: dict[str, Any] = http.get(accepted.headers["Location"]).json()
        if status["status"] not in ("pending", "processing"):
            return status
        assert time.monotonic() < deadline
        time.sleep(0.05)


def results(http: httpx.Client, path: str, query: str, **more: Any) -> list[dict[str, Any]]:
    response = http.post(f"{path}/query", json={"query": query, **more})
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["results"]
    return found


def texts(http: httpx.Client, path: str, query: str, **more: Any) -> list[str]:
    return [each["text"] for each in results(http, path, query, **more)]


@pytest.mark.parametrize("distance", ["cosine", "l2", "ip"])
def test_a_linked_base_searches_a_collection_of_any_distance_function(
    http: httpx.Client, gateway: Served, distance: str
) -> None:
    name = fill(gateway.url, {"a": WARRANTY, "b": CLEANING, "c": BOILER}, distance=distance)
    found = results(http, linked(http, name), "How long is the warranty of the kettle?")
    assert found[0]["text"] == WARRANTY
    assert 0.5 < found[0]["score"] <= 1
    assert [each["score"] for each in found] == sorted((each["score"] for each in found), reverse=True)


def test_the_text_title_and_url_of_a_linked_collection_may_be_in_other_fields(
    http: httpx.Client, gateway: Served
) -> None:
    metadata = {"body": BOILER, "headline": "Cellar", "link": "https://house.example/cellar"}
    name = fill(gateway.url, {"a": BOILER}, metadata=metadata)
    path = linked(http, name, textField="body", titleField="headline", urlField="link")
    (found,) = results(http, path, "boiler")
    assert found["text"] == BOILER
    assert (found["metadata"]["title"], found["metadata"]["url"]) == ("Cellar", "https://house.example/cellar")
    assert "body" not in found["metadata"]


def test_a_filter_applies_to_the_records_of_others(http: httpx.Client, gateway: Served) -> None:
    path = linked(http, fill(gateway.url, {"a": WARRANTY, "b": CLEANING}))
    assert texts(http, path, "kettle", where={"source": "b.txt"}) == [CLEANING]


def test_a_linked_base_takes_no_documents(http: httpx.Client, gateway: Served) -> None:
    name = fill(gateway.url, {"a": WARRANTY})
    path = linked(http, name)
    response = http.post(f"{path}/ingest", content=b"Text.", headers={"Content-Type": "text/plain"})
    assert (response.status_code, response.json()["code"]) == (409, "collection_read_only")
    assert http.delete(path, params={"permanent": True}).status_code == 200
    with Client(gateway.url) as client:
        assert client.count(name) == 1


def test_the_model_of_a_collection_is_the_one_that_it_records(http: httpx.Client, gateway: Served) -> None:
    """A collection that Chroma's default function has filled records the published name of the model."""
    name = fill(gateway.url, {"a": WARRANTY, "b": BOILER}, embedder=load_minilm(), embedding_model="all-MiniLM-L6-v2")
    assert texts(http, linked(http, name), "Where is the heating?")[0] == BOILER


def test_a_collection_of_an_unknown_model_is_an_error_that_names_it(http: httpx.Client, gateway: Served) -> None:
    name = fill(gateway.url, {"a": WARRANTY}, embedding_model="another/model")
    response = http.post(f"{linked(http, name)}/query", json={"query": "kettle"})
    assert (response.status_code, response.json()["code"]) == (409, "other_embedding_model")
    assert "another/model" in response.json()["detail"]


@pytest.mark.parametrize(
    ("parameters", "fields", "path"),
    [
        ({"collection": "absent-collection"}, {}, "$.storeParameters.collection"),
        ({"collection": "kb_other"}, {}, "$.storeParameters.collection"),
        ({"shared": True}, {}, "$.storeParameters"),
        ({"collection": "a/b"}, {}, "$.storeParameters.collection"),
        ({"collection": "memory", "shared": True, "textFeld": "x"}, {}, "$.storeParameters.textFeld"),
    ],
)
def test_a_collection_that_cannot_be_linked_is_400_with_the_path(
    http: httpx.Client, parameters: dict[str, Any], fields: dict[str, Any], path: str
) -> None:
    body = {"name": f"base-{uuid4().hex[:8]}", "storeParameters": parameters, **fields}
    response = http.post("/ragstore/rags", json=body)
    assert response.status_code == 400
    assert [each["path"] for each in response.json()["errors"]] == [path]


def test_sources_and_a_search_by_words_need_documents(http: httpx.Client, gateway: Served) -> None:
    name = fill(gateway.url, {"a": WARRANTY})
    body = {
        "name": f"base-{uuid4().hex[:8]}",
        "storeParameters": {"collection": name},
        "retrieval": "keyword",
        "sources": [{"name": "site", "type": "web", "web": {"startUrl": "https://example.org/"}}],
    }
    response = http.post("/ragstore/rags", json=body)
    assert {each["path"] for each in response.json()["errors"]} == {"$.sources", "$.retrieval"}


def test_the_collection_of_a_base_cannot_be_changed(http: httpx.Client, gateway: Served) -> None:
    name, other = (fill(gateway.url, {"a": WARRANTY}) for _ in range(2))
    path = linked(http, name)
    body = http.get(path).json()
    body["storeParameters"] = {"collection": other}
    response = http.put(f"{path}?version=1", json=body)
    assert (response.status_code, response.json()["errors"][0]["path"]) == (400, "$.storeParameters.collection")


def test_documents_of_a_shared_base_are_found_beside_the_records_of_others(http: httpx.Client, gateway: Served) -> None:
    name = fill(gateway.url, {"a": BOILER})
    path = linked(http, name, shared=True)
    assert ingest(http, path, "kettle.txt", WARRANTY)["status"] == "completed"
    assert set(texts(http, path, "kettle or boiler")) == {WARRANTY, BOILER}
    with Client(gateway.url) as client:
        (own,) = client.list_documents(name, where={"url": "kettle.txt"}).documents
    assert {"url", "chunk_ix", "ts", "source"} <= own.metadata.keys()
    assert (own.text, own.metadata["source"], own.metadata["chunk_ix"]) == (WARRANTY, "kettle.txt", 0)


def test_a_document_replaces_the_records_of_its_url_and_no_others(http: httpx.Client, gateway: Served) -> None:
    url = "https://m.example/warranty"
    name = fill(gateway.url, {"old": WARRANTY}, metadata={"url": url})
    with Client(gateway.url) as client:
        vector = asyncio.run(WordLlamaEmbedder().embed([BOILER], "document"))[0].tolist()
        client.upsert_documents(name, [NewDocument(id="other", text=BOILER, embedding=vector)])
        path = linked(http, name, shared=True)
        new = "The warranty of the kettle lasts five years now."
        assert ingest(http, path, url, new)["status"] == "completed"
        deadline = time.monotonic() + 20
        while client.count(name) != 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert set(texts(http, path, "warranty of the kettle")) == {new, BOILER}


def test_the_deletion_of_a_shared_base_leaves_the_records_of_others(http: httpx.Client, gateway: Served) -> None:
    name = fill(gateway.url, {"a": BOILER})
    path = linked(http, name, shared=True)
    ingest(http, path, "kettle.txt", WARRANTY)
    ingest(http, path, "cleaning.txt", CLEANING)
    assert http.delete(f"{path}/documents/cleaning.txt").status_code in (200, 204)
    assert set(texts(http, path, "kettle")) == {WARRANTY, BOILER}
    assert http.delete(path, params={"permanent": True}).status_code == 200
    with Client(gateway.url) as client:
        deadline = time.monotonic() + 20
        while client.count(name) != 1:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert [each.text for each in client.list_documents(name).documents] == [BOILER]


def test_another_chunking_of_a_shared_base_is_that_of_later_documents(http: httpx.Client, gateway: Served) -> None:
    path = linked(http, fill(gateway.url, {"a": BOILER}), shared=True)
    long = " ".join(f"Sentence {n} is about the kettle." for n in range(20))
    ingest(http, path, "first.txt", long)
    body = http.get(path).json() | {"chunkSize": 100, "chunkOverlap": 0}
    assert http.put(f"{path}?version=1", json=body).status_code == 200
    after = ingest(http, path, "second.txt", long)
    before = http.get(f"{path}/documents").json()["documents"][0]
    assert (before["name"], before["chunks"]) == ("first.txt", 2)
    assert after["chunks"] > 5


# -- bases that exist by default ----------------------------------------------------------------


def base_of(http: httpx.Client, name: str) -> str:
    """The path of a base by its name."""
    listed = http.get("/ragstore/rags/descriptors", params={"filter": name, "limit": 1000}).json()
    return next(str(each["resource"]).partition("?")[0] for each in listed if each["name"] == name)


def test_memory_exists_by_default_and_a_new_one_has_the_model_of_new_bases(http: httpx.Client, gateway: Served) -> None:
    path = base_of(http, "memory")
    assert http.get(path).json()["storeParameters"] == {"collection": "memory", "shared": True}
    assert ingest(http, path, f"{uuid4().hex}.txt", WARRANTY)["status"] == "completed"
    with Client(gateway.url) as client:
        assert client.get_collection("memory").metadata["embedding_model"] == FAST_MODEL
    assert WARRANTY in texts(http, path, "kettle warranty")


def start_old(folder: Path, environ: dict[str, str]) -> Served:
    """A gateway on the data of version 0.2."""
    with tarfile.open(OLD_DATA) as archive:
        archive.extractall(folder / "data", filter="data")
    return start_gateway(folder, {**environ, "RAGSTORE_GATEWAY_DATA_PATH": str(folder / "data")})


@pytest.fixture(scope="module")
@starts_process
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx.Client, FakeUpstream]]:
    """A client of a gateway on the data of version 0.2, and its upstream."""
    with fake_upstream() as upstream:
        environ = {
            "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url,
            "RAGSTORE_GATEWAY_RAG_COLLECTIONS": "memory,notes",
            "RAGSTORE_GATEWAY_RAG_DEBUG": "true",
        }
        with (
            running(start_old(tmp_path_factory.mktemp("old"), environ)) as served,
            httpx.Client(base_url=served.url, timeout=30) as client,
        ):
            yield client, upstream


def prompt_of(old: tuple[httpx.Client, FakeUpstream], question: str) -> str:
    """The last message that the upstream receives for a question to a plain model."""
    http, upstream = old
    body = {"model": "rag/m", "messages": [{"role": "user", "content": question}]}
    assert http.post("/v1/chat/completions", json=body).status_code == 200
    return str(upstream.last.json["messages"][1]["content"])


def test_what_version_0_2_has_ingested_and_what_others_have_stored_stays_searchable(
    old: tuple[httpx.Client, FakeUpstream],
) -> None:
    assert WARRANTY in prompt_of(old, "How long is the warranty of the kettle?")
    boiler = prompt_of(old, "Where is the boiler?")
    assert BOILER in boiler
    assert "notes.txt" in boiler


def test_new_documents_in_a_memory_of_version_0_2_have_its_model(old: tuple[httpx.Client, FakeUpstream]) -> None:
    http, _ = old
    path = base_of(http, "memory")
    assert ingest(http, path, "paper.txt", "Waste glass is collected on Fridays.")["status"] == "completed"
    assert {"Waste glass is collected on Fridays."} < set(texts(http, path, "waste glass or kettle"))
    assert "on Fridays" in prompt_of(old, "When is waste glass collected?")


# -- whose collections --------------------------------------------------------------------------


@pytest.mark.process
def test_a_key_links_only_collections_that_it_sees_in_the_store(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    admin = new_key(keys, "admin", "admin")
    with running(start_gateway(tmp_path, {"RAGSTORE_GATEWAY_KEYS_FILE": str(keys)})) as served:
        body = {"name": "mine", "storeParameters": {"collection": "payroll"}}
        response = httpx.post(f"{served.url}/ragstore/rags", json=body, headers={"X-API-Key": admin}, timeout=30)
    assert (response.status_code, response.json()["errors"][0]["path"]) == (400, "$.storeParameters.collection")


def test_of_a_remote_store_only_the_collections_of_the_setting_are_linked(gateway: Served, tmp_path: Path) -> None:
    allowed, other = (fill(gateway.url, {"a": WARRANTY}) for _ in range(2))
    environ = {"RAGSTORE_URL": gateway.url, "RAGSTORE_GATEWAY_LINKED_COLLECTIONS": allowed}
    with (
        running(start_gateway(tmp_path, environ)) as served,
        httpx.Client(base_url=served.url, timeout=30) as http,
    ):
        assert texts(http, linked(http, allowed), "kettle") == [WARRANTY]
        body = {"name": "other", "storeParameters": {"collection": other}}
        response = http.post("/ragstore/rags", json=body)
    assert response.status_code == 400
    assert "RAGSTORE_GATEWAY_LINKED_COLLECTIONS" in response.json()["detail"]
