"""Copies of bases with their documents: the kept texts are embedded again, and nothing is extracted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec
import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.errors import BaseTooLarge, QueueFull
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.ingestion.acceptance import Acceptance, NewContent, new_document, new_ingestion
from ragstore_gateway.ingestion.copies import copy_documents
from ragstore_gateway.ingestion.documents import Documents
from ragstore_gateway.ingestion.tables import DocumentTextRow
from ragstore_gateway.ingestion.tenant_storage import TenantStorage
from ragstore_gateway.tenants.errors import TenantBytesExceeded, TenantDocumentsExceeded
from ragstore_gateway.tenants.limits import LimitsByTenant
from tests.gateway.extraction.documents import FILES
from tests.support.ingestion import Base, EmbeddingServer, text_of, until
from tests.support.knowledge import Knowledge
from tests.support.problems import assert_problem

pytestmark = pytest.mark.process


async def copied(base: Base, **params: Any) -> Base:
    """A copy of a base."""
    response = await base.client.post(base.path, params={"documents": True, **params})
    assert response.status_code == 201, response.text
    return Base(base.client, response.headers["Location"].rpartition("/")[2].partition("?")[0])


async def complete(base: Base, documents: int) -> list[dict[str, Any]]:
    """The documents of a base when all of them are complete."""
    while True:
        found = await base.documents(limit=1000)
        if [each["status"] for each in found] == ["completed"] * documents:
            return found


def known(document: dict[str, Any]) -> dict[str, Any]:
    """The fields of a document that its copy has, too."""
    return {name: document[name] for name in ("name", "type", "bytes", "chunks", "hash", "searchable", "metadata")}


async def test_a_copy_has_the_documents_with_their_texts_and_metadata(base: Base) -> None:
    await base.completed("a.txt", text_of("copied", 3))
    await base.completed("manual.pdf", (FILES / "manual.pdf").read_bytes(), "application/pdf")
    path = f"{base.path}/ingest?documentName=b.txt&metadata=%7B%22team%22:%22kitchen%22%7D"
    response = await base.client.post(path, content=b"pots", headers={"Content-Type": "text/plain"})
    await base.ended(response.json()["ingestionId"])
    copy = await copied(base)
    found = await complete(copy, 3)
    assert [known(each) for each in found] == [known(each) for each in await base.documents()]
    assert {each["id"] for each in found}.isdisjoint(each["id"] for each in await base.documents())
    for name in ("a.txt", "manual.pdf", "b.txt"):
        text = await copy.client.get(f"{copy.path}/texts/{name}")
        assert text.json() == (await base.client.get(f"{base.path}/texts/{name}")).json()
    assert sorted(hit["text"] for hit in await copy.query("x")) == sorted(hit["text"] for hit in await base.query("x"))


async def test_a_copy_of_an_older_version_is_split_as_that_version_says(base: Base) -> None:
    body = (await base.client.get(base.path)).json()
    await base.client.put(f"{base.path}?version=1", json={**body, "chunkSize": 1000})
    await base.completed("a", text_of("older", 4))
    copy = await copied(base, version=1)
    assert [each["chunks"] for each in await complete(copy, 1)] == [4]
    assert [each["chunks"] for each in await base.documents()] == [1]


async def test_a_copy_and_its_original_do_not_share_documents(base: Base) -> None:
    await base.completed("a", "tea")
    copy = await copied(base)
    await complete(copy, 1)
    assert (await base.delete("a")).status_code == 204
    assert [hit["text"] for hit in await copy.query("tea")] == ["tea"]
    assert await base.query("tea") == []
    await copy.completed("a", "pots")
    assert [hit["text"] for hit in await copy.query("pots")] == ["pots"]


async def test_the_same_content_is_unchanged_in_a_copy(base: Base, server: EmbeddingServer) -> None:
    await base.completed("a", "tea is hot")
    copy = await copied(base)
    await complete(copy, 1)
    embedded = server.texts.total()
    assert (await copy.completed("a", "tea is hot"))["unchanged"]
    assert server.texts.total() == embedded


async def test_a_document_that_no_search_finds_is_not_copied(base: Base, server: EmbeddingServer) -> None:
    await base.completed("good", "tea")
    server.rejected = "never embedded"
    try:
        await base.ended(await base.ingest("bad", "never embedded"))
    finally:
        server.rejected = "\0"
    copy = await copied(base)
    assert [each["name"] for each in await complete(copy, 1)] == ["good"]


async def test_without_documents_a_copy_is_empty(base: Base) -> None:
    await base.completed("a", "tea")
    assert await (await copied(base, documents=False)).documents() == []


async def test_the_copies_of_documents_wait_as_others_do(base: Base, server: EmbeddingServer) -> None:
    await base.completed("a", "held copy")
    server.held = "held copy"
    try:
        copy = await copied(base)
        await until(lambda: server.waiting > 0)
        (entry,) = await copy.documents()
        assert (entry["status"], entry["searchable"]) == ("processing", False)
        (await copy.client.delete(f"{copy.path}/ingestion/{entry['ingestionId']}")).raise_for_status()
    finally:
        server.held = "\0"
    assert await copy.query("held") == []


async def test_a_base_in_an_existing_collection_is_not_copied_with_documents(client: httpx.AsyncClient) -> None:
    listed = (await client.get("/ragstore/rags/descriptors", params={"filter": "memory"})).json()
    path = next(each["resource"].partition("?")[0] for each in listed if each["name"] == "memory")
    response = await client.post(path, params={"documents": True})
    assert [each["path"] for each in assert_problem(response, 400, "invalid_request")["errors"]] == ["$.documents"]
    after = (await client.get("/ragstore/rags/descriptors", params={"filter": "memory"})).json()
    assert after == listed


@pytest.mark.parametrize("value", ["2", "maybe"])
async def test_documents_is_true_or_false(base: Base, value: str) -> None:
    response = await base.client.post(base.path, params={"documents": value})
    assert [each["path"] for each in assert_problem(response, 400, "invalid_request")["errors"]] == ["$.documents"]


async def filled(knowledge: Knowledge, documents: int) -> Configuration[KnowledgeBase]:
    """A base with documents that searches find."""
    base = await knowledge.base("limited")
    now = datetime.now(UTC)
    text = msgspec.msgpack.encode(Extracted("tea", "text/plain"))
    async with knowledge.database.session() as session:
        for number in range(documents):
            row = new_document(base.id, f"document {number}", now)
            new_ingestion(row, NewContent(row.name, "text/plain", b"tea", "limited"), "0" * 64, now)
            row.current_revision = f"revision-{number}"
            session.add(row)
            await session.flush()
            session.add(DocumentTextRow(revision=row.current_revision, document_id=row.id, extracted=text))
    return base


async def copy_within(
    knowledge: Knowledge, base: Configuration[KnowledgeBase], acceptance: Acceptance, tenant: str = ""
) -> str:
    """Copy a base with its documents for a tenant, within limits; the id of the copy."""

    async def also(session: AsyncSession, after: Configuration[KnowledgeBase]) -> None:
        await copy_documents(session, acceptance, base.id, after)

    return (await knowledge.bases.duplicate(base.id, also=also, tenant=tenant)).id


async def test_more_documents_than_may_wait_copy_nothing(knowledge: Knowledge) -> None:
    base = await filled(knowledge, 3)
    with pytest.raises(BaseTooLarge, match="kb export"):
        await copy_within(knowledge, base, Acceptance(2, 1000))
    assert await knowledge.bases.names() == ["limited"]


async def test_a_copy_waits_for_room_in_the_queue(knowledge: Knowledge) -> None:
    base = await filled(knowledge, 3)
    copy = await copy_within(knowledge, base, Acceptance(4, 1000))
    documents = Documents(knowledge.database, Acceptance(4, 1000))
    assert (await documents.documents(copy, 0, 10)).states["pending"] == 3
    with pytest.raises(QueueFull):
        await copy_within(knowledge, base, Acceptance(4, 1000))
    assert await knowledge.bases.names() == ["limited", "limited-copy"]
    # Each document has 3 bytes.
    with pytest.raises(QueueFull):
        await copy_within(knowledge, base, Acceptance(100, 10))


async def test_a_copy_beyond_the_limit_of_its_tenant_copies_nothing(knowledge: Knowledge) -> None:
    base = await filled(knowledge, 3)
    acceptance = Acceptance(
        100, 1000, TenantStorage(LimitsByTenant({"small": {"maxDocuments": 2}, "large": {"maxBytes": 17}}))
    )
    with pytest.raises(TenantDocumentsExceeded):
        await copy_within(knowledge, base, acceptance, "small")
    assert await knowledge.bases.names() == ["limited"]
    # Each document has 3 bytes.
    await copy_within(knowledge, base, acceptance, "large")
    with pytest.raises(TenantBytesExceeded):
        await copy_within(knowledge, base, acceptance, "large")
    assert await knowledge.bases.names() == ["limited", "limited-copy"]
