"""Fixtures of the conformance suite: each vector store, with a real engine behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from uuid import uuid4

import pytest

from ragstore_client import AsyncClient
from ragstore_gateway.secret_references import EnvironmentSource, SecretReferences
from ragstore_gateway.vector_stores.vector_store import VectorStore
from ragstore_gateway.vector_stores.vector_stores import VectorStores
from tests.support.servers import Served, running, start_service
from tests.support.vector_records import DIMENSION

ENGINES = ("ragstore", "in-memory")


@dataclass
class Engine:
    """A store type with its engine.

    Attributes:
        store_type: the store type.
        parameters: the parameters of a configuration.
        ragstore_url: address of the gateway's own store.
        environ: the environment that references to secrets are resolved in.
        stack: closes the opened stores.
    """

    store_type: str
    parameters: Mapping[str, object]
    ragstore_url: str
    environ: dict[str, str] = field(default_factory=dict)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def gateway(self) -> VectorStores:
        """The vector stores of a gateway that has just started."""
        client = await self.stack.enter_async_context(AsyncClient(self.ragstore_url, api_key=None, retries=0))
        secrets = SecretReferences({"env": EnvironmentSource(environ=self.environ)})
        stores = VectorStores(secrets, client, timeout_seconds=20)
        await self.stack.enter_async_context(stores.running())
        return stores

    async def open(self, collection: str, dimension: int = DIMENSION) -> VectorStore:
        """A collection, as a gateway that has just started sees it."""
        return (await self.gateway()).open(self.store_type, self.parameters, collection, dimension)


@pytest.fixture(scope="session")
def vector_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The store of the gateways."""
    with running(start_service(tmp_path_factory.mktemp("vector-service"))) as served:
        yield served


@pytest.fixture(params=ENGINES)
async def engine(request: pytest.FixtureRequest, vector_service: Served) -> AsyncIterator[Engine]:
    """Each store type, with its engine."""
    found = Engine(request.param, {}, vector_service.url)
    async with found.stack:
        yield found


@pytest.fixture
async def stores(engine: Engine) -> VectorStores:
    """The vector stores of one gateway."""
    return await engine.gateway()


@pytest.fixture
def collection() -> str:
    """A collection's name that no other test uses."""
    return f"kb-{uuid4().hex}"


@pytest.fixture
async def store(engine: Engine, stores: VectorStores, collection: str) -> AsyncIterator[VectorStore]:
    """A new, empty collection."""
    opened = stores.open(engine.store_type, engine.parameters, collection, DIMENSION)
    await opened.create()
    yield opened
    await opened.drop()
