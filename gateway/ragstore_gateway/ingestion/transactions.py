"""SQL that ingestion's transactions share: lock a base, end an ingestion, queue re-indexing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

import sqlalchemy as sa
import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.configurations.tables import ConfigurationRow
from ragstore_gateway.ingestion import events, metrics
from ragstore_gateway.ingestion.collections import ACTIVE, BUILDING, live_collections
from ragstore_gateway.ingestion.removals import LATE_REMOVAL, add_removal
from ragstore_gateway.ingestion.tables import (
    CollectionDocumentRow,
    CollectionRow,
    DocumentRow,
    DocumentTextRow,
    IngestionPayloadRow,
    IngestionRow,
)
from ragstore_gateway.keywords.keyword_index import drop_keywords

PENDING: Final = "pending"
PROCESSING: Final = "processing"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
UNFINISHED: Final = (PENDING, PROCESSING)

INGEST: Final = "ingest"
REINDEX: Final = "reindex"

BASE_DELETED: Final = "The knowledge base was deleted"
DOCUMENT_DELETED: Final = "The document was deleted"
MIN_REPEAT_SECONDS: Final = 30.0
MAX_REPEAT_SECONDS: Final = 6 * 3600.0
"""Wait before a document is put into a new collection again: after the first failure, and the longest one."""

MAX_REINDEXINGS: Final = 20
"""How often a document is put into a new collection: with the waits, for about three days."""

REINDEX_BATCH: Final = 500
"""Maximum number of jobs for a new collection that one transaction adds. 50,000 take 16 s, and a transaction waits for
another one for 10 s."""

SUPERSEDED: Final = "The configuration changed again"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FailedReindexing:
    """The failures to put a document into a new collection.

    Attributes:
        attempts: their number.
        failed_on: when the last one failed.
        message: why.
    """

    attempts: int
    failed_on: datetime
    message: str

    @property
    def is_final(self) -> bool:
        """Whether there is no further attempt, until the document is ingested or the base is written again."""
        return self.attempts >= MAX_REINDEXINGS

    @property
    def report(self) -> str:
        """Why, and whether there is no further attempt."""
        return f"{self.message}; given up after {self.attempts} attempts" if self.is_final else self.message

    @property
    def retry_on(self) -> datetime:
        """When there is a further attempt."""
        seconds = min(MAX_REPEAT_SECONDS, MIN_REPEAT_SECONDS * 2.0 ** min(self.attempts - 1, 20))
        return self.failed_on + timedelta(seconds=seconds)


async def lock_base(session: AsyncSession, base_id: str) -> ConfigurationRow | None:
    """Lock a knowledge base until the transaction ends, so that changes of what it contains happen in order.

    Args:
        session: the transaction.
        base_id: the knowledge base.

    Returns:
        Its row; None if it does not exist, or is deleted.
    """
    query = sa.select(ConfigurationRow).where(ConfigurationRow.id == base_id).with_for_update(key_share=True)
    row = await session.scalar(query)
    return None if row is None or row.deleted else row


async def lock_ingestion(session: AsyncSession, ingestion_id: str) -> IngestionRow | None:
    """Lock an ingestion until the transaction ends.

    Args:
        session: the transaction.

    Returns:
        Its row; None if it does not exist, or has ended.
    """
    query = sa.select(IngestionRow).where(IngestionRow.id == ingestion_id).with_for_update()
    row = await session.scalar(query)
    return row if row is not None and row.state in UNFINISHED else None


def is_unchanged(ingestion: IngestionRow, document: DocumentRow) -> bool:
    """Whether a document has the content and the metadata of an ingestion already."""
    return (
        document.current_revision is not None
        and document.current_sequence < ingestion.sequence
        and document.content_hash == ingestion.content_hash
        and document.media_type == ingestion.media_type
        and (document.own_metadata or {}) == (ingestion.own_metadata or {})
    )


def is_superseded(ingestion: IngestionRow, document: DocumentRow) -> bool:
    """Whether searches find a later content of a document than the ingestion's."""
    if ingestion.kind == REINDEX:
        return document.current_revision != ingestion.revision
    return document.current_sequence > ingestion.sequence


