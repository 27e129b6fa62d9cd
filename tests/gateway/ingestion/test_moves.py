"""Moves of a base to another engine: its chunks are copied to the new store, without a gap for readers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from click.testing import CliRunner

from ragstore_gateway.commands.cli import main
from tests.gateway.ingestion.conftest import new_base
from tests.gateway.ingestion.test_reindexing import changed, settled
from tests.support.ingestion import Base, EmbeddingServer, State, collection_names, text_of, until
from tests.support.ledger import all_documents
from tests.support.servers import Served


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
    async with reading(base, {each["text"] for each in before.values()}) as results:
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
    assert {server.texts[each["text"]] for each in before.values()} == {1}
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


async def test_a_change_of_the_chunks_with_the_engine_embeds_them(
    base: Base, server: EmbeddingServer, state: State
) -> None:
    await base.completed("a", text_of("both changed", 4))
    old = await settled(state, base, 4)
    await changed(base, engine="shard-1", chunkSize=200)
    await until(lambda: state.collections(base.id)[0].id != old)
    await settled(state, base, 2)
    assert len(await base.query("x")) == 2
