"""The keyword index of a base has the chunks of its visible revisions: no other ones, and all of them."""

from __future__ import annotations

import asyncio

import pytest

from tests.gateway.ingestion.conftest import new_base
from tests.gateway.ingestion.test_reindexing import changed, settled
from tests.support.ingestion import Base, EmbeddingServer, State, text_of, until
from tests.support.ledger import all_documents
from tests.support.servers import Served

pytestmark = pytest.mark.process


def stored(served: Served, collection: str, *documents: str) -> set[str]:
    """The ids of the chunks of documents in the store."""
    found = all_documents(served.url, collection)
    return {each["id"] for each in found if each["metadata"]["document_name"] in documents}


async def test_a_document_is_indexed_when_it_is_visible_and_not_before(
    base: Base, server: EmbeddingServer, state: State, ingesting: Served
) -> None:
    server.held = "a 1"
    ingestion = await base.ingest("a", text_of("a", 3))
    await until(lambda: server.waiting > 0)
    assert state.indexed(base.id) == {}
    server.held = "\0"
    await base.ended(ingestion)
    [collection] = state.collections(base.id)
    assert state.indexed(base.id) == {collection.id: stored(ingesting, collection.id, "a")}
    assert len(state.indexed(base.id)[collection.id]) == 3


async def test_a_replaced_document_is_indexed_with_its_new_content(base: Base, state: State, ingesting: Served) -> None:
    await base.completed("a", "old kettle")
    await base.completed("a", "new teapot")
    [collection] = state.collections(base.id)
    await until(lambda: len(stored(ingesting, collection.id, "a")) == 1)
    assert state.indexed(base.id) == {collection.id: stored(ingesting, collection.id, "a")}
    assert [hit["text"] for hit in await base.query("kettle teapot")] == ["new teapot"]


async def test_a_deleted_document_is_not_indexed(base: Base, state: State, ingesting: Served) -> None:
    await base.completed("a", text_of("a", 2))
    await base.completed("b", text_of("b", 2))
    await base.delete("a")
    [collection] = state.collections(base.id)
    assert state.indexed(base.id) == {collection.id: stored(ingesting, collection.id, "b")}


async def test_an_ingestion_that_fails_leaves_the_index_as_it_was(
    base: Base, server: EmbeddingServer, state: State
) -> None:
    await base.completed("a", "kettle")
    before = state.indexed(base.id)
    server.rejected = "poison"
    found = await base.ended(await base.ingest("a", "poison"))
    assert found["status"].startswith("failed")
    assert state.indexed(base.id) == before


async def test_a_new_collection_has_an_index_of_its_own_chunks(
    base: Base, server: EmbeddingServer, state: State, ingesting: Served
) -> None:
    await base.completed("a", text_of("a", 4))
    old = await settled(state, base, 4)
    tables = state.word_tables()
    await changed(base, chunkSize=200)
    new = await settled(state, base, 2)
    assert new != old
    assert state.indexed(base.id) == {new: stored(ingesting, new, "a")}
    assert len(state.word_tables()) == len(tables)


async def test_a_base_that_is_removed_leaves_no_index(server: EmbeddingServer, state: State, base: Base) -> None:
    tables = state.word_tables()
    await base.completed("a", "kettle")
    assert len(state.word_tables()) == len(tables) + 1
    version = (await base.client.get(base.path)).headers["X-Resource-URI"].rpartition("=")[2]
    response = await base.client.delete(f"{base.path}?version={version}&permanent=true")
    assert response.status_code == 200, response.text
    await until(lambda: state.word_tables() == tables)


async def test_the_title_and_the_heading_are_indexed_with_each_chunk(base: Base, state: State) -> None:
    html = "<html><head><title>Appliances</title></head><body><main><h2>Kettles</h2>" + "".join(
        f"<p>{'Paragraph ' * 8}{number}</p>" for number in range(4)
    )
    await base.completed("page", html, "text/html")
    await changed(base, retrieval="keyword")
    for word in ("appliances", "kettles"):
        assert len(await base.query(word)) == len(await base.query("paragraph"))


async def test_documents_of_an_earlier_version_are_indexed_in_the_background(
    client: object, base: Base, server: EmbeddingServer, state: State, ingesting: Served
) -> None:
    await base.completed("a", text_of("a", 3))
    await base.completed("large", text_of("large", 400))
    other = await new_base(base.client, server, chunkStrategy="layers")
    await other.completed("b", "# One\n\nkettle\n\n# Two\n\nteapot", "text/markdown")
    before = [state.indexed(each.id) for each in (base, other)]
    assert all(before)
    for table in ("keyword_chunk", "keyword_index"):
        state.write(f"DELETE FROM {table}")
    for table in state.word_tables():
        state.write(f"DROP TABLE {table}_terms")
        state.write(f"DROP TABLE {table}")
    state.write("UPDATE vector_collection_document SET has_keywords = false")
    for _ in range(300):
        if [state.indexed(each.id) for each in (base, other)] == before:
            break
        await asyncio.sleep(0.1)
    assert [state.indexed(each.id) for each in (base, other)] == before
    assert (await base.query("large 399"))[0]["text"].startswith("large 399 ")
