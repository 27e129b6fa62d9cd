"""Changes of a knowledge base while one of its documents is ingested, each in a fixed order of the transactions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
import sqlalchemy as sa
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_client import AsyncClient
from ragstore_gateway.database.database import Database
from ragstore_gateway.ingestion.collections import live_collections
from ragstore_gateway.ingestion.documents import Documents, NewContent
from ragstore_gateway.ingestion.ingestions import add_reindexing, end_ingestion
from ragstore_gateway.ingestion.publication import Publication
from ragstore_gateway.ingestion.reindexing import Reindexing
from ragstore_gateway.ingestion.schemas import entry_of
from ragstore_gateway.ingestion.tables import IngestionRow
from ragstore_gateway.knowledge.configuration import Configuration
from ragstore_gateway.knowledge.knowledge_base import KnowledgeBase
from tests.support.knowledge import Knowledge


@pytest.fixture
async def knowledge(database_url: str) -> AsyncIterator[Knowledge]:
    """The state of a gateway, whose collections follow the configurations."""
    database = Database(make_url(database_url))
    async with database.running(), AsyncClient("http://127.0.0.1:9") as store:
        found = Knowledge(database, store)
        found.bases.add_listener(Reindexing(found.collections, lambda: None))
        async with found.embeddings.running():
            yield found


@dataclass
class BeginsDuringChange:
    """Begins an ingestion in the transaction that changes its base."""

    publication: Publication
    ingestion_id: str
    task: asyncio.Task[None] | None = None

    async def changed(
        self, session: AsyncSession, before: Configuration[KnowledgeBase], after: Configuration[KnowledgeBase]
    ) -> None:
        """Begin the ingestion, which waits for the end of the transaction."""
        self.task = asyncio.create_task(self.publication.begin(self.ingestion_id))
        await asyncio.wait({self.task}, timeout=0.5)
        assert not self.task.done()

    async def deleted(self, session: AsyncSession, before: Configuration[KnowledgeBase], *, permanent: bool) -> None:
        """Nothing."""

    async def committed(self, id: str) -> None:
        """Nothing."""


async def test_an_ingestion_that_begins_during_the_change_of_an_empty_base_uses_the_new_configuration(
    knowledge: Knowledge,
) -> None:
    base = await knowledge.base("changed")
    documents = Documents(knowledge.database, 10)
    accepted = await documents.accept(base.id, NewContent("doc", "text/plain", b"tea", "alias"))
    during = BeginsDuringChange(Publication(knowledge.database, knowledge.collections), accepted.id)
    knowledge.bases.add_listener(during)
    body = msgspec.structs.replace(base.body, chunk_size=77)
    await knowledge.bases.update(base.id, 1, body)
    assert during.task is not None
    await during.task
    active = await knowledge.collections.active(base.id)
    assert active is not None
    assert active.chunking == body.chunking
    assert active.chunking != base.body.chunking


async def test_a_document_that_a_new_collection_lacks_is_tried_again_after_a_wait_that_doubles(
    knowledge: Knowledge,
) -> None:
    base = await knowledge.base("failing", ["tea"], storeType="in-memory")
    await knowledge.bases.update(base.id, 1, msgspec.structs.replace(base.body, chunk_size=77))
    documents = Documents(knowledge.database, 10)
    waits = [30, 60, 120]
    for wait in waits:
        assert await _repeat(knowledge, base.id) == 0
        failed_on = datetime.now(UTC)
        async with knowledge.database.session() as session:
            # The job that was added last is the only one that has not ended.
            row = (await session.scalars(sa.select(IngestionRow).where(IngestionRow.state == "pending"))).one()
            await end_ingestion(session, row, "failed", "Internal error")
        await _set_finished(knowledge, base.id, failed_on - timedelta(seconds=wait - 20))
        assert await _repeat(knowledge, base.id) == 0
        listed = (await documents.documents(base.id, 0, 10))[0][0]
        assert (listed.state, listed.reindexing_error) == ("completed", "Internal error")
        assert entry_of(listed).reindexing_error == "Internal error"
        assert await documents.find(base.id, listed.name) == listed
        await _set_finished(knowledge, base.id, failed_on - timedelta(seconds=wait))
        assert await _repeat(knowledge, base.id) == 1
    await knowledge.bases.update(base.id, 2, base.body)
    assert (await documents.documents(base.id, 0, 10))[0][0].reindexing_error == ""


async def _repeat(knowledge: Knowledge, base_id: str) -> int:
    async with knowledge.database.session() as session:
        building = next(row for row in await live_collections(session, base_id) if row.state == "building")
        return await add_reindexing(session, base_id, "name", building)


async def _set_finished(knowledge: Knowledge, base_id: str, finished_on: datetime) -> None:
    change = sa.update(IngestionRow).where(IngestionRow.base_id == base_id, IngestionRow.state == "failed")
    async with knowledge.database.session() as session:
        await session.execute(change.values(finished_on=finished_on))
