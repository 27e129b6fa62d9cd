"""`Publication`: the transactions that make documents visible, end their ingestions, and clean up after them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.claims.leases import Leases
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import DatabaseUnavailable
from ragstore_gateway.ingestion import events, metrics
from ragstore_gateway.ingestion.claimed_document import ClaimedDocument
from ragstore_gateway.ingestion.collections import ACTIVE, BUILDING, Collection, collection_of, live_collections
from ragstore_gateway.ingestion.failures import IngestionFailure
from ragstore_gateway.ingestion.indexing import indexed_chunks
from ragstore_gateway.ingestion.removals import add_removal
from ragstore_gateway.ingestion.tables import (
    CollectionDocumentRow,
    CollectionRow,
    DocumentRow,
    DocumentTextRow,
    IngestionPayloadRow,
    IngestionRow,
)
from ragstore_gateway.ingestion.transactions import (
    BASE_DELETED,
    COMPLETED,
    FAILED,
    INGEST,
    REINDEX,
    UNFINISHED,
    activate_if_complete,
    end_ingestion,
    is_superseded,
    is_unchanged,
    lock_base,
    remove_orphans,
)
from ragstore_gateway.keywords.keyword_index import IndexedChunk, put_keywords

Indexed = Mapping[str, Mapping[str, Sequence[IndexedChunk]]]
"""Chunks of keyword indexes, by collection and document."""

_ENDED: Final = (*UNFINISHED, COMPLETED)


@dataclass
class Published:
    """The outcome of a publication.

    Attributes:
        lacking: documents that have to be written to further collections first.
        changed: documents that seemed unchanged, but whose stored content was replaced meanwhile.
        lost: documents whose ingestions were ended, or were taken over by another process.
        has_removals: whether vectors are to be removed.
    """

    lacking: dict[ClaimedDocument, list[Collection]] = field(default_factory=dict)
    changed: list[ClaimedDocument] = field(default_factory=list)
    lost: list[ClaimedDocument] = field(default_factory=list)
    has_removals: bool = False


class Publication:
    """Ends the ingestions of this process.

    Args:
        leases: the lease of this process.
    """

    def __init__(self, database: Database, leases: Leases) -> None:
        self._database = database
        self._leases = leases

    async def publish(self, claimed: Sequence[ClaimedDocument]) -> Published:
        """Make documents of one base visible together, if their chunks are in all collections of the base.

        Args:
            claimed: the documents, each one once.

        Raises:
            DatabaseUnavailable: the database cannot be used. It may be repeated.
        """
        indexed = await indexed_chunks(claimed)
        published = Published()
        async with self._database.session() as session:
            base = await lock_base(session, claimed[0].row.base_id)
            live = await live_collections(session, claimed[0].row.base_id)
            _remove_retired(session, claimed, live)
            rows = await self._locked(session, claimed)
            published.lost = [each for each in claimed if each.id not in rows]
            complete = await _complete(session, [each for each in claimed if each.row.kind == REINDEX])
            visible: list[tuple[ClaimedDocument, IngestionRow, DocumentRow]] = []
            for each in claimed:
                if each.id not in rows:
                    continue
                row, document = rows[each.id]
                if base is None:
                    await end_ingestion(session, row, FAILED, BASE_DELETED)
                elif each.is_unchanged:
                    if is_unchanged(row, document):
                        document.current_sequence = max(document.current_sequence, row.sequence)
                        row.chunks = document.chunks
                        await end_ingestion(session, row, COMPLETED, unchanged=True)
                    else:
                        published.changed.append(each)
                elif is_superseded(row, document):
                    # A later content of the document is visible already.
                    await end_ingestion(session, row, COMPLETED)
                    published.has_removals = True
                elif lacking := [
                    own
                    for own in live
                    if own.id not in each.written and (own.id, row.document_id, row.revision) not in complete
                ]:
                    published.lacking[each] = [collection_of(own) for own in lacking]
                else:
                    visible.append((each, row, document))
            if visible:
                # Each row is written by one statement, at the end.
                with session.no_autoflush:
                    published.has_removals |= await _make_visible(session, visible, live, indexed)
        return published

    async def _locked(
        self, session: AsyncSession, claimed: Sequence[ClaimedDocument]
    ) -> dict[str, tuple[IngestionRow, DocumentRow]]:
        """Lock ingestions that have not ended and belong to this process, and their documents."""
        query = (
            sa.select(IngestionRow, DocumentRow)
            .join(DocumentRow, DocumentRow.id == IngestionRow.document_id)
            .where(IngestionRow.id.in_([each.id for each in claimed]), *self._is_own)
            .order_by(IngestionRow.id)
            .with_for_update()
        )
        return {row.id: (row, document) for row, document in await session.execute(query)}

    @property
    def _is_own(self) -> tuple[sa.ColumnElement[bool], ...]:
        return IngestionRow.owner == self._leases.owner, IngestionRow.state.in_(UNFINISHED)

    async def is_needed(self, ingestion_id: str) -> bool:
        """Whether an ingestion has not ended and belongs to this process.

        Args:
            ingestion_id: the ingestion.
        """
        query = sa.select(IngestionRow.id).where(IngestionRow.id == ingestion_id, *self._is_own)
        async with self._database.reading() as session:
            return (await session.execute(query)).first() is not None

    async def waits(self, ingestion_id: str, code: str) -> None:
        """Record what an ingestion waits for. Without the database, this is left out.

        Args:
            ingestion_id: the ingestion.
            code: the code of an error; empty for none.
        """
        change = sa.update(IngestionRow).where(IngestionRow.id == ingestion_id, *self._is_own).values(waiting_for=code)
        with contextlib.suppress(DatabaseUnavailable):
            async with self._database.session() as session:
                await session.execute(change)

    async def lock(self, session: AsyncSession, ingestion_id: str) -> IngestionRow | None:
        """Lock an ingestion until the transaction ends.

        Args:
            session: the transaction.

        Returns:
            Its row; None if it does not exist, has ended, or belongs to another process.
        """
        query = sa.select(IngestionRow).where(IngestionRow.id == ingestion_id, *self._is_own).with_for_update()
        return await session.scalar(query)

    async def fail(self, claimed: ClaimedDocument, failure: IngestionFailure) -> None:
        """End an ingestion that has failed, unless it has ended before."""
        async with self._database.session() as session:
            row = await self.lock(session, claimed.id)
            if row is not None:
                await end_ingestion(session, row, FAILED, failure.message, error=failure.cause, step=claimed.step)

    async def clean_up(self, claimed: Sequence[ClaimedDocument]) -> bool:
        """Remove the chunks of ingestions that ended without becoming visible: a cancelled one may have gone on.

        Args:
            claimed: documents of one base.

        Returns:
            Whether vectors are to be removed.
        """
        async with self._database.session() as session:
            _remove_retired(session, claimed, await live_collections(session, claimed[0].row.base_id))
            query = sa.select(IngestionRow).where(
                IngestionRow.id.in_([each.id for each in claimed]), IngestionRow.state.not_in(_ENDED)
            )
            for row in await session.scalars(query):
                await remove_orphans(session, row)
            return bool(session.new)


def _remove_retired(session: AsyncSession, claimed: Sequence[ClaimedDocument], live: Sequence[CollectionRow]) -> None:
    """Remove collections that were retired during writes, which may have created them again."""
    alive = {row.id for row in live}
    retired = {own.id: own for each in claimed for own in each.targets if own.id not in alive}
    for collection in retired.values():
        add_removal(session, collection)


async def _complete(session: AsyncSession, claimed: Sequence[ClaimedDocument]) -> set[tuple[str, str, str]]:
    """The collections that have the revisions of documents: triples of collection, document and revision."""
    if not claimed:
        return set()
    query = sa.select(
        CollectionDocumentRow.collection_id, CollectionDocumentRow.document_id, CollectionDocumentRow.revision
    ).where(CollectionDocumentRow.document_id.in_([each.row.document_id for each in claimed]))
    return {(collection, document, revision) for collection, document, revision in await session.execute(query)}


async def _make_visible(
    session: AsyncSession,
    visible: Sequence[tuple[ClaimedDocument, IngestionRow, DocumentRow]],
    live: Sequence[CollectionRow],
    indexed: Indexed,
) -> bool:
    """Make documents visible, and end their ingestions.

    Returns:
        Whether vectors are to be removed.
    """
    for collection in live:
        written = [each for each in visible if collection.id in each[0].written]
        if not written:
            continue
        chunks = {document.id: indexed.get(collection.id, {}).get(document.id, ()) for _, _, document in written}
        replaced = [document.id for _, _, document in written if document.current_revision is not None]
        await put_keywords(session, collection.id, chunks, replaced)
        for each, row, document in written:
            row.chunks = each.written[collection.id]
            if collection.state == ACTIVE:
                document.chunks = row.chunks
        values = [
            {
                "collection_id": collection.id,
                "document_id": document.id,
                "revision": row.revision,
                "chunks": each.written[collection.id],
                "has_keywords": True,
            }
            for each, row, document in written
        ]
        await session.execute(_upsert(session), values)
    texts = [
        {"revision": row.revision, "document_id": document.id, "extracted": each.encoded}
        for each, row, document in visible
        if row.kind == INGEST and not each.is_text_kept
    ]
    if texts:
        await session.execute(sa.insert(DocumentTextRow), texts)
    now = datetime.now(UTC)
    before: list[str] = []
    has_replaced = False
    for _, row, document in visible:
        if row.kind == INGEST:
            if document.current_revision is not None:
                before.append(document.current_revision)
                for collection in live:
                    add_removal(session, collection, document.id, document.current_revision)
            for collection in live:
                if collection.store_parameters.get("shared"):
                    add_removal(session, collection, document.id, url=document.name)
                    has_replaced = True
            document.current_revision = row.revision
            document.current_sequence = row.sequence
            document.media_type = row.media_type
            document.bytes = row.bytes
            document.content_hash = row.content_hash
            document.own_metadata = row.own_metadata
            document.modified_on = now
        row.state, row.finished_on = COMPLETED, now
        row.chunks_embedded = max(row.chunks_embedded, row.chunks)
    if before:
        await session.execute(sa.delete(DocumentTextRow).where(DocumentTextRow.revision.in_(before)))
    ids = [row.id for _, row, _ in visible]
    await session.execute(sa.delete(IngestionPayloadRow).where(IngestionPayloadRow.ingestion_id.in_(ids)))
    metrics.ended(COMPLETED, len(visible))
    for _, row, _ in visible:
        events.ended(session, row, COMPLETED)
    await session.flush()
    has_activated = False
    if any(collection.state == BUILDING for collection in live):
        has_activated = await activate_if_complete(session, visible[0][1].base_id)
    return bool(before) or has_replaced or has_activated


def _upsert(session: AsyncSession) -> sa.Insert:
    is_postgresql = session.get_bind().dialect.name == "postgresql"
    insert = (postgresql if is_postgresql else sqlite).insert(CollectionDocumentRow)
    key = [CollectionDocumentRow.collection_id, CollectionDocumentRow.document_id]
    names = ("revision", "chunks", "has_keywords")
    changed: sa.Insert = insert.on_conflict_do_update(
        index_elements=key, set_={name: insert.excluded[name] for name in names}
    )
    return changed
