"""Knowledge bases in named engines: their chunks are in the store that the settings name."""

from __future__ import annotations

import httpx
import pytest

from tests.gateway.ingestion.conftest import new_base
from tests.support.ingestion import EmbeddingServer, State, collection_names, text_of, until
from tests.support.ledger import all_documents
from tests.support.problems import assert_problem, paths_of
from tests.support.servers import Served

pytestmark = pytest.mark.process


async def test_the_chunks_of_a_base_are_in_the_store_that_its_engine_names(
    client: httpx.AsyncClient, server: EmbeddingServer, state: State, ingesting: Served, gateway: Served
) -> None:
    base = await new_base(client, server, engine="shard-1")
    await base.completed("a", text_of("a", 3))
    [collection] = state.collections(base.id)
    assert len(all_documents(gateway.url, collection.id)) == 3
    assert collection.id not in collection_names(ingesting.url)
    assert len(await base.query("x")) == 3
    (await client.delete(f"{base.path}?permanent=true")).raise_for_status()
    await until(lambda: collection.id not in collection_names(gateway.url))


async def test_the_configuration_has_the_name_of_the_engine_and_its_type(
    client: httpx.AsyncClient, server: EmbeddingServer, gateway: Served
) -> None:
    base = await new_base(client, server, engine="shard-1")
    response = await client.get(base.path)
    stored = response.json()
    assert (stored["engine"], stored["storeType"], stored["storeParameters"]) == ("shard-1", "ragstore", {})
    assert gateway.url not in response.text


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"chunkSize": 200}, "shard-1"),
        ({"chunkSize": 200, "storeType": "ragstore", "storeParameters": {}}, "shard-1"),
        ({"engine": ""}, ""),
        ({"storeType": "in-memory"}, ""),
    ],
)
async def test_a_new_version_that_chooses_no_store_keeps_the_engine(
    client: httpx.AsyncClient, server: EmbeddingServer, fields: dict[str, object], expected: str
) -> None:
    base = await new_base(client, server, engine="shard-1")
    stored = (await client.get(base.path)).json()
    body = {name: stored[name] for name in ("name", "embeddingProvider", "embeddingParameters")}
    written = await client.put(f"{base.path}?version=1", json={**body, **fields})
    assert written.json()["engine"] == expected, written.text


async def test_a_name_that_the_settings_do_not_have_is_rejected_with_its_path(client: httpx.AsyncClient) -> None:
    response = await client.post("/ragstore/rags", json={"name": "unknown engine", "engine": "shard-2"})
    assert paths_of(assert_problem(response, 400, "invalid_request")) == ["$.engine"]
    assert response.json()["errors"][0]["message"] == "Must be one of own, shard-1"
