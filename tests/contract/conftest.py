"""What the contract's tests share beyond the running service."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TypeAlias
from uuid import uuid4

import httpx
import pytest

from tests.support.documents import add, document, documents_path
from tests.support.problems import Problem, problem_of

Listing: TypeAlias = Callable[..., httpx.Response]
"""Lists documents of a collection; keyword arguments are `where`, `ids`, `limit` and so on as values of Python."""

Refused: TypeAlias = Callable[..., Problem]
"""Sends a request that is to be refused: method, path, body, content type."""


@pytest.fixture
def name(http: httpx.Client) -> Iterator[str]:
    """A collection's name that no other test uses; the collection is gone afterwards."""
    chosen = f"t-{uuid4().hex}"
    yield chosen
    http.delete(f"/collections/{chosen}")


@pytest.fixture
def collection(http: httpx.Client, name: str) -> str:
    """A new, empty collection."""
    http.post("/collections", json={"name": name}).raise_for_status()
    return name


@pytest.fixture(params=["GET", "POST"])
def listing(request: pytest.FixtureRequest, http: httpx.Client) -> Listing:
    """Lists documents, once by the parameters of GET and once by the body of POST."""

    def by_parameters(collection: str, **asked: object) -> httpx.Response:
        parameters = {key: json.dumps(value) if key.startswith("where") else value for key, value in asked.items()}
        return http.get(documents_path(collection), params=parameters)  # type: ignore[arg-type]

    def by_body(collection: str, **asked: object) -> httpx.Response:
        return http.post(f"{documents_path(collection)}/filter", json=asked)

    return by_parameters if request.param == "GET" else by_body


@pytest.fixture(scope="module")
def kept(http: httpx.Client) -> Iterator[str]:
    """A collection that holds one document, and shall."""
    name = f"t-{uuid4().hex}"
    http.post("/collections", json={"name": name, "metadata": {"team": "docs"}}).raise_for_status()
    add(http, name, document("kept", text="kept", kept=True))
    yield name
    http.delete(f"/collections/{name}")


@pytest.fixture
def refused(http: httpx.Client, kept: str) -> Iterator[Refused]:
    """Sends a request on a collection with one document and expects a 400; afterwards the collection is as it was.

    In the path and in a text body, `COLLECTION` stands for the collection's name.
    """

    def send(method: str, path: str, body: str | bytes = b"", content_type: str = "application/json") -> Problem:
        content = body.replace("COLLECTION", kept).encode() if isinstance(body, str) else body
        headers = {"Content-Type": content_type} if content else {}
        answer = http.request(method, path.replace("COLLECTION", kept), content=content, headers=headers)
        return problem_of(answer, 400)

    yield send

    # One request tells all documents, their metadata and the collection's.
    held = http.post(f"/collections/{kept}/query", json={"query_embedding": [1, 0]}).json()
    assert [(hit["id"], hit["text"], hit["metadata"]) for hit in held["results"]] == [("kept", "kept", {"kept": True})]
    assert held["collection_metadata"] == {"team": "docs"}
