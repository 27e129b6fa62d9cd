"""Runs of a source without jobs: a test ends their ingestions itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

import msgspec
import sqlalchemy as sa

from ragstore_client import AsyncClient
from ragstore_gateway.app import create_secrets
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.source import Source, SourceSettings
from ragstore_gateway.database.database import Database
from ragstore_gateway.embeddings.embeddings import EmbeddingLimits, Embeddings
from ragstore_gateway.engines.assembly import Engines
from ragstore_gateway.extraction.extractor import Extractor
from ragstore_gateway.ingestion.acceptance import NewContent
from ragstore_gateway.ingestion.assembly import Ingestion
from ragstore_gateway.ingestion.tables import DocumentRow, IngestionRow
from ragstore_gateway.ingestion.transactions import COMPLETED, end_ingestion
from ragstore_gateway.secrets.connections import Connections
from ragstore_gateway.settings import Settings
from ragstore_gateway.sources.execution import SourceExecution
from ragstore_gateway.sources.runs import SourceRuns
from ragstore_gateway.sources.source_documents import SourceDocuments
from ragstore_gateway.sources.source_kind import SourceKind, Visits
from ragstore_gateway.sources.tables import SourceDocumentRow, SourceRunRow
from ragstore_gateway.sources.visit import CrawlEnd, Visit

BODY: Final = msgspec.convert(
    {"name": "tea", "sources": [{"name": "docs", "web": {"startUrl": "https://tea.example/"}}]}, KnowledgeBase
)


def visit_of(url: str) -> Visit:
    """A visit of a new page."""
    return Visit(
        url,
        "changed",
        content_hash=url.rjust(64)[-64:],
        links=(f"{url}/next",),
        media_type="text/plain",
        content=url.encode("utf-8", "replace"),
        is_new=True,
    )


class Pages:
    """Visits of new pages, all at the beginning of the run."""

    def __init__(self, urls: Sequence[str], reason: str = "", then: Callable[[], object] = lambda: None) -> None:
        self.end = CrawlEnd(complete=not reason, reason=reason)
        self._urls = urls
        self._then = then

    async def visits(self) -> AsyncGenerator[Visit, None]:
        """The visits."""
        for url in self._urls:
            yield visit_of(url)
        self._then()


class Site:
    """A base whose ingestions end only by `end_ingestions`: no jobs run.

    Args:
        max_waiting: maximum number of ingestions that have not ended.
        max_documents: maximum number of documents of the tenant of the base; None for no limit.
    """

    def __init__(self, database: Database, max_waiting: int = 1000, max_documents: int | None = None) -> None:
        tenants = {} if max_documents is None else {"tea": {"maxDocuments": max_documents}}
        settings = Settings(ingestion_max_waiting=max_waiting, tenants=tenants)
        connections = Connections()
        embeddings = Embeddings(create_secrets(settings, connections), connections, EmbeddingLimits(1, 1.0, 0))
        stores = Engines(embeddings.secrets, AsyncClient("http://127.0.0.1:1"))
        self.database = database
        self.bases = Configurations(database, "rags", KnowledgeBase)
        extractor = Extractor.from_settings(settings)
        ingestion = self._ingestion = Ingestion(settings, database, self.bases, embeddings, stores, extractor)
        self.runs = SourceRuns(database, ingestion.leases)
        self.documents = SourceDocuments(database, ingestion, self.runs)
        self.base_id = self.run_id = ""
        self.execution: SourceExecution | None = None

    async def run(
        self,
        urls: Sequence[str],
        settings: SourceSettings,
        reason: str = "",
        then: Callable[[], object] = lambda: None,
    ) -> str:
        """Execute a run over new pages until its end; its id. The visits end with a reason, and a call."""
        return await self.visit(Pages(urls, reason, then), settings)

    async def visit(self, visits: Visits, settings: SourceSettings) -> str:
        """Execute a run with these visits until its end; its id."""
        run = await self.claim()
        kind = SourceKind(lambda *_: visits, lambda url: url, lambda _: 2)
        self.execution = SourceExecution(
            run, BODY, Source(name="docs", settings=settings), kind, self.runs, self.documents
        )
        await self.execution.execute()
        return run.id

    async def claim(self) -> SourceRunRow:
        """Begin a run that a test executes itself."""
        self.base_id = self.base_id or (await self.bases.create(BODY, tenant="tea")).id
        run = await self.runs.claim(self.base_id, 1, "docs")
        assert run is not None
        self.run_id = run.id
        return run

    async def accept_of_a_person(self, document: NewContent) -> None:
        """Accept a document that no source requested."""
        await self._ingestion.ingest(self.base_id, document)

    async def read(self, run_id: str) -> SourceRunRow:
        """A run."""
        return await self.runs.read(self.base_id, "docs", run_id=run_id)

    async def waiting(self) -> int:
        """The number of ingestions that have not ended."""
        query = sa.select(sa.func.count()).select_from(IngestionRow).where(IngestionRow.finished_on.is_(None))
        async with self.database.reading() as session:
            return await session.scalar(query) or 0

    async def until_waiting(self, count: int) -> None:
        """Wait until a number of ingestions have begun."""
        while True:
            if await self.waiting() >= count:
                return
            await asyncio.sleep(0.02)

    async def until_stored(self, count: int) -> None:
        """Wait until a run has recorded a number of documents."""
        query = sa.select(sa.func.count()).select_from(SourceDocumentRow).where(SourceDocumentRow.content_hash != "")
        while True:
            async with self.database.reading() as session:
                if await session.scalar(query) == count:
                    return
            await asyncio.sleep(0.02)

    async def end_ingestions(self, name: str = "") -> None:
        """Complete the ingestions that have not ended, or one document's ingestion."""
        query = sa.select(IngestionRow).where(IngestionRow.finished_on.is_(None))
        if name:
            query = query.where(IngestionRow.document_name == name)
        async with self.database.session() as session:
            for row in await session.scalars(query):
                row.chunks = 1
                await end_ingestion(session, row, COMPLETED)

    async def set_published(self) -> None:
        """Let searches find all documents, as the job engine does."""
        async with self.database.session() as session:
            await session.execute(sa.update(DocumentRow).values(current_revision=DocumentRow.last_ingestion))
