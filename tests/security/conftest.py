"""What the security tests share: a service with keys of every kind, and clients that show them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from tests.support.documents import add, document
from tests.support.keyed_services import Guarded, Wanted, guarded

KEYS: dict[str, Wanted] = {
    "boss": {"role": "admin"},
    "writer": {"role": "writer"},
    "reader": {"role": "reader"},
    "team": {"role": "admin", "collections": ("repo_*", "shared")},
    "guest": {"role": "reader", "collections": ("repo_a*",)},
}

COLLECTIONS = ("repo_a", "repo_b", "shared", "secret")
"""What the service holds: each collection has one document, whose metadata and text name it."""


@pytest.fixture(scope="session")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A service with keys over embedded Chroma, which tests only read from unless they clean up."""
    # With keys any address will do, also one that others reach.
    with guarded(tmp_path_factory.mktemp("keyed"), KEYS, {"RAGSTORE_HOST": "0.0.0.0"}) as started:
        with started.client("boss") as http:
            for name in COLLECTIONS:
                http.post("/collections", json={"name": name, "metadata": {"about": name}}).raise_for_status()
                add(http, name, document(name, text=f"text of {name}", about=name))
        yield started


@pytest.fixture(scope="session")
def clients(keyed: Guarded) -> Iterator[dict[str | None, httpx.Client]]:
    """A client for each key by its name, and one without a key under None."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(keyed.client(name)) for name in (None, *KEYS)}


@pytest.fixture(scope="session")
def boss(clients: dict[str | None, httpx.Client]) -> httpx.Client:
    """A client that may do everything."""
    return clients["boss"]


@pytest.fixture(scope="session")
def guest(clients: dict[str | None, httpx.Client]) -> httpx.Client:
    """A client that may read `repo_a*`."""
    return clients["guest"]


@pytest.fixture(scope="session")
def team(clients: dict[str | None, httpx.Client]) -> httpx.Client:
    """A client that may do everything to `repo_*` and `shared`."""
    return clients["team"]


@pytest.fixture(scope="session")
def nobody(clients: dict[str | None, httpx.Client]) -> httpx.Client:
    """A client without a key."""
    return clients[None]
