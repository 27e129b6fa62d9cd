"""Named engines: the settings describe them, and knowledge bases name them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from sqlalchemy import URL

from ragstore.kit.errors import InvalidRequest
from ragstore.kit.settings import SettingsError
from ragstore_client import AsyncClient
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.database.database import Database
from ragstore_gateway.embeddings.embeddings import EmbeddingLimits, Embeddings
from ragstore_gateway.engines.assembly import Engines
from ragstore_gateway.engines.named_engines import named_engines
from ragstore_gateway.errors import EngineMissing, StoreUnavailable
from ragstore_gateway.ingestion.collections import ACTIVE, Collections, collection_of
from ragstore_gateway.secrets.connections import Connections
from ragstore_gateway.secrets.secret_references import EnvironmentSource, SecretReferences
from ragstore_gateway.settings import load, shown

SECRETS = SecretReferences({"env": EnvironmentSource(environ={"SHARD_API_KEY": "canary-key"})})
NOBODY = "http://127.0.0.1:1"
SHARD: Mapping[str, object] = {"storeType": "ragstore", "baseUrl": NOBODY, "apiKey": "${env:SHARD_API_KEY}"}


def engines(client: AsyncClient, **given: Mapping[str, object]) -> Engines:
    """The engines of a gateway whose settings name some."""
    return Engines(SECRETS, client, 2, named=named_engines(given, SECRETS))


@pytest.fixture
async def own() -> AsyncIterator[AsyncClient]:
    """The client of the gateway's store, at an address where nothing listens."""
    async with AsyncClient(NOBODY, api_key=None, retries=0) as client:
        yield client


@pytest.fixture
async def database(tmp_path: Path) -> Database:
    """A database that no test opens."""
    return Database(URL.create("sqlite+aiosqlite", database=str(tmp_path / "gateway.db")))


def collections_of(database: Database, found: Engines) -> Collections:
    """The collections of a gateway with engines."""
    return Collections(database, Embeddings(SECRETS, Connections(), EmbeddingLimits()), found)


def base(**fields: object) -> KnowledgeBase:
    """A knowledge base."""
    return KnowledgeBase(name="tea", embedding_provider="ollama", embedding_parameters={"model": "m"}, **fields)  # type: ignore[arg-type]  # its own types


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"Shard 1": SHARD}, "$"),
        ({"shard-1": {}}, "$.shard-1.storeType"),
        ({"shard-1": {"storeType": "milvus"}}, "$.shard-1.storeType"),
        ({"shard-1": {"storeType": "in-memory"}}, "$.shard-1.storeType"),
        ({"shard-1": {**SHARD, "apiKey": "canary-literal"}}, "$.shard-1.apiKey"),
        ({"shard-1": {**SHARD, "baseUrl": "http://user:canary-literal@h"}}, "$.shard-1.baseUrl"),
        ({"shard-1": {**SHARD, "collection": "memory"}}, "$.shard-1.collection"),
        ({"shard-1": {"storeType": "ragstore", "apiKey": "${env:SHARD_API_KEY}"}}, "$.shard-1"),
        ({"shard-1": {"storeType": "pgvector", "password": "${env:SHARD_API_KEY}", "dimension": 4}}, "dimension"),
        ({"shard-1": {"storeType": "pgvector"}}, "$.shard-1.password"),
    ],
)
def test_a_wrong_named_engine_prevents_the_start_with_its_path(given: dict[str, dict[str, object]], path: str) -> None:
    with pytest.raises(SettingsError) as caught:
        named_engines(given, SECRETS)
    assert str(caught.value).startswith("RAGSTORE_GATEWAY_ENGINES is wrong: ")
    assert path in str(caught.value)
    assert "canary-literal" not in str(caught.value)


def test_the_settings_show_the_names_of_engines_only() -> None:
    given = '{"shard-1": {"storeType": "ragstore", "baseUrl": "http://canary-host", "apiKey": "${env:X}"}}'
    settings = load({"RAGSTORE_GATEWAY_ENGINES": given})
    assert shown(settings)["RAGSTORE_GATEWAY_ENGINES"] == '{"shard-1":"***"}'


async def test_a_base_may_name_an_engine_of_the_settings_and_no_parameters_beside_it(own: AsyncClient) -> None:
    found = engines(own, **{"shard-1": SHARD})
    found.check_named("shard-1", {})
    for name, parameters, path in (("shard-2", {}, "$.engine"), ("shard-1", {"table": "x"}, "$.storeParameters")):
        with pytest.raises(InvalidRequest) as caught:
            found.check_named(name, parameters)
        assert [error.path for error in caught.value.field_errors] == [path]


async def test_a_collection_keeps_the_name_of_its_engine_and_no_address(own: AsyncClient, database: Database) -> None:
    found = collections_of(database, engines(own, **{"shard-1": SHARD}))
    row = found.new_row("b", 1, base(engine="shard-1"), ACTIVE)
    assert row.store_parameters == {"engine": "shard-1"}


async def test_another_address_of_a_named_engine_needs_no_new_vectors(own: AsyncClient, database: Database) -> None:
    of_base = base(engine="shard-1")
    before = collections_of(database, engines(own, **{"shard-1": SHARD})).fingerprint(of_base)
    moved = {"storeType": "chroma", "baseUrl": "http://other:8000"}
    after = collections_of(database, engines(own, **{"shard-1": moved, "shard-2": moved}))
    assert after.fingerprint(of_base) == before
    assert after.fingerprint(base(engine="shard-2")) != before


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "761c35476d422c63ed29db35bb498305474a7b8f82654f9bab92a8562713d276"),
        (
            {"store_type": "chroma", "store_parameters": {"baseUrl": "http://h:1"}},
            "80a22e1e800221fbf8869da529eb709be7bbb3d55eae7ab9e72522d7da97eba8",
        ),
    ],
)
async def test_bases_of_earlier_versions_keep_their_vectors(
    own: AsyncClient, database: Database, fields: dict[str, object], expected: str
) -> None:
    assert collections_of(database, engines(own)).fingerprint(base(**fields)) == expected


async def test_the_collections_of_a_name_that_was_removed_are_503_until_it_is_back(
    own: AsyncClient, database: Database
) -> None:
    found = collections_of(database, engines(own, **{"shard-1": SHARD}))
    row = found.new_row("b", 1, base(engine="shard-1"), ACTIVE)
    with pytest.raises(EngineMissing) as caught:
        collections_of(database, engines(own)).open(collection_of(row))
    assert (caught.value.status, caught.value.code) == (503, "engine_missing")
    assert "'shard-1'" in caught.value.detail


async def test_another_store_that_is_away_is_unavailable_and_its_key_is_not_shown(own: AsyncClient) -> None:
    found = engines(own, **{"shard-1": SHARD})
    async with found.running():
        with pytest.raises(StoreUnavailable) as caught:
            await found.open("ragstore", {"engine": "shard-1"}, "kb_1", 4).count()
    assert "canary-key" not in f"{caught.value.detail} {caught.value.cause}"
