"""Knowledge bases and assistants, written to a gateway's database and store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import msgspec
from sqlalchemy import make_url

from ragstore_client import AsyncClient
from ragstore_gateway.app import create_embeddings
from ragstore_gateway.configurations.assistant import Assistant
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.database.database import Database
from ragstore_gateway.embeddings.embeddings import Embeddings
from ragstore_gateway.engines.assembly import Engines
from ragstore_gateway.engines.engine_collection import MetadataValue, Record
from ragstore_gateway.ingestion.collections import Collections, collection_of
from ragstore_gateway.ingestion.linked_collections import LinkedCollections
from ragstore_gateway.ingestion.revisions import Revisions
from ragstore_gateway.ingestion.search_priority import SearchPriority
from ragstore_gateway.ingestion.strays import Strays
from ragstore_gateway.ingestion.tables import DocumentRow
from ragstore_gateway.keywords.keyword_index import IndexedChunk, KeywordIndex, put_keywords
from ragstore_gateway.keywords.words import words
from ragstore_gateway.retrieval.hybrid_search import HybridSearch
from ragstore_gateway.retrieval.retriever import KnowledgeRetriever
from ragstore_gateway.retrieval.visible_search import VisibleSearch
from ragstore_gateway.settings import Settings


class Knowledge:
    """The state of a gateway, in the process of a test.

    Args:
        store: calls its store.
        settings: its settings; the defaults when None.
    """

    def __init__(self, database: Database, store: AsyncClient, settings: Settings | None = None) -> None:
        self.database = database
        self.embeddings: Embeddings = create_embeddings(settings or Settings())
        self.engines = Engines(self.embeddings.secrets, store)
        self.collections = Collections(database, self.embeddings, self.engines)
        self.bases = Configurations(database, "rags", KnowledgeBase)
        self.assistants = Configurations(database, "assistants", Assistant)
        self.linked = LinkedCollections(
            database, self.bases, self.embeddings, self.engines, self.collections, lambda _: True
        )
        self.revisions = Revisions(database)
        self.visible_search = VisibleSearch(self.revisions)
        self.strays = Strays(self.collections, self.revisions)
        self.keywords = KeywordIndex(database)
        self.hybrid_search = HybridSearch(self.visible_search, self.keywords, self.revisions)
        self.retriever = KnowledgeRetriever(
            self.collections, self.linked, self.hybrid_search, self.strays, SearchPriority()
        )

    async def base(self, name: str, texts: Sequence[str] = (), **fields: Any) -> Configuration[KnowledgeBase]:
        """A knowledge base with a document of one chunk for each text.

        Args:
            fields: further fields of its configuration, in JSON's names.
        """
        body = msgspec.convert({"name": name, "minScore": 0.0, **fields}, KnowledgeBase)
        base = await self.bases.create(body)
        if texts:
            await self.add(base, texts)
        return base

    async def add(self, base: Configuration[KnowledgeBase], texts: Sequence[str], *, visible: bool = True) -> None:
        """Add documents of one chunk each.

        Args:
            base: the knowledge base.
            visible: whether searches may find them.
        """
        async with self.database.session() as session:
            row = self.collections.new_row(base.id, base.version, base.body, "active")
            active = await self.collections.active(base.id)
            if active is None:
                session.add(row)
                await session.flush()
                active = collection_of(row)
        embedder = self.collections.embedder(active)
        vectors = await embedder.embed(list(texts), "document")
        active = await self.collections.with_dimension(active, vectors.shape[1])
        store = self.collections.open(active)
        await store.create()
        records: list[Record] = []
        for index, (text, vector) in enumerate(zip(texts, vectors, strict=True)):
            document, revision = str(uuid4()), str(uuid4())
            name = f"{base.body.name}-{index}.txt"
            metadata: dict[str, MetadataValue] = {
                "document_id": document,
                "revision": revision,
                "document_name": name,
                "chunk_index": 0,
            }
            records.append(Record(str(uuid4()), text, vector, metadata))
            async with self.database.session() as session:
                session.add(_document(document, base.id, f"{name}-{revision}", revision if visible else None))
                if visible:
                    chunk = IndexedChunk(records[-1].id, tuple(words(text)))
                    await put_keywords(session, active.id, {document: [chunk]})
        await store.write(records)

    async def assistant(self, name: str, **fields: Any) -> Configuration[Assistant]:
        """An assistant.

        Args:
            fields: further fields of its configuration, in JSON's names.
        """
        given = {"name": name, "model": "m", "tasks": [{"id": "answer", "enableWorkflowRag": True}], **fields}
        return await self.assistants.create(msgspec.convert(given, Assistant))


@asynccontextmanager
async def knowledge_of(database_url: str, store_url: str, settings: Settings | None = None) -> AsyncIterator[Knowledge]:
    """The state of a running gateway.

    Args:
        database_url: SQLAlchemy's URL of its database.
        store_url: address of its store.
        settings: its settings; the defaults when None.
    """
    database = Database(make_url(database_url))
    async with database.running(), AsyncClient(store_url) as store:
        knowledge = Knowledge(database, store, settings)
        async with knowledge.embeddings.running(), knowledge.strays.running():
            yield knowledge


def _document(id: str, base_id: str, name: str, revision: str | None) -> DocumentRow:
    now = datetime.now(UTC)
    return DocumentRow(
        id=id,
        base_id=base_id,
        name=name,
        current_revision=revision,
        current_sequence=1,
        last_sequence=1,
        last_ingestion=revision or "",
        media_type="text/plain",
        bytes=1,
        content_hash="",
        chunks=1,
        created_on=now,
        modified_on=now,
    )
