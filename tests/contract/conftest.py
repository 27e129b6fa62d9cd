"""What the contract's tests share beyond the running service."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TypeAlias
from uuid import uuid4

import httpx
import pytest
from contract.documents import documents_path

Listing: TypeAlias = Callable[..., httpx.Response]
"""Lists documents of a collection; keyword arguments are `where`, `ids`, `limit` and so on as values of Python."""


@pytest.fixture
def name(http: httpx.Client) -> Iterator[str]:
    """A collection's name that no other test uses; the collection is gone afterwards."""
    chosen = f"t-{uuid4().hex}"
    yield chosen
    http.delete(f"/collections/{chosen}")


@pytest.fixture(params=["GET", "POST"])
def listing(request: pytest.FixtureRequest, http: httpx.Client) -> Listing:
    """Lists documents, once by the parameters of GET and once by the body of POST."""

    def by_parameters(collection: str, **asked: object) -> httpx.Response:
        parameters = {key: json.dumps(value) if key.startswith("where") else value for key, value in asked.items()}
        return http.get(documents_path(collection), params=parameters)  # type: ignore[arg-type]

    def by_body(collection: str, **asked: object) -> httpx.Response:
        return http.post(f"{documents_path(collection)}/filter", json=asked)

    return by_parameters if request.param == "GET" else by_body