async def end_ingestion(
    session: AsyncSession,
    ingestion: IngestionRow,
    state: str,
    message: str = "",
    *,
    unchanged: bool = False,
    error: str = "",
    step: str = "",
) -> None:
    """End an ingestion. Its payloads are removed, and so are its chunks if nothing refers to them.

    Args:
        session: the transaction.
        state: `completed`, `failed` or `cancelled`.
        message: why it failed.
        unchanged: whether the document has its content already.
        error: why, for the log; the message by default.
        step: the step in which it failed, for the log.
    """
    ingestion.state = state
    ingestion.message = message
    ingestion.unchanged = unchanged
    ingestion.finished_on = datetime.now(UTC)
    own = IngestionPayloadRow.ingestion_id == ingestion.id
    await session.execute(sa.delete(IngestionPayloadRow).where(own))
    await remove_orphans(session, ingestion)
    outcome = "unchanged" if unchanged else state
    metrics.ended(outcome)
    events.ended(session, ingestion, outcome, error=error or message, step=step)


async def remove_orphans(session: AsyncSession, ingestion: IngestionRow) -> None:
    """Remove the text and the chunks of an ingestion that has ended, unless searches may find them.

    Args:
        session: the transaction.
    """
    touched = {*ingestion.targets, *ingestion.written}
    current = await session.scalar(
        sa.select(DocumentRow.current_revision).where(DocumentRow.id == ingestion.document_id)
    )
    if current != ingestion.revision:
        text = sa.delete(DocumentTextRow).where(DocumentTextRow.revision == ingestion.revision)
        await session.execute(text)
    if not touched:
        return
    referring = sa.select(CollectionDocumentRow.collection_id).where(
        CollectionDocumentRow.document_id == ingestion.document_id,
        CollectionDocumentRow.revision == ingestion.revision,
    )
    kept = set(await session.scalars(referring))
    for row in await session.scalars(sa.select(CollectionRow).where(CollectionRow.id.in_(touched - kept))):
        add_removal(session, row, ingestion.document_id, ingestion.revision)


async def activate_if_complete(session: AsyncSession, base_id: str) -> bool:
    """Switch searches of a knowledge base to its new collection, if that has every document.

    Args:
        session: the transaction, with the base locked.
        base_id: the knowledge base.

    Returns:
        Whether there was a switch.
    """
    live = await live_collections(session, base_id)
    building = next((row for row in live if row.state == BUILDING), None)
    if building is None:
        return False
    await session.flush()
    if (await session.execute(missing_documents(building).limit(1))).first() is not None:
        return False
    for row in live:
        if row.id != building.id:
            await retire(session, row)
    await session.flush()
    building.state = ACTIVE
    count = sa.select(CollectionDocumentRow.chunks).where(
        CollectionDocumentRow.collection_id == building.id, CollectionDocumentRow.document_id == DocumentRow.id
    )
    complete = sa.update(DocumentRow).where(DocumentRow.base_id == base_id, DocumentRow.current_revision.is_not(None))
    await session.execute(complete.values(chunks=count.scalar_subquery()))
    return True


def missing_documents(collection: CollectionRow) -> sa.Select[str, str, str | None, dict[str, Any] | None]:
    """The documents whose current revisions are not in a collection: their ids, names, revisions and metadata."""
    in_collection = (
        sa.select(CollectionDocumentRow.document_id)
        .where(
            CollectionDocumentRow.collection_id == collection.id,
            CollectionDocumentRow.document_id == DocumentRow.id,
            CollectionDocumentRow.revision == DocumentRow.current_revision,
        )
        .exists()
    )
    return sa.select(DocumentRow.id, DocumentRow.name, DocumentRow.current_revision, DocumentRow.own_metadata).where(
        DocumentRow.base_id == collection.base_id, DocumentRow.current_revision.is_not(None), ~in_collection
    )


async def retire(session: AsyncSession, collection: CollectionRow) -> None:
    """Remove a collection, its vectors after the transaction.

    Args:
        session: the transaction.
    """
    add_removal(session, collection)
    # A write in flight may create it again. Its process removes it then, unless it is killed before.
    add_removal(session, collection, wait=LATE_REMOVAL)
    await drop_keywords(session, collection.id)
    await session.delete(collection)


