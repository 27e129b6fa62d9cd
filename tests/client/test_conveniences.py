"""Calls and options that users of other clients look for."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest

from ragstore_client import (
    NO_RETRIES,
    AsyncClient,
    CallTimeout,
    Client,
    EmbeddedServiceFailed,
    InvalidConfiguration,
    InvalidInput,
    NewDocument,
    NotFound,
    RetryPolicy,
    Unavailable,
)
from tests.client.clients import ClientFactory
from tests.client.fake_servers import Response, scripted_server
from tests.support.servers import Served

INFO = Response(200, {"name": "ragstore", "version": "1"})
AWAY = Response(503, {"title": "Away", "code": "overloaded"})


@pytest.fixture
def filled(client: Client, client_collection: str) -> str:
    """A collection with documents."""
    documents = [
        NewDocument(id=f"d{n}", text=f"text {n}", embedding=[1.0, float(n)], metadata={"n": n, "even": n % 2 == 0})
        for n in range(6)
    ]
    client.upsert_documents(client_collection, documents)
    return client_collection


def test_matching_documents_are_counted(client: Client, filled: str) -> None:
    assert client.count(filled) == 6
    assert client.count(filled, {"even": True}) == 3
    assert client.count(filled, {"even": True}, ids=["d1", "d2"]) == 1
    assert client.count(filled, where_document={"$contains": "text 5"}) == 1


def test_existence_is_a_yes_or_a_no(client: Client, filled: str) -> None:
    assert client.collection_exists(filled)
    assert not client.collection_exists("nowhere")
    assert client.document_exists(filled, "d1")
    assert not client.document_exists(filled, "d9")
    with pytest.raises(NotFound):
        client.document_exists("nowhere", "d1")


def test_documents_are_returned_in_the_order_of_their_ids(client: Client, filled: str) -> None:
    found = client.get_documents(filled, ["d3", "nowhere", "d0", "d3"], include_embeddings=True)
    assert [document.id for document in found] == ["d3", "d0"]
    assert found[0].embedding == pytest.approx([1.0, 3.0], abs=1e-5)
    assert client.get_documents(filled, []) == []


def test_texts_are_left_out_on_request(client: Client, filled: str) -> None:
    assert {document.text for document in client.iter_documents(filled, include_texts=False)} == {""}
    assert {match.text for match in client.query(filled, [1.0, 0.0], include_texts=False).results} == {""}
    assert client.list_documents(filled, include_texts=False, limit=1).documents[0].metadata == {"n": 0, "even": True}


def test_several_vectors_are_queried_in_one_call(client: Client, filled: str) -> None:
    found = client.query_batch(filled, [[1.0, float(n)] for n in range(6)], top_k=1, concurrency=3)
    assert [results.results[0].id for results in found] == [f"d{n}" for n in range(6)]
    assert client.query_batch(filled, []) == []
    with pytest.raises(NotFound):
        client.query_batch("nowhere", [[1.0, 2.0], [1.0, 3.0]])


def test_metadata_is_changed_alone(client: Client, filled: str) -> None:
    updated = client.update_documents(filled, {"d1": {"n": None, "new": [1, 2]}, "d2": {}})
    assert (updated.status, updated.count, updated.mode) == ("updated", 2, "merge")
    document = client.get_document(filled, "d1", include_embeddings=True)
    assert (document.text, document.metadata) == ("text 1", {"even": False, "new": [1, 2]})
    assert document.embedding == pytest.approx([1.0, 1.0], abs=1e-5)
    client.update_documents(filled, {"d1": {"only": "this"}}, replace=True)
    assert client.get_document(filled, "d1").metadata == {"only": "this"}
    with pytest.raises(NotFound, match="'nowhere'") as missing:
        client.update_documents(filled, {"d0": {"n": 9}, "nowhere": {"n": 9}})
    assert missing.value.code == "documents_not_found"
    assert client.get_document(filled, "d0").metadata["n"] == 0
    with pytest.raises(InvalidInput, match=r"\$\.documents\[0\]\.metadata\.n: a number must be finite"):
        client.update_documents(filled, {"d0": {"n": float("nan")}})


def test_a_handle_has_the_calls_of_its_collection(client_service: Served, archive_name: str) -> None:
    with Client(client_service.url) as plain:
        collection = plain.collection(archive_name)
        assert not collection.exists()
        collection.create(distance="l2")
        collection.upsert_documents([NewDocument(id="a", text="x", embedding=[1.0], metadata={"n": 1})])
        assert collection.ingest_all([{"id": "b", "text": "y", "embedding": [2.0]}]).stored == 1
        assert [outcome.stored for outcome in collection.ingest([{"id": "c", "text": "z", "embedding": [3.0]}])] == [
            True
        ]
        assert (collection.count(), collection.count({"n": 1}), collection.info().distance) == (3, 1, "l2")
        assert [match.id for match in collection.query([2.1], top_k=1).results] == ["b"]
        assert [document.id for document in collection.iter_documents()] == ["a", "b", "c"]
        assert collection.delete_documents(ids=["c"]).count == 1
        assert collection.delete().status == "deleted"


async def test_a_handle_of_the_asynchronous_client_has_the_same_calls(
    client_service: Served, client_collection: str
) -> None:
    async with AsyncClient(client_service.url) as client:
        collection = client.collection(client_collection)
        await collection.upsert_documents([NewDocument(id="a", text="x", embedding=[1.0], metadata={"n": 1})])
        assert await collection.count({"n": 1}) == 1
        assert [document.id async for document in collection.iter_documents(ids=["a"])] == ["a"]


def test_every_call_takes_options(make_client: ClientFactory) -> None:
    with scripted_server(INFO) as server:
        client = make_client(server.url, headers={"x-one": "1"})
        client.info(request_id="r-1", headers={"X-Two": "2"}, timeout=5, retries=0)
    (request,) = server.requests
    assert (request.headers["x-request-id"], request.headers["x-one"], request.headers["x-two"]) == ("r-1", "1", "2")


def test_a_deadline_ends_a_call_with_all_its_retries(make_client: ClientFactory) -> None:
    policy = RetryPolicy(attempts=1000, base=0.01, cap=0.02, budget=60)
    with scripted_server(AWAY) as server, pytest.raises((Unavailable, CallTimeout)):
        make_client(server.url, retries=policy).info(deadline=1.0)
    assert 2 < len(server.requests) < 1000
    with scripted_server(Response(delay=5)) as server:
        started = time.monotonic()
        with pytest.raises(CallTimeout):
            make_client(server.url, timeout=None, retries=NO_RETRIES).info(deadline=0.2)
        assert time.monotonic() - started < 4


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0},
        {"retries": -1},
        {"deadline": 0},
        {"deadline": "1"},
        {"headers": {"a": "b\nc"}},
        {"request_id": ""},
    ],
    ids=str,
)
def test_invalid_options_are_refused(make_client: ClientFactory, options: dict[str, object]) -> None:
    client = make_client("http://localhost:1")
    with pytest.raises((InvalidConfiguration, InvalidInput)):
        client.info(**options)  # type: ignore[arg-type]  # what this is about
    with pytest.raises((InvalidConfiguration, InvalidInput)):
        client.with_options(**options)  # type: ignore[arg-type]


def test_an_unknown_option_is_refused(make_client: ClientFactory) -> None:
    with pytest.raises(TypeError, match="'top'"):
        make_client("http://localhost:1").query("abc", [1.0], top=3)  # type: ignore[call-arg]  # what this is about


def test_the_environment_has_the_url_and_the_key(make_client: ClientFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted_server(INFO) as server:
        monkeypatch.setenv("RAGSTORE_URL", server.url)
        monkeypatch.setenv("RAGSTORE_API_KEY", "key-of-the-environment")
        make_client(None).info()
        make_client(None, api_key="own").info()
        make_client(None, api_key=None).info()
        make_client(server.url.replace("//", "//user:word@")).info()
    sent = [request.headers.get("authorization", "") for request in server.requests]
    assert sent[:3] == ["Bearer key-of-the-environment", "Bearer own", ""]
    assert sent[3].startswith("Basic ")


async def test_both_clients_take_an_httpx_client(client_service: Served) -> None:
    with httpx.Client() as http, Client(client_service.url, http=http) as client:
        assert client.live().status == "alive"
    async with httpx.AsyncClient() as async_http, AsyncClient(client_service.url, http=async_http) as async_client:
        assert (await async_client.live()).status == "alive"


@pytest.mark.process
def test_a_client_may_start_a_service_of_its_own(tmp_path: Path) -> None:
    with Client.embedded(tmp_path / "data") as client:
        client.create_collection("abc")
        client.upsert_documents("abc", [NewDocument(id="a", text="x", embedding=[1.0])])
        with pytest.raises(EmbeddedServiceFailed, match="in use by another process"):
            Client.embedded(tmp_path / "data")
        url = client.base_url
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)
    with Client.embedded(tmp_path / "data") as again:
        assert again.count("abc") == 1
