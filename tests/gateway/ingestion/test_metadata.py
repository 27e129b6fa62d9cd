"""The metadata that callers give to documents: which ingestion writes which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from ragstore_gateway.ingestion.acceptance import Acceptance, NewContent
from ragstore_gateway.ingestion.document_metadata import metadata_of_attributes
from ragstore_gateway.ingestion.documents import Documents
from ragstore_gateway.ingestion.metadata_changes import change_metadata
from ragstore_gateway.ingestion.tables import DocumentRow, DocumentTextRow, IngestionPayloadRow, IngestionRow
from tests.support.knowledge import Knowledge

OWN = {"session_id": "s-1"}
OTHER = {"session_id": "s-2"}


async def accepted(knowledge: Knowledge, base_id: str, metadata: Mapping[str, Any] | None) -> IngestionRow:
    documents = Documents(knowledge.database, Acceptance(10, 1000))
    return await documents.accept(base_id, NewContent("doc", "text/plain", b"tea", "alias", metadata))


async def changed(knowledge: Knowledge, metadata: Mapping[str, Any]) -> Sequence[IngestionRow]:
    """Change the metadata of the document; all ingestions, in order."""
    async with knowledge.database.session() as session:
        document = (await session.scalars(sa.select(DocumentRow))).one()
        await change_metadata(session, document, metadata, "alias")
    async with knowledge.database.reading() as session:
        return list(await session.scalars(sa.select(IngestionRow).order_by(IngestionRow.sequence)))


async def test_an_ingestion_without_metadata_keeps_what_the_document_has(knowledge: Knowledge) -> None:
    base = await knowledge.base("docs")
    found = [(await accepted(knowledge, base.id, given)).own_metadata for given in (OWN, None, {}, None)]
    assert found == [OWN, OWN, {}, {}]


async def test_a_change_during_an_ingestion_ingests_its_content_once_more(knowledge: Knowledge) -> None:
    base = await knowledge.base("docs")
    first = await accepted(knowledge, base.id, OWN)
    _, second = await changed(knowledge, OTHER)
    assert (second.own_metadata, second.content_hash, second.bytes) == (OTHER, first.content_hash, 3)
    async with knowledge.database.reading() as session:
        contents = {row.ingestion_id: row.data for row in await session.scalars(sa.select(IngestionPayloadRow))}
    assert contents == {first.id: b"tea", second.id: b"tea"}
    assert len(await changed(knowledge, OTHER)) == 2, "the same metadata changes nothing"


async def test_a_change_of_a_complete_document_splits_its_text_once_more(knowledge: Knowledge) -> None:
    base = await knowledge.base("docs")
    first = await accepted(knowledge, base.id, OWN)
    async with knowledge.database.session() as session:
        document = (await session.scalars(sa.select(DocumentRow))).one()
        document.current_revision = first.revision
        ended = await session.get_one(IngestionRow, first.id)
        ended.state = "completed"
        session.add(DocumentTextRow(revision=first.revision, document_id=document.id, extracted=b"text"))
    assert len(await changed(knowledge, OWN)) == 1
    _, second = await changed(knowledge, OTHER)
    # A further change before it has begun copies the text again.
    *_, third = await changed(knowledge, OWN)
    async with knowledge.database.reading() as session:
        texts = {row.revision: row.extracted for row in await session.scalars(sa.select(DocumentTextRow))}
    assert texts == dict.fromkeys((first.revision, second.revision, third.revision), b"text")


def test_chunks_have_the_attributes_that_engines_can_store() -> None:
    kept = {"topic": "tea", "year": 2026, "public": True}
    dropped = {"document_id": "x", "chroma:a": 1, "$a": 1, "nul": "\0", "large": 2**70, "endless": float("inf")}
    assert metadata_of_attributes({**kept, **dropped}) == kept
