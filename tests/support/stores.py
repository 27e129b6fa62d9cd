"""Every store that the suite runs over: one line each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ragstore.app import create_store
from ragstore.chroma.backend import Backend
from ragstore.chroma.chroma_store import ChromaStore
from ragstore.chroma.embedded.backend import EmbeddedBackend
from ragstore.chroma.http.backend import HttpBackend
from ragstore.chroma.layers.layered_backend import LayeredBackend
from ragstore.chroma.layers.retries import RetryLayer
from ragstore.settings import Settings
from ragstore.store.protocol import Store

MAX_BATCH_SIZE: Final = 1000
TENANT: Final = "store_tests"


@dataclass(frozen=True)
class StoreLocation:
    """Where a store keeps its documents. Two stores made for one index see the same documents if Chroma is a server.

    Attributes:
        folder: for embedded Chroma.
        chroma_url: address of a Chroma server.
        database: Chroma database.
    """

    folder: Path
    chroma_url: str
    database: str


def embedded_backend(folder: Path, timeout: float = 30.0) -> EmbeddedBackend:
    """Embedded Chroma under a folder."""
    return EmbeddedBackend(str(folder), TENANT, "store_tests", timeout)


def http_backend(
    url: str, database: str, headers: dict[str, str] | None = None, timeout: float = 30.0, connections: int = 16
) -> HttpBackend:
    """Chroma as a server."""
    return HttpBackend(url, TENANT, database, headers=headers or {}, timeout=timeout, connections=connections)


def exact(backend: Backend) -> Store:
    """The innermost store."""
    return ChromaStore(backend, MAX_BATCH_SIZE)


def with_retries(backend: Backend) -> LayeredBackend:
    """A backend whose calls are retried, as the service's are."""
    return LayeredBackend(backend, [RetryLayer(30)])


def stack(location: StoreLocation, url: str, connections: int = 64, timeout: float = 30.0) -> Store:
    """The store with all its layers."""
    return create_store(
        Settings(
            data_path=str(location.folder / "stack"),
            chroma_url=url,
            chroma_tenant=TENANT,
            chroma_database=location.database,
            chroma_connections=connections,
            chroma_timeout_seconds=timeout,
            max_batch_size=MAX_BATCH_SIZE,
        )
    )


Factory = Callable[[StoreLocation], Store]

STORES: Final[dict[str, Factory]] = {
    "embedded": lambda location: exact(embedded_backend(location.folder / "embedded")),
    "remote": lambda location: exact(http_backend(location.chroma_url, location.database)),
    "stack-embedded": lambda location: stack(location, ""),
    "stack-remote": lambda location: stack(location, location.chroma_url),
}
