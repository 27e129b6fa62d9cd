"""Changes of a knowledge base while one of its documents is ingested, each in a fixed order of the transactions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec
import pytest
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_client import AsyncClient
from ragstore_gateway.database.database import Database
from ragstore_gateway.ingestion.documents import Documents, NewContent
from ragstore_gateway.ingestion.publication import Publication
from ragstore_gateway.ingestion.reindexing import Reindexing
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
