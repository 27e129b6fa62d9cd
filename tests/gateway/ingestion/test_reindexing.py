"""Changes of a base's model, chunking or store: its documents move to a new collection without a gap for readers."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import pytest

from tests.gateway.ingestion.conftest import new_base
from tests.support.ingestion import WAIT_SECONDS, Base, EmbeddingServer, State, collection_names, text_of, until
from tests.support.ledger import all_documents
from tests.support.servers import Served

pytestmark = pytest.mark.process


async def changed(base: Base, **fields: Any) -> None:
    """Write a new version of a base."""
    response = await base.client.get(base.path)
    version = response.headers["X-Resource-URI"].rpartition("=")[2]
    body = {**response.json(), **fields}
    written = await base.client.put(f"{base.path}?version={version}", json=body)
    assert written.status_code == 200, written.text


async def settled(state: State, base: Base, chunks: int) -> str:
    """Wait until a base has one collection with this many chunks of its documents.

    Returns:
        The name of the collection.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        found = state.collections(base.id)
        if len(found) == 1 and found[0].state == "active" and state.chunks(base.id) == chunks:
            return str(found[0].id)
        assert time.monotonic() < deadline, (found, state.chunks(base.id))
        await asyncio.sleep(0.1)


async def test_searches_use_the_old_collection_until_the_new_one_is_complete(
    base: Base, server: EmbeddingServer, state: State, ingesting: Served
) -> None:
    await base.completed("a", text_of("a", 4))
    await base.completed("b", text_of("b", 4))
    old = await settled(state, base, 8)
    server.held = "b 0"
    await changed(base, chunkSize=200)
    await until(lambda: server.waiting > 0)
    hits = await base.query("x")
    assert len(hits) == 8
    assert max(len(hit["text"]) for hit in hits) <= 100
    server.held = "\0"
    new = await settled(state, base, 4)
    assert new != old
    assert len(await base.query("x")) == 4
    await until(lambda: old not in collection_names(ingesting.url))
    assert len(all_documents(ingesting.url, new)) == 4


async def test_the_new_model_embeds_and_answers(base: Base, server: EmbeddingServer, state: State) -> None:
    await base.completed("a", "tea is brewed in the kitchen")
    old = await settled(state, base, 1)
    await changed(base, embeddingProvider="local", embeddingParameters={})
    await until(lambda: state.collections(base.id)[0].id != old)
    await settled(state, base, 1)
    assert state.collections(base.id)[0].dimension == 256
    assert [hit["text"] for hit in await base.query("tea")] == ["tea is brewed in the kitchen"]


async def test_a_document_that_is_ingested_meanwhile_is_in_both_collections(
    base: Base, server: EmbeddingServer, state: State
) -> None:
    await base.completed("a", text_of("a", 2))
    server.held = "a 0"
    await changed(base, chunkSize=200)
    await until(lambda: server.waiting > 0)
    await base.completed("b", text_of("b", 2))
    assert {hit["metadata"]["document_name"] for hit in await base.query("x")} == {"a", "b"}
    server.held = "\0"
    await settled(state, base, 2)
    assert {hit["metadata"]["document_name"] for hit in await base.query("x")} == {"a", "b"}


async def test_a_further_change_replaces_the_one_in_progress(base: Base, server: EmbeddingServer, state: State) -> None:
    await base.completed("a", text_of("a", 6))
    first = await settled(state, base, 6)
    server.held = "a 0"
    await changed(base, chunkSize=200)
    await until(lambda: server.waiting > 0)
    await changed(base, chunkSize=300)
    server.held = "\0"
    assert await settled(state, base, 2) != first


async def test_a_change_back_keeps_the_collection(base: Base, server: EmbeddingServer, state: State) -> None:
    await base.completed("a", text_of("a", 2))
    before = await settled(state, base, 2)
    server.held = "a 0"
    await changed(base, chunkSize=200)
    await changed(base, chunkSize=100)
    server.held = "\0"
    assert await settled(state, base, 2) == before
    assert len(await base.query("x")) == 2


async def test_a_change_of_anything_else_embeds_nothing(base: Base, server: EmbeddingServer, state: State) -> None:
    await base.completed("a", "only once")
    before = await settled(state, base, 1)
    await changed(base, maxResults=7, description="another one")
    assert await settled(state, base, 1) == before
    assert server.texts["only once"] == 1


async def test_a_change_of_an_empty_base_needs_no_documents(
    client: httpx.AsyncClient, server: EmbeddingServer, state: State
) -> None:
    base = await new_base(client, server)
    await changed(base, chunkSize=50)
    await base.completed("a", "tea")
    await base.delete("a")
    await changed(base, chunkSize=60)
    await base.completed("b", "coffee")
    assert [hit["text"] for hit in await base.query("x")] == ["coffee"]
