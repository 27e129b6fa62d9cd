"""Fixtures of the conformance suite: each vector store, with a real engine behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from uuid import uuid4

import psycopg
import pytest

from ragstore_client import AsyncClient
from ragstore_gateway.secrets.secret_references import EnvironmentSource, SecretReferences
from ragstore_gateway.vector_stores.vector_store import VectorStore
from ragstore_gateway.vector_stores.vector_stores import VectorStores
from tests.support.elasticsearch_server import ElasticsearchServer, elasticsearch_server
from tests.support.loop_threads import in_thread
from tests.support.mongodb_server import MongodbServer, mongodb_server
from tests.support.postgres import Postgres
from tests.support.qdrant_server import QdrantServer, qdrant_server
from tests.support.servers import Served
from tests.support.vector_records import DIMENSION

ENGINES = ("ragstore", "in-memory", "chroma", "pgvector", "pgvector-hnsw", "qdrant", "elasticsearch", "mongodb-atlas")


@dataclass
class Engine:
    """A store type with its engine.

    Attributes:
        parameters: the parameters of a configuration.
        ragstore_url: address of the store of a gateway.
        environ: the environment that references to secrets are resolved in.
        stack: closes the opened stores.
    """

    store_type: str
    parameters: Mapping[str, object]
    ragstore_url: str
    environ: dict[str, str] = field(default_factory=dict)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def start(self, timeout_seconds: float = 20) -> VectorStores:
        """The vector stores of a gateway that has just started."""
        client = await self.stack.enter_async_context(AsyncClient(self.ragstore_url, api_key=None, retries=0))
        secrets = SecretReferences({"env": EnvironmentSource(environ=self.environ)})
        stores = VectorStores(secrets, client, timeout_seconds)
        await self.stack.enter_async_context(stores.running())
        return stores

    async def open(self, collection: str, dimension: int = DIMENSION) -> VectorStore:
        """A collection, as a gateway that has just started sees it."""
        return (await self.start()).open(self.store_type, self.parameters, collection, dimension)


@pytest.fixture(scope="session")
def vector_database(postgres: Postgres) -> Iterator[str]:
    """A database of PostgreSQL."""
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture(scope="session")
def qdrant() -> Iterator[QdrantServer]:
    """A server with Qdrant's interface."""
    with in_thread(qdrant_server) as server:
        yield server


@pytest.fixture(scope="session")
def elasticsearch() -> Iterator[ElasticsearchServer]:
    """A server with a part of Elasticsearch's interface."""
    with in_thread(elasticsearch_server) as server:
        yield server


@pytest.fixture(scope="session")
def mongodb() -> Iterator[MongodbServer]:
    """A server with a part of MongoDB's interface."""
    with in_thread(mongodb_server) as server:
        yield server


@pytest.fixture(scope="session", params=ENGINES)
async def engine(request: pytest.FixtureRequest, gateway: Served) -> AsyncIterator[Engine]:
    """Each store type, with its engine."""
    name: str = request.param
    store_type = name.removesuffix("-hnsw")
    parameters, environ = _parameters(request, name)
    found = Engine(store_type, parameters, gateway.url, environ)
    async with found.stack:
        yield found


def _parameters(request: pytest.FixtureRequest, engine: str) -> tuple[dict[str, object], dict[str, str]]:
    """The parameters of a configuration, and the variables that it refers to."""
    match engine:
        case "chroma":
            chroma: Served = request.getfixturevalue("chroma")
            return {"baseUrl": chroma.url, "databaseName": "vector_stores"}, {}
        case "pgvector" | "pgvector-hnsw":
            parts = psycopg.conninfo.conninfo_to_dict(request.getfixturevalue("vector_database"))
            index = "hnsw" if engine.endswith("hnsw") else "exact"
            where = {"host": parts["host"], "database": parts["dbname"], "user": parts["user"]}
            return {**where, "index": index, "password": "${env:PG_PASSWORD}"}, {"PG_PASSWORD": "not-checked"}
        case "qdrant":
            server: QdrantServer = request.getfixturevalue("qdrant")
            reference = "${env:QDRANT_KEY}"
            return {"host": "127.0.0.1", "port": server.port, "apiKey": reference}, {"QDRANT_KEY": "qdrant-key"}
        case "elasticsearch":
            search: ElasticsearchServer = request.getfixturevalue("elasticsearch")
            return {"serverUrl": search.url, "apiKey": "${env:ELASTIC_KEY}"}, {"ELASTIC_KEY": "elastic-key"}
        case "mongodb-atlas":
            mongo: MongodbServer = request.getfixturevalue("mongodb")
            return {"connectionString": "${env:MONGODB_URL}"}, {"MONGODB_URL": mongo.url}
    return {}, {}


@asynccontextmanager
async def new_collection(request: pytest.FixtureRequest, engine: str) -> AsyncIterator[VectorStore]:
    """A new, empty collection of one engine, for what only that engine does.

    Args:
        request: finds the fixture of the engine.
        engine: one of `ENGINES` with an engine of its own.
    """
    parameters, environ = _parameters(request, engine)
    found = Engine(engine.removesuffix("-hnsw"), parameters, "http://127.0.0.1:9", environ)
    async with found.stack:
        opened = await found.open(f"kb-{uuid4().hex}")
        await opened.create()
        yield opened
        await opened.drop()


@pytest.fixture(scope="session")
async def stores(engine: Engine) -> VectorStores:
    """The vector stores of one gateway."""
    return await engine.start()


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
