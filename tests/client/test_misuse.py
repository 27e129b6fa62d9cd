"""Calls that would do something else than they say are refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import httpx
import pytest

from ragstore_client import (
    Base64,
    Client,
    CollectionMismatch,
    Conflict,
    InvalidConfiguration,
    InvalidInput,
    NewDocument,
    RetryPolicy,
    to_base64,
)
from tests.client.clients import ClientFactory
from tests.client.fake_servers import Response, scripted_server

INFO = Response(200, {"name": "ragstore", "version": "1"})


def documents(count: int) -> list[NewDocument]:
    return [NewDocument(id=f"d{number}", text="x", embedding=[1.0, float(number)]) for number in range(count)]


ONE_STRING: dict[str, Callable[[Client, str], object]] = {
    "delete": lambda client, name: client.delete_documents(name, ids="12"),  # type: ignore[arg-type]
    "list": lambda client, name: client.list_documents(name, ids="12"),  # type: ignore[arg-type]
    "iterate": lambda client, name: list(client.iter_documents(name, ids="12")),  # type: ignore[arg-type]
    "get": lambda client, name: client.get_documents(name, "12"),  # type: ignore[arg-type]
    "count": lambda client, name: client.count(name, ids="12"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("call", ONE_STRING.values(), ids=ONE_STRING.keys())
def test_one_string_is_not_taken_as_several_ids(
    client: Client, client_collection: str, call: Callable[[Client, str], object]
) -> None:
    client.upsert_documents(client_collection, [NewDocument(id=name, text="x", embedding=[1.0]) for name in "12"])
    with pytest.raises(InvalidInput, match="ids must be a list of strings, not one str"):
        call(client, client_collection)
    assert client.count(client_collection) == 2


@pytest.mark.parametrize("ids", [("d1",), {"d1"}, frozenset(["d1"]), {"d1": 0}.keys()])
def test_any_collection_of_ids_will_do(client: Client, client_collection: str, ids: set[str]) -> None:
    client.upsert_documents(client_collection, documents(2))
    assert client.delete_documents(client_collection, ids=ids).count == 1


def test_a_text_in_place_of_a_vector_is_refused(client: Client, client_collection: str) -> None:
    with pytest.raises(InvalidInput, match="the service searches vectors; embed the text first"):
        client.query(client_collection, "where is the heating")  # type: ignore[arg-type]  # what this is about
    with pytest.raises(InvalidInput, match="embed the text first"):
        client.upsert_documents(
            client_collection,
            [NewDocument(text="x", embedding="AACAPw==")],  # type: ignore[arg-type]  # base64 without its type
        )


def test_base64_has_a_type_of_its_own(client: Client, client_collection: str) -> None:
    client.upsert_documents(client_collection, [NewDocument(id="a", text="x", embedding=to_base64([1.0, 2.0]))])
    assert client.query(client_collection, Base64(str(to_base64([1.0, 2.0])))).results[0].id == "a"


def test_ids_give_all_of_them_and_a_large_limit_is_not_cut(client: Client, client_collection: str) -> None:
    client.ingest_all(client_collection, documents(2300), concurrency=1).raise_for_failures()
    ids = [f"d{number}" for number in range(300)]
    assert client.list_documents(client_collection, ids=ids).count == 300
    page = client.list_documents(client_collection, limit=2200, offset=50)
    assert (len(page.documents), page.count, page.total) == (2200, 2200, 2300)
    assert len({document.id for document in page.documents}) == 2200
    assert client.list_documents(client_collection, limit=5000, include_texts=False).count == 2300
    many = [f"d{number}" for number in reversed(range(2300))]
    assert [document.id for document in client.get_documents(client_collection, [*many, "nowhere"])] == many


def test_an_existing_collection_must_have_the_settings_that_are_given(client: Client, archive_name: str) -> None:
    client.create_collection(archive_name, distance="l2", embedding_model="m1")
    try:
        with pytest.raises(Conflict):
            client.create_collection(archive_name)
        assert client.create_collection(archive_name, get_or_create=True).distance == "l2"
        same = client.create_collection(archive_name, if_exists="match", distance="l2", embedding_model="m1")
        assert same.status == "exists"
        for other in ({"distance": "cosine"}, {"embedding_model": "m2"}, {"metadata": {"embedding_model": "m2"}}):
            with pytest.raises(CollectionMismatch, match="if_exists='use'"):
                client.create_collection(archive_name, get_or_create=True, **other)
            used = client.create_collection(archive_name, if_exists="use", **other)
            assert (used.distance, used.metadata["embedding_model"]) == ("l2", "m1")
    finally:
        client.delete_collection(archive_name)


@pytest.mark.parametrize("timeout", [0, -1, math.nan, math.inf, True, "5", {}])
def test_an_invalid_time_limit_is_refused_when_the_client_is_made(make_client: ClientFactory, timeout: object) -> None:
    with pytest.raises(InvalidConfiguration, match="timeout"):
        make_client("http://localhost", timeout=timeout)


@pytest.mark.parametrize("timeout", [None, 5, 0.5, httpx.Timeout(5), httpx.Timeout(None, connect=3)])
def test_a_valid_time_limit_works(make_client: ClientFactory, timeout: object) -> None:
    with scripted_server(INFO) as server:
        assert make_client(server.url, timeout=timeout).info().name == "ragstore"


@pytest.mark.parametrize("retries", [-1, 1.5, "3", True, {}])
def test_invalid_retries_are_refused_when_the_client_is_made(make_client: ClientFactory, retries: object) -> None:
    with pytest.raises(InvalidConfiguration, match="retries"):
        make_client("http://localhost", retries=retries)


def test_retries_may_be_a_number(make_client: ClientFactory) -> None:
    busy = Response(503, {"title": "Busy", "code": "overloaded"})
    with scripted_server(busy, busy, INFO) as server:
        assert make_client(server.url, retries=2).info().name == "ragstore"
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "values", [{"attempts": 0}, {"attempts": 1.5}, {"base": -1}, {"cap": math.nan}, {"budget": math.inf}, {"base": "1"}]
)
def test_an_invalid_retry_policy_is_refused(values: dict[str, float]) -> None:
    with pytest.raises(InvalidConfiguration, match="retries"):
        RetryPolicy(**values)  # type: ignore[arg-type]  # what this is about


@pytest.mark.parametrize("url", [5, b"http://localhost", "http://localhost:0"])
def test_a_base_url_of_a_wrong_type_is_refused(make_client: ClientFactory, url: object) -> None:
    with pytest.raises(InvalidConfiguration, match="base URL"):
        make_client(url)


@pytest.mark.parametrize("metadata", [{"a": 1}, {"replace": None}], ids=["one key", "a null"])
def test_metadata_of_a_collection_are_merged_unless_they_are_replaced(
    client: Client, archive_name: str, metadata: dict[str, int | None]
) -> None:
    client.create_collection(archive_name, embedding_model="m1", metadata={"replace": 1})
    assert client.update_collection_metadata(archive_name, metadata).metadata["embedding_model"] == "m1"
    replaced = client.update_collection_metadata(archive_name, {"b": 2}, merge=False).metadata
    assert replaced == {"b": 2}
    client.delete_collection(archive_name)
