"""PostgreSQL beyond the conformance suite: poolers, the limits of an index, roles, broken connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import numpy as np
import psycopg
import pytest

from ragstore_gateway.engines.assembly import Engines
from ragstore_gateway.engines.conformance import Target
from ragstore_gateway.engines.conformance.records import DIMENSION, QUESTION, numbers, record, record_id
from ragstore_gateway.engines.engine_collection import EngineCollection, Record
from ragstore_gateway.engines.names import physical_name
from ragstore_gateway.errors import StoreUnavailable
from tests.support.pooler import pooler

pytestmark = pytest.mark.process

CONNECTIONS = "pg_stat_activity WHERE datname = current_database() AND application_name = 'ragstore-gateway'"


def parameters_of(url: str, **others: object) -> dict[str, object]:
    """The parameters of a configuration for a database."""
    parts = psycopg.conninfo.conninfo_to_dict(url)
    where = {"host": parts["host"], "database": parts["dbname"], "user": parts["user"]}
    return {**where, "password": "${env:PG}", **others}


@asynccontextmanager
async def opened(parameters: Mapping[str, object]) -> AsyncIterator[Engines]:
    """The engines of a gateway."""
    engine = Target("pgvector", parameters, {"PG": "not-checked"})
    async with engine.stack:
        yield await engine.start()


def execute(url: str, statement: str) -> list[tuple[object, ...]]:
    """Run a statement, and return its rows."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


async def test_a_pooler_between_the_gateway_and_postgresql_is_supported(postgres_url: str) -> None:
    folder = psycopg.conninfo.conninfo_to_dict(postgres_url)["host"]
    async with pooler(f"{folder}/.s.PGSQL.5432") as proxy:
        parameters = parameters_of(postgres_url, index="hnsw") | {"host": "127.0.0.1", "port": proxy.port}
        async with opened(parameters) as stores:
            store = stores.open("pgvector", parameters, "pooled", DIMENSION)
            await store.create()
            for _ in range(7):  # a driver prepares what it has executed five times
                await store.write([record(1), record(2)])
                assert numbers(await store.search(QUESTION, 1, where={"document_id": "d2"})) == [2]
                assert await store.count() == 2
            assert await store.delete({"document_id": "d1"}) == 1
            await store.drop()
        assert (proxy.connections, proxy.violations) == (1, [])


async def test_a_filter_that_the_index_gives_up_on_finds_all_of_its_records(postgres_url: str) -> None:
    # The search of the index ends when it has used this memory, after some hundred rows.
    execute(postgres_url, f"ALTER DATABASE {postgres_url.partition('?')[0].rpartition('/')[2]} SET work_mem = '64kB'")
    parameters = parameters_of(postgres_url, index="hnsw")
    async with opened(parameters) as stores:
        store = stores.open("pgvector", parameters, "far", DIMENSION)
        await store.create()
        table = physical_name("eddi_kb", "far")
        execute(
            postgres_url,
            f"INSERT INTO \"{table}\" SELECT lpad(to_hex(i), 32, '0')::uuid, 't', "
            "json_build_object('document_id', 'd', 'rank', i)::jsonb, "
            "format('[%s,%s,0,0]', cos(i / 1000.0), sin(i / 1000.0))::vector FROM generate_series(1, 2000) AS i",
        )
        execute(postgres_url, f'ANALYZE "{table}"')
        passages = await store.search(QUESTION, 10, where={"rank": {"$gt": 1994}})
        assert numbers(passages) == [1995, 1996, 1997, 1998, 1999, 2000]


@pytest.mark.parametrize(("dimension", "type_"), [(2000, "vector"), (3072, "halfvec"), (4001, None)])
async def test_vectors_of_up_to_4000_dimensions_have_an_index(
    postgres_url: str, dimension: int, type_: str | None
) -> None:
    parameters = parameters_of(postgres_url, index="hnsw")
    vectors = np.eye(5, dimension, dtype=np.float32) + np.linspace(0, 1, 5, dtype=np.float32)[:, None]
    async with opened(parameters) as stores:
        store = stores.open("pgvector", parameters, "long", dimension)
        await store.create()
        await store.write([Record(record_id(n), "t", vectors[n], {"n": n, "document_id": "d"}) for n in range(5)])
        found = await store.search(vectors[0], 3)
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        expected = (1 + unit @ unit[0]) / 2
        order = np.argsort(-expected, kind="stable")[:3]
        assert numbers(found) == order.tolist()
        assert [passage.relevance for passage in found] == pytest.approx(expected[order], abs=2e-6)
        assert numbers(await store.search(vectors[0], 3, where={"n": {"$gt": 3}})) == [4]
    indexes = [str(row[0]) for row in execute(postgres_url, "SELECT indexdef FROM pg_indexes WHERE indexdef ~ 'hnsw'")]
    assert [f"{type_}_ip_ops" in each for each in indexes] == ([True] if type_ else [])


async def test_a_user_without_the_right_to_create_is_an_error_that_says_so(postgres_url: str) -> None:
    execute(postgres_url, "CREATE EXTENSION vector; CREATE ROLE reader LOGIN")
    try:
        parameters = parameters_of(postgres_url) | {"user": "reader"}
        async with opened(parameters) as stores:
            with pytest.raises(StoreUnavailable, match=r"does not permit .* \(SQLSTATE 42501\)"):
                await stores.open("pgvector", parameters, "denied", DIMENSION).create()
    finally:
        execute(postgres_url, "DROP ROLE reader")


async def test_configurations_that_differ_in_names_share_their_connections(postgres_url: str) -> None:
    async with opened({}) as stores:
        for table, index in (("first", "exact"), ("second", "hnsw"), ("third", "exact")):
            store = stores.open("pgvector", parameters_of(postgres_url, table=table, index=index), "kb", DIMENSION)
            await store.create()
            await store.write([record(1)])
        assert execute(postgres_url, f"SELECT count(*) FROM {CONNECTIONS}") == [(1,)]


async def test_connections_that_broke_are_replaced(postgres_url: str) -> None:
    parameters = parameters_of(postgres_url)
    async with opened(parameters) as stores:
        store: EngineCollection = stores.open("pgvector", parameters, "kb", DIMENSION)
        await store.create()
        assert execute(postgres_url, f"SELECT pg_terminate_backend(pid) FROM {CONNECTIONS}") == [(True,)]
        await store.write([record(1)])
        assert await store.count() == 1
