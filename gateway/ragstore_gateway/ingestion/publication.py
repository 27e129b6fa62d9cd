"""`Publication`: the transactions that begin an ingestion, make its document visible, and clean up after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.tables import ConfigurationRow, ConfigurationVersionRow
from ragstore_gateway.database.database import Database
from ragstore_gateway.ingestion import metrics
from ragstore_gateway.ingestion.collections import ACTIVE, Collections, live_collections
from ragstore_gateway.ingestion.indexing import indexed_chunks
from ragstore_gateway.ingestion.removals import add_removal
from ragstore_gateway.ingestion.tables import (
    CollectionDocumentRow,
    CollectionRow,
    DocumentRow,
    DocumentTextRow,
    IngestionRow,
)
from ragstore_gateway.ingestion.transactions import (
    BASE_DELETED,
    COMPLETED,
    DOCUMENT_DELETED,
    FAILED,
    INGEST,
    PROCESSING,
    REINDEX,
    UNFINISHED,
    activate_if_complete,
    end_ingestion,
    lock_base,
    lock_ingestion,
    remove_orphans,
)
from ragstore_gateway.keywords.keyword_index import IndexedChunk, put_keywords

MAX_ATTEMPTS: Final = 5
"""How often an ingestion begins. One that is interrupted each time may be what ends the process."""


class Publication:
    """Begins and ends ingestions.

    Args:
        collections: the collections of all bases.
    """

    def __init__(self, database: Database, collections: Collections) -> None:
        self._database = database
        self._collections = collections
        self._interrupted: set[str] = set()

    def interrupted(self, ingestion_id: str) -> None:
        """Note that this process has interrupted an ingestion, such as after a late renewal of its lease.

        The process is alive, so the ingestion did not end it. When it continues here, that is no further attempt.

        Args:
            ingestion_id: the ingestion.
        """
        self._interrupted.add(ingestion_id)

    async def begin(self, ingestion_id: str) -> None:
        """Begin an ingestion, or continue it: choose the collections that it writes to.

        Args:
            ingestion_id: the ingestion.
        """
        found = await self._read(ingestion_id)
        if found is None:
            return
        async with self._database.session() as session:
            base, ingestion, document = await _lock(session, found)
            if ingestion is None:
                return
            if ingestion.attempts == 0 or ingestion_id not in self._interrupted:
                ingestion.attempts += 1
            self._interrupted.discard(ingestion_id)
            if ingestion.state == PROCESSING:
                metrics.resumed()
            if ingestion.attempts > MAX_ATTEMPTS:
                message = f"The ingestion was interrupted {MAX_ATTEMPTS} times"
                await end_ingestion(session, ingestion, FAILED, message)
            elif base is None:
                await end_ingestion(session, ingestion, FAILED, BASE_DELETED)
            elif document is None:
                await end_ingestion(session, ingestion, FAILED, DOCUMENT_DELETED)
            elif ingestion.state != PROCESSING:
                ingestion.state = PROCESSING
                ingestion.started_on = datetime.now(UTC)
                await self._choose_targets(session, ingestion, document, base)

    async def _choose_targets(
        self,
        session: AsyncSession,
        ingestion: IngestionRow,
        document: DocumentRow,
        base: ConfigurationRow,
    ) -> None:
        if ingestion.kind == INGEST and _is_unchanged(ingestion, document):
            document.current_sequence = max(document.current_sequence, ingestion.sequence)
            ingestion.chunks = document.chunks
            await end_ingestion(session, ingestion, COMPLETED, unchanged=True)
            return
        live = await live_collections(session, ingestion.base_id)
        if not live and ingestion.kind == INGEST:
            # A version that was read before the lock may be an old one, which no later change would replace.
            stored = await session.get_one(ConfigurationVersionRow, (base.id, base.current_version))
            body = msgspec.convert(stored.body, KnowledgeBase)
            live = [self._collections.new_row(base.id, stored.version, body, ACTIVE)]
            session.add_all(live)
        ingestion.targets = await _lacking(session, ingestion, live)

    async def publish(self, ingestion_id: str) -> bool:
        """Make the document of an ingestion visible, if its chunks are in all collections of its base.

        Args:
            ingestion_id: the ingestion.

        Returns:
            Whether there are further collections, which the ingestion has to write to first.
        """
        found = await self._read(ingestion_id)
        if found is None:
            return False
        indexed = await indexed_chunks(self._database, found)
        async with self._database.session() as session:
            base, ingestion, document = await _lock(session, found)
            if ingestion is None:
                return False
            if base is None:
                await end_ingestion(session, ingestion, FAILED, BASE_DELETED)
                return False
            if document is None:
                await end_ingestion(session, ingestion, FAILED, DOCUMENT_DELETED)
                return False
            if _is_superseded(ingestion, document):
                # A later content of the document is visible already.
                await end_ingestion(session, ingestion, COMPLETED)
                return False
            live = await live_collections(session, ingestion.base_id)
            lacking = [each for each in await _lacking(session, ingestion, live) if each not in ingestion.written]
            if lacking:
                ingestion.targets = lacking
                return True
            await self._make_visible(session, ingestion, document, live, indexed)
        return False

    async def _make_visible(
        self,
        session: AsyncSession,
        ingestion: IngestionRow,
        document: DocumentRow,
        live: list[CollectionRow],
        indexed: Mapping[str, Sequence[IndexedChunk]],
    ) -> None:
        before = document.current_revision
        for collection in live:
            if collection.id in ingestion.written:
                await put_keywords(session, collection.id, document.id, indexed.get(collection.id, ()))
                count = ingestion.chunks = ingestion.written[collection.id]
                await session.merge(
                    CollectionDocumentRow(
                        collection_id=collection.id,
                        document_id=document.id,
                        revision=ingestion.revision,
                        chunks=count,
                        has_keywords=True,
                    )
                )
                if collection.state == ACTIVE:
                    document.chunks = count
        if ingestion.kind == INGEST:
            document.current_revision = ingestion.revision
            document.current_sequence = ingestion.sequence
            document.media_type = ingestion.media_type
            document.bytes = ingestion.bytes
            document.content_hash = ingestion.content_hash
            document.modified_on = datetime.now(UTC)
            if before is not None:
                await session.execute(sa.delete(DocumentTextRow).where(DocumentTextRow.revision == before))
                for collection in live:
                    add_removal(session, collection, document.id, before)
            for collection in live:
                if collection.store_parameters.get("shared"):
                    add_removal(session, collection, document.id, url=document.name)
        await activate_if_complete(session, ingestion.base_id)
        await end_ingestion(session, ingestion, COMPLETED)

    async def clean_up(self, ingestion_id: str) -> str:
        """Remove the chunks of an ingestion that ended without becoming visible: a cancelled one may have gone on.

        Args:
            ingestion_id: the ingestion.

        Returns:
            The id of its base; empty if the ingestion does not exist any more.
        """
        async with self._database.session() as session:
            row = await session.get(IngestionRow, ingestion_id)
            if row is None:
                return ""
            if row.state not in (*UNFINISHED, COMPLETED):
                await remove_orphans(session, row)
            return row.base_id

    async def _read(self, ingestion_id: str) -> IngestionRow | None:
        async with self._database.reading() as session:
            row = await session.get(IngestionRow, ingestion_id)
        return row if row is not None and row.state in UNFINISHED else None


async def _lock(
    session: AsyncSession, found: IngestionRow
) -> tuple[ConfigurationRow | None, IngestionRow | None, DocumentRow | None]:
    """Lock a base, an ingestion and its document, always in this order.

    Returns:
        The base if it exists, the ingestion unless it has ended, the document if it exists.
    """
    base = await lock_base(session, found.base_id)
    ingestion = await lock_ingestion(session, found.id)
    document = await session.get(DocumentRow, found.document_id, with_for_update=True)
    return base, ingestion, document


def _is_unchanged(ingestion: IngestionRow, document: DocumentRow) -> bool:
    return (
        document.current_revision is not None
        and document.current_sequence < ingestion.sequence
        and document.content_hash == ingestion.content_hash
        and document.media_type == ingestion.media_type
    )


def _is_superseded(ingestion: IngestionRow, document: DocumentRow) -> bool:
    if ingestion.kind == REINDEX:
        return document.current_revision != ingestion.revision
    return document.current_sequence > ingestion.sequence


async def _lacking(session: AsyncSession, ingestion: IngestionRow, live: list[CollectionRow]) -> list[str]:
    """The collections that lack the revision of an ingestion."""
    having = sa.select(CollectionDocumentRow.collection_id).where(
        CollectionDocumentRow.document_id == ingestion.document_id,
        CollectionDocumentRow.revision == ingestion.revision,
    )
    complete = set(await session.scalars(having))
    return [row.id for row in live if row.id not in complete]
