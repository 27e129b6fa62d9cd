"""Fixtures of the contract's tests, besides the running service."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import TypeAlias
from uuid import uuid4

import httpx
import pytest

from tests.support.documents import add, document, documents_path
from tests.support.problems import Problem, problem_of
from tests.support.process_fixtures import starts_process
from tests.support.servers import running, start_service

Listing: TypeAlias = Callable[..., httpx.Response]
"""Lists documents of a collection. Keyword arguments are `where`, `ids`, `limit` and so on, as Python values."""

SendInvalid: TypeAlias = Callable[..., Problem]
"""Sends an invalid request: method, path, body, content type. Returns the problem document of its 400."""


@pytest.fixture
def new_name(http: httpx.Client) -> Iterator[str]:
    """A unique name of a collection, which is deleted after the test."""
    unique = f"t-{uuid4().hex}"
    yield unique
    http.delete(f"/collections/{unique}")


@pytest.fixture(params=["GET", "POST"])
def listing(request: pytest.FixtureRequest, http: httpx.Client) -> Listing:
    """Lists documents, with the parameters of GET or with the body of POST."""

    def by_parameters(collection: str, **fields: object) -> httpx.Response:
        parameters = {key: json.dumps(value) if key.startswith("where") else value for key, value in fields.items()}
        return http.get(documents_path(collection), params=parameters)  # type: ignore[arg-type]

    def by_body(collection: str, **fields: object) -> httpx.Response:
        return http.post(f"{documents_path(collection)}/filter", json=fields)

    return by_parameters if request.param == "GET" else by_body


@pytest.fixture(scope="module")
def untouched(http: httpx.Client) -> Iterator[str]:
    """A collection with one document, which no test may change."""
    name = f"t-{uuid4().hex}"
    http.post("/collections", json={"name": name, "metadata": {"team": "docs"}}).raise_for_status()
    add(http, name, document("kept", text="kept", kept=True))
    yield name
    http.delete(f"/collections/{name}")


@pytest.fixture(scope="package")
@starts_process
def validating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service over one kind of store, for requests that are rejected before they reach a store."""
    with (
        running(start_service(tmp_path_factory.mktemp("validating"))) as served,
        httpx.Client(base_url=served.url, timeout=30, limits=httpx.Limits(keepalive_expiry=2)) as client,
    ):
        yield client


@pytest.fixture(scope="package")
def guarded(validating: httpx.Client) -> Iterator[str]:
    """A collection of that service with one document, which no request may change."""
    name = f"t-{uuid4().hex}"
    validating.post("/collections", json={"name": name, "metadata": {"team": "docs"}}).raise_for_status()
    add(validating, name, document("kept", text="kept", kept=True))
    yield name
    _assert_unchanged(validating, name)


@pytest.fixture
def rejection(validating: httpx.Client, guarded: str) -> Iterator[SendInvalid]:
    """Sends an invalid request to a collection with one document, and verifies that it did not reach the store.

    `COLLECTION` in the path and in a text body is replaced by the collection's name.
    """
    before = _store_calls(validating)
    assert before, "no calls are counted"
    yield _sender(validating, guarded)
    assert _store_calls(validating) == before, "the request reached the store: use store_rejection"


@pytest.fixture
def store_rejection(http: httpx.Client, untouched: str) -> Iterator[SendInvalid]:
    """As `rejection`, over both kinds of store, for a request that reaches the store. The collection is unchanged."""
    yield _sender(http, untouched)
    _assert_unchanged(http, untouched)


def _sender(http: httpx.Client, collection: str) -> SendInvalid:
    def send(method: str, path: str, body: str | bytes = b"", content_type: str = "application/json") -> Problem:
        content = body.replace("COLLECTION", collection).encode() if isinstance(body, str) else body
        headers = {"Content-Type": content_type} if content else {}
        response = http.request(method, path.replace("COLLECTION", collection), content=content, headers=headers)
        return problem_of(response, 400)

    return send


def _assert_unchanged(http: httpx.Client, collection: str) -> None:
    # One request returns all documents, their metadata and that of the collection.
    found = http.post(f"/collections/{collection}/query", json={"query_embedding": [1, 0]}).json()
    assert [(match["id"], match["text"], match["metadata"]) for match in found["results"]] == [
        ("kept", "kept", {"kept": True})
    ]
    assert found["collection_metadata"] == {"team": "docs"}


def _store_calls(http: httpx.Client) -> float:
    """The calls of routes to the store about documents, and all calls of the store to Chroma, until now."""
    metrics = http.get("/metrics").text
    return sum(
        float(count)
        for count in re.findall(r"^ragstore_(?:store|chroma)_duration_seconds_count{.*} (.*)$", metrics, re.M)
    )
