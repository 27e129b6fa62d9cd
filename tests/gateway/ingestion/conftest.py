"""A gateway whose knowledge bases are embedded by a server that counts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.support.gateways import start_gateway
from tests.support.ingestion import Base, EmbeddingServer, State, client_of, state_of
from tests.support.knowledge import Knowledge, knowledge_of
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, running

ENVIRON = {
    "RAGSTORE_GATEWAY_INGESTION_LEASE_SECONDS": "2",
    "RAGSTORE_GATEWAY_INGESTION_CONCURRENCY": "4",
    "RAGSTORE_GATEWAY_INGESTION_RETRY_SECONDS": "2",
    "RAGSTORE_GATEWAY_MAX_DOCUMENT_CHUNKS": "500",
    "RAGSTORE_GATEWAY_EMBEDDING_CACHE_BYTES": "0",
}


@pytest.fixture
async def knowledge(database_url: str) -> AsyncIterator[Knowledge]:
    """An empty database, in which no process ingests."""
    async with knowledge_of(database_url, "http://127.0.0.1:9") as state:
        yield state


@pytest.fixture(scope="package")
def ingesting_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the gateway."""
    return tmp_path_factory.mktemp("ingesting")


@pytest.fixture(scope="package")
@starts_process
def ingesting(ingesting_folder: Path, gateway: Served) -> Iterator[Served]:
    """A gateway with SQLite, a store in its process, and two named engines: this store, and the store of `gateway`."""
    engines = {"own": {"storeType": "ragstore"}, "shard-1": {"storeType": "ragstore", "baseUrl": gateway.url}}
    environ = {**ENVIRON, "RAGSTORE_GATEWAY_ENGINES": json.dumps(engines)}
    with running(start_gateway(ingesting_folder, environ)) as served:
        yield served


@pytest.fixture(scope="package")
def state(ingesting: Served, ingesting_folder: Path) -> Iterator[State]:
    """The gateway's database."""
    with state_of(ingesting_folder) as found:
        yield found


@pytest.fixture
async def client(ingesting: Served) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the gateway."""
    async with client_of(ingesting.url) as found:
        yield found


@pytest.fixture
async def base(client: httpx.AsyncClient, server: EmbeddingServer) -> Base:
    """A new knowledge base."""
    return await new_base(client, server)


async def new_base(client: httpx.AsyncClient, server: EmbeddingServer, **fields: object) -> Base:
    """A new knowledge base, embedded by the server."""
    provider = {"embeddingProvider": "tei", "embeddingParameters": {"baseUrl": server.url}}
    return await Base.create(client, **{"name": f"base {uuid4().hex[:12]}", **provider, **fields})
