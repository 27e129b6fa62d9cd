"""The engines of the conformance suite, each with a server behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
import pytest

from ragstore_gateway.engines.conformance import Target
from ragstore_gateway.engines.engine_collection import EngineCollection
from tests.support.elasticsearch_server import ElasticsearchServer, elasticsearch_server
from tests.support.loop_threads import in_thread
from tests.support.mongodb_server import MongodbServer, mongodb_server
from tests.support.postgres import Postgres
from tests.support.servers import Served

if TYPE_CHECKING:
    from tests.support.qdrant_server import QdrantServer

ENGINES = ("ragstore", "in-memory", "chroma", "pgvector", "pgvector-hnsw", "qdrant", "elasticsearch", "mongodb-atlas")


@pytest.fixture(scope="package")
def vector_database(postgres: Postgres) -> Iterator[str]:
    """A database of PostgreSQL."""
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture(scope="package")
def qdrant() -> Iterator[QdrantServer]:
    """A server with Qdrant's interface."""
    # Qdrant's client takes half a second of each process that collects tests.
    from tests.support.qdrant_server import qdrant_server

    with in_thread(qdrant_server) as server:
        yield server


@pytest.fixture(scope="package")
def elasticsearch() -> Iterator[ElasticsearchServer]:
    """A server with a part of Elasticsearch's interface."""
    with in_thread(elasticsearch_server) as server:
        yield server


@pytest.fixture(scope="package")
def mongodb() -> Iterator[MongodbServer]:
    """A server with a part of MongoDB's interface."""
    with in_thread(mongodb_server) as server:
        yield server


@pytest.fixture(scope="package", params=ENGINES)
def target(request: pytest.FixtureRequest, gateway: Served) -> Target:
    """Each engine."""
    name: str = request.param
    parameters, environ = _parameters(request, name)
    is_durable = name != "in-memory"
    return Target(name.removesuffix("-hnsw"), parameters, environ, is_durable, ragstore_url=gateway.url)


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
async def new_collection(request: pytest.FixtureRequest, engine: str) -> AsyncIterator[EngineCollection]:
    """A new, empty collection of one engine, for what only that engine does.

    Args:
        request: finds the fixture of the engine.
        engine: one of `ENGINES` with an engine of its own.
    """
    parameters, environ = _parameters(request, engine)
    found = Target(engine.removesuffix("-hnsw"), parameters, environ)
    async with found.stack:
        opened = await found.open(f"kb-{uuid4().hex}")
        await opened.create()
        yield opened
        await opened.drop()