async def failed_reindexing(
    session: AsyncSession, collection: CollectionRow, document_ids: Sequence[str] | None = None
) -> dict[str, FailedReindexing]:
    """The failed jobs of documents that a new collection lacks, by document.

    Args:
        collection: the new collection.
        document_ids: the documents; None for all.
    """
    missing = missing_documents(collection).with_only_columns(DocumentRow.id)
    if document_ids is not None:
        missing = missing.where(DocumentRow.id.in_(document_ids))
    query = (
        sa.select(IngestionRow.document_id, IngestionRow.finished_on, IngestionRow.message)
        .where(
            IngestionRow.document_id.in_(missing),
            IngestionRow.kind == REINDEX,
            IngestionRow.state == FAILED,
            IngestionRow.created_on >= collection.created_on,
        )
        .order_by(IngestionRow.finished_on)
    )
    found: dict[str, FailedReindexing] = {}
    for document_id, finished_on, message in await session.execute(query):
        attempts = found[document_id].attempts if document_id in found else 0
        if finished_on is not None:
            found[document_id] = FailedReindexing(attempts + 1, finished_on, message)
    return found


async def reindexing_errors(session: AsyncSession, base_id: str, document_ids: Sequence[str]) -> dict[str, str]:
    """Why a base's new collection lacks documents, by document. Without failures there is no entry.

    Args:
        base_id: the knowledge base.
        document_ids: the documents.
    """
    building = next((row for row in await live_collections(session, base_id) if row.state == BUILDING), None)
    if building is None:
        return {}
    failed = await failed_reindexing(session, building, document_ids)
    return {document_id: each.report for document_id, each in failed.items()}


async def reset_reindexing(session: AsyncSession, base_id: str, document_ids: Sequence[str] | None = None) -> None:
    """Forget the failures to put documents of a base into its new collection, so that there are further attempts.

    Args:
        session: the transaction.
        base_id: the knowledge base.
        document_ids: the documents; None for all.
    """
    failed = sa.update(IngestionRow).where(
        IngestionRow.base_id == base_id, IngestionRow.kind == REINDEX, IngestionRow.state == FAILED
    )
    if document_ids is not None:
        failed = failed.where(IngestionRow.document_id.in_(document_ids))
    await session.execute(failed.values(state=CANCELLED))


async def add_reindexing(session: AsyncSession, base_id: str, kb_id: str, collection: CollectionRow) -> int:
    """Add jobs for documents that a new collection lacks, unless they have one, or failed recently.

    The wait after a failure doubles with each further one, and after `MAX_REINDEXINGS` there is no further job. The
    supervisor adds the jobs of further documents: a transaction for all of a large base would delay all others.

    Args:
        session: the transaction.
        base_id: the knowledge base.
        kb_id: its name.
        collection: the new collection.

    Returns:
        The number of jobs, at most `REINDEX_BATCH`.
    """
    has_job = (
        sa.select(IngestionRow.id)
        .where(
            IngestionRow.document_id == DocumentRow.id,
            IngestionRow.kind == REINDEX,
            IngestionRow.state.in_(UNFINISHED),
            IngestionRow.revision == DocumentRow.current_revision,
        )
        .exists()
    )
    has_failed = (
        sa.select(IngestionRow.id)
        .where(
            IngestionRow.document_id == DocumentRow.id,
            IngestionRow.kind == REINDEX,
            IngestionRow.state == FAILED,
            IngestionRow.created_on >= collection.created_on,
        )
        .exists()
    )
    lacking = missing_documents(collection).where(~has_job)
    found = (await session.execute(lacking.where(~has_failed).limit(REINDEX_BATCH))).all()
    failed = await failed_reindexing(session, collection)
    if failed:
        found = [*found, *(await session.execute(lacking.where(has_failed))).all()]
    now = datetime.now(UTC)
    added = 0
    for document_id, name, revision, metadata in found:
        before = failed.get(document_id)
        if added == REINDEX_BATCH:
            break
        if before is not None and (before.is_final or now < before.retry_on):
            continue
        if before is not None:
            _log.warning(
                "document is put into the new collection again",
                base=base_id,
                collection=collection.id,
                document=document_id,
                failed_attempts=before.attempts,
            )
        added += 1
        session.add(
            IngestionRow(
                id=str(uuid4()),
                kind=REINDEX,
                base_id=base_id,
                kb_id=kb_id,
                document_id=document_id,
                document_name=name,
                revision=revision,
                sequence=0,
                state=PENDING,
                message="",
                unchanged=False,
                targets=[],
                written={},
                chunks=0,
                chunks_embedded=0,
                media_type="",
                bytes=0,
                content_hash="",
                own_metadata=metadata,
                owner="",
                attempts=0,
                created_on=now,
            )
        )
    return added
