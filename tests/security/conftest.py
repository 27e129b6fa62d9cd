"""Fixtures of the security tests: a service with keys of every kind, and a client for each key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from tests.support.documents import add, document
from tests.support.keyed_services import KeyedService, KeySpec, keyed_service
from tests.support.process_fixtures import starts_process

KEYS: dict[str, KeySpec] = {
    "admin": {"role": "admin"},
    "writer": {"role": "writer"},
    "reader": {"role": "reader"},
    "team": {"role": "admin", "collections": ("repo_*", "shared")},
    "guest": {"role": "reader", "collections": ("repo_a*",)},
    "gateway": {"role": "admin", "collections": ("kb_*", "memory")},
    "agent": {"role": "reader", "collections": ("kb_*",)},
    "star": {"role": "writer", "collections": ("*",)},
    "restore": {"role": "admin", "collections": ("*", "kb_*")},
    "initial": {"role": "admin", "collections": ("k*",)},
}

COLLECTIONS = ("repo_a", "repo_b", "shared", "secret")
"""The collections of the service. Each has one document, whose metadata and text contain its name."""

RESERVED = "kb_base_1"
"""A collection of the gateway, with one document `secret`."""


@pytest.fixture(scope="package")
@starts_process
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedService]:
    """A service with keys over embedded Chroma, which tests only read unless they clean up."""
    # With keys, the service may bind to any address, also to one that other machines reach.
    with keyed_service(tmp_path_factory.mktemp("keyed"), KEYS, {"RAGSTORE_HOST": "0.0.0.0"}) as started:
        with started.client("admin") as http:
            for name in COLLECTIONS:
                http.post("/collections", json={"name": name, "metadata": {"about": name}}).raise_for_status()
                add(http, name, document(name, text=f"text of {name}", about=name))
        with started.client("gateway") as http:
            http.post("/collections", json={"name": RESERVED, "metadata": {"about": RESERVED}}).raise_for_status()
            add(http, RESERVED, document("secret", text="text of a base", about=RESERVED))
        yield started


@pytest.fixture(scope="package")
def clients(keyed: KeyedService) -> Iterator[dict[str | None, httpx.Client]]:
    """A client for each key by its name, and one without a key under None."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(keyed.client(name)) for name in (None, *KEYS)}


@pytest.fixture(scope="package")
def admin(clients: dict[str | None, httpx.Client]) -> httpx.Client:
    """A client that may do everything."""
    return clients["admin"]


@pytest.fixture(scope="package")
def guest(clients: dict[str | None, httpx.Client]) -> httpx.Client:
    """A client that may read `repo_a*`."""
    return clients["guest"]


@pytest.fixture(scope="package")
def team(clients: dict[str | None, httpx.Client]) -> httpx.Client:
    """A client that may do everything to `repo_*` and `shared`."""
    return clients["team"]


@pytest.fixture(scope="package")
def anonymous(clients: dict[str | None, httpx.Client]) -> httpx.Client:
    """A client without a key."""
    return clients[None]
