"""`Ingestion`: accepts, cancels and deletes documents, and runs their jobs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.claims.leases import Leases, executor_id
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.database.database import Database
from ragstore_gateway.embeddings.embeddings import Embeddings
from ragstore_gateway.engines.assembly import Engines
from ragstore_gateway.errors import DatabaseUnavailable
from ragstore_gateway.extraction.extractor import Extractor
from ragstore_gateway.ingestion.acceptance import Acceptance, NewContent, NotAccepted
from ragstore_gateway.ingestion.chunk_copies import ChunkCopies
from ragstore_gateway.ingestion.collections import Collections
from ragstore_gateway.ingestion.copies import copy_documents
from ragstore_gateway.ingestion.documents import AlsoStore, Choice, Documents
from ragstore_gateway.ingestion.embedding_requests import EmbeddingRequests
from ragstore_gateway.ingestion.group_acceptance import GroupAcceptance
from ragstore_gateway.ingestion.jobs import Jobs
from ragstore_gateway.ingestion.keyword_backfill import KeywordBackfill
from ragstore_gateway.ingestion.linked_collections import LinkedCollections
from ragstore_gateway.ingestion.pipeline import Pipeline
from ragstore_gateway.ingestion.publication import Publication
from ragstore_gateway.ingestion.queue import IngestionQueue
from ragstore_gateway.ingestion.recorded_ingestion import RecordedIngestion
from ragstore_gateway.ingestion.reindexing import Reindexing
from ragstore_gateway.ingestion.removals import Removals
from ragstore_gateway.ingestion.retries import Retries
from ragstore_gateway.ingestion.search_priority import SearchPriority
from ragstore_gateway.ingestion.shared_ingestion import SharedIngestion
from ragstore_gateway.ingestion.supervisor import Supervisor
from ragstore_gateway.ingestion.tables import IngestionRow
from ragstore_gateway.ingestion.tenant_storage import FileSizes, TenantStorage
from ragstore_gateway.ingestion.tenant_usage import TenantUsage
from ragstore_gateway.ingestion.text_tools import TextTools
from ragstore_gateway.ingestion.trial_splits import TrialSplits
from ragstore_gateway.ingestion.workload import Workload
from ragstore_gateway.settings import Settings
from ragstore_gateway.splitting.splitter_pool import Splitter
from ragstore_gateway.tenants.limits import LimitsByTenant

POLL_SECONDS: Final = 2.0
"""How often the queue is read. Documents that this process accepts are ingested immediately."""

REPLICA_POLL_SECONDS: Final = 0.2
"""The same with PostgreSQL, where other processes accept documents."""

REMOVAL_SECONDS: Final = 5.0
"""How long the deletion of a document waits for the removal of its vectors."""


class Ingestion:
    """Ingests documents into knowledge bases.

    Args:
        bases: the configurations of all bases.
        embeddings: makes embedders.
        engines: opens collections.
        extractor: extracts texts.
        may_write: whether the caller of the current request may write an existing collection of the store.
        workload: the bases whose jobs this process runs.
        files: the files that count for tenants beside documents.
        priority: delays ingestions during searches.

    Attributes:
        documents: the documents of all bases.
        acceptance: accepts documents in transactions.
        collections: the collections of all bases.
        priority: delays ingestions during searches.
        leases: the lease of this process, which is renewed while this runs.
        linked: the existing collections that bases name.
        trial_splits: splits texts for callers who wait, and stores nothing.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        bases: Configurations[KnowledgeBase],
        embeddings: Embeddings,
        engines: Engines,
        extractor: Extractor,
        may_write: Callable[[str], bool] = lambda _: True,
        workload: Workload = Workload.ALL,
        files: Sequence[FileSizes] = (),
        priority: SearchPriority | None = None,
    ) -> None:
        storage = TenantStorage(LimitsByTenant(settings.tenants), files)
        self.acceptance = Acceptance(settings.ingestion_max_waiting, settings.ingestion_max_waiting_bytes, storage)
        self._tenant_usage = TenantUsage(database, storage)
        self.documents = Documents(database, self.acceptance)
        self.priority = priority or SearchPriority()
        self._groups = GroupAcceptance(self.documents, self.priority)
        self.collections = Collections(database, embeddings, engines, settings.collection_prefix)
        self.linked = LinkedCollections(database, bases, embeddings, engines, self.collections, may_write)
        self._removals = Removals(database, engines, workload)
        leases = self.leases = Leases(database, executor_id(), settings.ingestion_lease_seconds)
        self._splitter = Splitter.from_settings(settings)
        self.trial_splits = TrialSplits(self._splitter, settings.extraction_concurrency)
        texts = TextTools(extractor, self._splitter)
        publication = Publication(database, leases)

        def has_lease() -> bool:
            return leases.is_valid

        retries = Retries(settings.ingestion_retry_seconds)
        copies = ChunkCopies(self.collections)
        requests = EmbeddingRequests(settings.embedding_concurrency)
        shared = SharedIngestion(self.collections, publication, texts, copies, requests, has_lease, self.priority)
        recorded = RecordedIngestion(
            database, self.collections, publication, texts, copies, retries, has_lease, self.priority
        )
        self._jobs = Jobs(
            IngestionQueue(database, self.collections, leases, workload),
            leases,
            Pipeline(publication, self._removals, shared, recorded, self.priority),
            requests,
            self.priority,
            settings.ingestion_concurrency,
            REPLICA_POLL_SECONDS if database.is_postgresql else POLL_SECONDS,
        )
        backfill = KeywordBackfill(database, self.collections, workload)
        retention = settings.ingestion_retention_days
        self._supervisor = Supervisor(database, self._jobs.wake, self._removals, backfill, retention)
        bases.add_listener(Reindexing(self.collections, self._jobs.wake))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run jobs in the background. At the end, they are handed over to other replicas or to the next start."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._splitter.running())
            await stack.enter_async_context(self.leases.running())
            await stack.enter_async_context(self._jobs.running())
            await stack.enter_async_context(self._supervisor.running())
            await stack.enter_async_context(self._tenant_usage.running())
            yield

    async def ingest(self, base_id: str, document: NewContent, also: AlsoStore | None = None) -> IngestionRow:
        """Accept a document; see `Documents.accept` and `LinkedCollections.prepare`."""
        await self.linked.prepare(base_id)
        if also is None:
            ingestion = await self._groups.accept(base_id, document)
        else:
            ingestion = await self.documents.accept(base_id, document, also)
        self._jobs.wake_for(base_id)
        return ingestion

    async def ingest_many(self, base_id: str, documents: Sequence[NewContent]) -> list[IngestionRow | NotAccepted]:
        """Accept documents; see `Documents.accept_many` and `LinkedCollections.prepare`."""
        await self.linked.prepare(base_id)
        outcomes = await self.priority.pausing(self.documents.accept_many(base_id, documents))
        self._jobs.wake()
        return outcomes

    async def copy_documents(self, session: AsyncSession, base_id: str, copy: Configuration[KnowledgeBase]) -> None:
        """Accept the documents of a base for a new one; see `copies.copy_documents`."""
        await copy_documents(session, self.acceptance, base_id, copy)

    def wake(self) -> None:
        """Look for documents that were accepted in a transaction of the caller."""
        self._jobs.wake()

    async def cancel(self, base_id: str, ingestion_id: str) -> None:
        """Cancel an ingestion; see `Documents.cancel`."""
        await self.documents.cancel(base_id, ingestion_id)
        self._jobs.cancel(ingestion_id)
        self._jobs.wake()

    async def delete(self, base_id: str, name: str) -> None:
        """Delete a document and its vectors; see `Documents.delete`."""
        await self._deleted(base_id, await self.documents.delete(base_id, name))

    async def delete_chosen(self, base_id: str, choose: Choice) -> None:
        """Delete documents and their vectors; see `Documents.delete_chosen`."""
        await self._deleted(base_id, await self.documents.delete_chosen(base_id, choose))

    async def _deleted(self, base_id: str, cancelled: Sequence[str]) -> None:
        for ingestion_id in cancelled:
            self._jobs.cancel(ingestion_id)
        # No search finds the document any more. The supervisor removes vectors that take longer.
        with contextlib.suppress(TimeoutError, DatabaseUnavailable):
            async with asyncio.timeout(REMOVAL_SECONDS):
                await self._removals.run(base_id)
