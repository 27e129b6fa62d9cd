"""Moves of a base to another engine: its chunks are copied to the new store, without a gap for readers."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from ragstore_client.gateway import GatewayClient, KnowledgeBase
from ragstore_gateway.commands.cli import main
from ragstore_gateway.ingestion.tables import CollectionDocumentRow
from tests.gateway.ingestion.conftest import ENVIRON, new_base
from tests.gateway.ingestion.test_reindexing import changed, settled
from tests.support.gateways import start_gateway
from tests.support.ingestion import (
    Base,
    EmbeddingServer,
    State,
    client_of,
    collection_names,
    state_of,
    text_of,
    until,
)
from tests.support.ledger import all_documents
from tests.support.processes import kill
from tests.support.servers import Served, running

pytestmark = pytest.mark.process


@asynccontextmanager
async def reading(base: Base, texts: set[str]) -> AsyncIterator[Counter[int]]:
    """Search a base all the time. Each search must find exactly these texts, or further ones that are ingested."""
    results: Counter[int] = Counter()
    ended = asyncio.Event()

    async def search() -> None:
        while not ended.is_set():
            found = [hit["text"] for hit in await base.query("x", maxResults=50)]
            assert texts <= set(found), texts - set(found)
            assert len(found) == len(set(found))
            results[len(found)] += 1
            await asyncio.sleep(0.02)

    reader = asyncio.create_task(search())
    try:
        yield results
    finally:
        ended.set()
        await reader


def moved(url: str, base: str, engine: str) -> str:
    """The output of `kb move`."""
    run = CliRunner().invoke(main, ["kb", "move", base, engine, "--url", url])
    assert run.exit_code == 0, run.output
    return run.stdout


async def test_a_base_moves_to_another_store_and_back_while_readers_find_everything(
    client: httpx.AsyncClient, server: EmbeddingServer, state: State, ingesting: Served, gateway: Served
) -> None:
    base = await new_base(client, server, engine="own")
    await base.completed("small", text_of("small", 3))
    await base.completed("large", text_of("large", 40))
    old = await settled(state, base, 43)
    before = {each["id"]: each for each in all_documents(ingesting.url, old)}
    embedded = {each["text"]: server.texts[each["text"]] for each in before.values()}
    async with reading(base, set(embedded)) as results:
        await changed(base, engine="shard-1")
        await until(lambda: state.collections(base.id)[0].id != old)
        new = await settled(state, base, 43)
        await until(lambda: old not in collection_names(ingesting.url))
        copied = {each["id"]: each for each in all_documents(gateway.url, new)}
        output = await asyncio.to_thread(moved, ingesting.url, base.id, "own")
        assert output.endswith(": in own, version 3\n")
        assert [each.state for each in state.collections(base.id)] == ["active"]
        await until(lambda: new not in collection_names(gateway.url))
    assert results.total() > 0
    assert {text: server.texts[text] for text in embedded} == embedded
    vectors = {id: each.pop("embedding") for id, each in before.items()}
    for id, each in copied.items():
        # Engines scale vectors to length 1, which may change the last bit.
        assert each.pop("embedding") == pytest.approx(vectors[id], abs=1e-6)
    assert copied == before


async def test_documents_that_change_during_a_move_are_right_after_it_and_a_chunk_that_is_missing_is_embedded(
    client: httpx.AsyncClient, server: EmbeddingServer, state: State, ingesting: Served, gateway: Served
) -> None:
    base = await new_base(client, server, engine="shard-1")
    for name in ("kept", "lost", "replaced", "deleted"):
        await base.completed(name, text_of(f"moved {name}", 2))
    old = await settled(state, base, 8)
    [lost] = [each["id"] for each in all_documents(gateway.url, old) if each["text"].startswith("moved lost 1")]
    removed = await client.post(f"{gateway.url}/collections/{old}/documents/delete", json={"ids": [lost]})
    removed.raise_for_status()
    # The move cannot end before the missing chunk is embedded.
    server.held = "moved lost"
    kept = set(text_of("moved kept", 2).splitlines())
    async with reading(base, kept):
        await changed(base, engine="own")
        await until(lambda: server.waiting > 0)
        await base.completed("new", text_of("moved new", 2))
        await base.completed("replaced", text_of("moved again", 3))
        (await base.delete("deleted")).raise_for_status()
        assert (await base.progress())["reindexing"] > 0
        server.held = "\0"
        await until(lambda: state.collections(base.id)[0].id != old)
        new = await settled(state, base, 9)
    expected = kept | {
        line
        for name, count in (("lost", 2), ("new", 2), ("again", 3))
        for line in text_of(f"moved {name}", count).splitlines()
    }
    assert "reindexing" not in await base.progress()
    assert {hit["text"] for hit in await base.query("x", maxResults=50)} == expected
    assert {server.texts[text] for text in expected if "lost" not in text} == {1}
    await until(lambda: {each["text"] for each in all_documents(ingesting.url, new)} == expected)
    await until(lambda: old not in collection_names(gateway.url))


async def test_a_client_moves_a_base_by_a_new_version_and_sees_the_end(
    client: httpx.AsyncClient, server: EmbeddingServer, state: State, ingesting: Served
) -> None:
    base = await new_base(client, server)
    await base.completed("a", text_of("by a client", 3))
    old = await settled(state, base, 3)

    def move() -> None:
        with GatewayClient(ingesting.url) as gateway:
            body = KnowledgeBase(engine="shard-1", store_type="ragstore", store_parameters={})
            moved = gateway.bases.update(base.id, body)
            assert moved.configuration.engine == "shard-1"
            while gateway.ingestion_progress(moved).reindexing is not None:
                time.sleep(0.1)

    await asyncio.to_thread(move)
    assert state.collections(base.id)[0].id != old
    assert len(await base.query("x")) == 3


async def test_a_change_of_the_chunks_with_the_engine_embeds_them(
    base: Base, server: EmbeddingServer, state: State
) -> None:
    await base.completed("a", text_of("both changed", 4))
    old = await settled(state, base, 4)
    await changed(base, engine="shard-1", chunkSize=200)
    await until(lambda: state.collections(base.id)[0].id != old)
    await settled(state, base, 2)
    assert len(await base.query("x")) == 2


@pytest.mark.process
async def test_a_move_survives_kills_and_embeds_nothing_again(
    tmp_path: Path, server: EmbeddingServer, gateway: Served
) -> None:
    engines = {"own": {"storeType": "ragstore"}, "shard-1": {"storeType": "ragstore", "baseUrl": gateway.url}}
    environ = {**ENVIRON, "RAGSTORE_GATEWAY_ENGINES": json.dumps(engines)}
    names = [f"killed {number:02}" for number in range(12)]
    with running(start_gateway(tmp_path, environ)) as served, state_of(tmp_path) as state:
        async with client_of(served.url) as client:
            base = await new_base(client, server, engine="shard-1")
            for name in names:
                await base.completed(name, text_of(name, 5))
            old = await settled(state, base, 60)
            before = {each["id"]: each for each in all_documents(gateway.url, old)}
            # The move cannot end before a missing chunk is embedded, so each kill is in the middle of it.
            [lost] = [id for id, each in before.items() if each["text"].startswith("killed 11 1")]
            removed = await client.post(f"{gateway.url}/collections/{old}/documents/delete", json={"ids": [lost]})
            removed.raise_for_status()
            server.held = "killed 11"
            await changed(base, engine="own")
            await until(lambda: copied_documents(state, base) > 0)
        kill(served)
        with running(start_gateway(tmp_path, environ)) as second:
            await until(lambda: copied_documents(state, base) == len(names) - 1)
            kill(second)
        assert [each.state for each in state.collections(base.id) if each.id == old] == ["active"]
        server.held = "\0"
        with running(start_gateway(tmp_path, environ)) as third:
            async with client_of(third.url) as client:
                await until(lambda: state.collections(base.id)[0].id != old)
                new = await settled(state, Base(client, base.id), 60)
            after = {each["id"]: each for each in all_documents(third.url, new)}
            await until(lambda: old not in collection_names(gateway.url))
    assert {id: each["text"] for id, each in after.items()} == {id: each["text"] for id, each in before.items()}
    # The document with the missing chunk is embedded as a whole, and all others are copied.
    copied = {id: each for id, each in before.items() if not each["text"].startswith("killed 11")}
    assert len(copied) == 55
    for id, each in copied.items():
        assert server.texts[each["text"]] == 1
        assert after[id].pop("embedding") == pytest.approx(each.pop("embedding"), abs=1e-6)
        assert after[id] == each


def copied_documents(state: State, base: Base) -> int:
    """The number of documents of a base whose chunks are in the collection that a move fills."""
    building = [each.id for each in state.collections(base.id) if each.state == "building"]
    return len(state.rows(sa.select(CollectionDocumentRow).where(CollectionDocumentRow.collection_id.in_(building))))
