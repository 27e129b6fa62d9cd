"""`IngestionQueue`: the ingestions that no process works on, and claims of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.sql.dml import ReturningUpdate

from ragstore_gateway.claims.claims import NOBODY, Claims
from ragstore_gateway.claims.leases import Leases
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.tables import ConfigurationVersionRow
from ragstore_gateway.database.database import Database
from ragstore_gateway.ingestion import metrics
from ragstore_gateway.ingestion.claimed_document import ClaimedDocument
from ragstore_gateway.ingestion.collections import ACTIVE, Collections, collection_of, live_collections
from ragstore_gateway.ingestion.payloads import CONTENT
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
    DOCUMENT_DELETED,
    FAILED,
    INGEST,
    PENDING,
    PROCESSING,
    REINDEX,
    UNFINISHED,
    end_ingestion,
    is_unchanged,
    lock_base,
)
from ragstore_gateway.ingestion.workload import Workload

MAX_DOCUMENTS: Final = 32
MAX_BYTES: Final = 1024 * 1024
"""Maximum number and size of the documents of one job. A larger document is a job of its own."""

MAX_ATTEMPTS: Final = 5
"""How often an ingestion begins. One that is interrupted each time may be what ends the process."""


@dataclass(frozen=True, slots=True)
class Lane:
    """The ingestions of one base that wait.

    Attributes:
        base_id: the knowledge base.
        new: number of ingestions that have not begun.
        interrupted: number of ingestions that this process or another one has begun before.
        oldest: when the first of them was accepted.
    """

    base_id: str
    new: int
    interrupted: int
    oldest: datetime


class IngestionQueue(Claims[IngestionRow]):
    """The ingestions of all processes, in the table of ingestions. One that is given back is claimed again.

    Args:
        collections: the collections of all bases.
        leases: the lease of this process. Without a valid one, other processes take over what it claims.
        workload: the bases whose ingestions this process claims.
    """

    def __init__(
        self, database: Database, collections: Collections, leases: Leases, workload: Workload = Workload.ALL
    ) -> None:
        super().__init__(database, leases, IngestionRow, (PROCESSING,))
        self._collections = collections
        self._lanes = (
            sa.select(IngestionRow.base_id, IngestionRow.state, sa.func.count(), sa.func.min(IngestionRow.created_on))
            .where(IngestionRow.owner == NOBODY, IngestionRow.state.in_(UNFINISHED))
            .group_by(IngestionRow.base_id, IngestionRow.state)
            # Once for each base, not for each ingestion.
            .having(workload.bases(IngestionRow.base_id))
        )

    async def lanes(self) -> list[Lane]:
        """The ingestions that wait for a process of this workload, by base, the oldest first."""
        found: dict[str, dict[str, tuple[int, datetime]]] = {}
        async with self._database.reading() as session:
            for base_id, state, count, oldest in await session.execute(self._lanes):
                found.setdefault(base_id, {})[state] = (count, oldest)
        lanes = [
            Lane(
                base_id,
                states[PENDING][0] if PENDING in states else 0,
                states[PROCESSING][0] if PROCESSING in states else 0,
                min(oldest for _, oldest in states.values()),
            )
            for base_id, states in found.items()
        ]
        return sorted(lanes, key=lambda lane: lane.oldest)

    async def claim(self, base_id: str, *, interrupted: bool = False) -> list[ClaimedDocument]:
        """Claim the documents of one job. No other process claims them, as long as the lease is valid.

        Args:
            base_id: the knowledge base.
            interrupted: whether to claim one ingestion that was begun before, instead of new ones. It is claimed alone,
                because it may be what ended its process.

        Returns:
            The documents, in the order in which they were accepted. Documents whose ingestions ended with the claim are
            left out.
        """
        with metrics.step("plan"):
            async with self.claiming() as (session, ids):
                live = await live_collections(session, base_id)
                first = None
                is_deleted = False
                if not live:
                    first, live, is_deleted = await self._first_collection(session, base_id)
                rows = await self._claim(session, base_id, [row.id for row in live], interrupted=interrupted)
                if not rows:
                    return []
                if is_deleted:
                    for row in rows:
                        await end_ingestion(session, row, FAILED, BASE_DELETED)
                    return []
                if first is not None and any(row.kind == INGEST for row in rows):
                    session.add(first)
                    await session.flush()
                elif first is not None:
                    live = []
                if interrupted:
                    metrics.resumed()
                claimed = await self._documents(session, rows, live)
                ids += [each.id for each in claimed]
        for each in claimed:
            each.is_interrupted = interrupted
        return claimed

    async def _first_collection(
        self, session: AsyncSession, base_id: str
    ) -> tuple[CollectionRow | None, list[CollectionRow], bool]:
        """A new collection of a base that has none.

        Returns:
            The collection, if there is none; the collections of the base; whether the base is deleted.
        """
        base = await lock_base(session, base_id)
        if base is None:
            return None, [], True
        live = await live_collections(session, base_id)
        if live:
            return None, live, False
        # A version that was read before the lock may be an old one, which no later change would replace.
        stored = await session.get_one(ConfigurationVersionRow, (base.id, base.current_version))
        body = msgspec.convert(stored.body, KnowledgeBase)
        first = self._collections.new_row(base.id, stored.version, body, ACTIVE)
        return first, [first], False

    async def _claim(
        self, session: AsyncSession, base_id: str, targets: list[str], *, interrupted: bool
    ) -> list[IngestionRow]:
        values = {"of_base": base_id, "by": self._leases.owner, "into": targets, "now": datetime.now(UTC)}
        rows = list(await session.scalars(_claim_statement(interrupted), values))
        return sorted(rows, key=lambda row: (row.created_on, row.sequence))

    async def _documents(
        self, session: AsyncSession, rows: Sequence[IngestionRow], live: Sequence[CollectionRow]
    ) -> list[ClaimedDocument]:
        is_content = sa.and_(IngestionPayloadRow.ingestion_id == IngestionRow.id, IngestionPayloadRow.kind == CONTENT)
        query = (
            sa.select(IngestionRow.id, IngestionPayloadRow.data, DocumentRow)
            .join(DocumentRow, DocumentRow.id == IngestionRow.document_id)
            .join(IngestionPayloadRow, is_content, isouter=True)
            .where(IngestionRow.id.in_([row.id for row in rows]))
        )
        found = {id: (content, document) for id, content, document in await session.execute(query)}
        collections = [collection_of(row) for row in live]
        claimed: list[ClaimedDocument] = []
        for row in rows:
            if row.attempts > MAX_ATTEMPTS:
                message = f"The ingestion was interrupted {MAX_ATTEMPTS} times"
                await end_ingestion(session, row, FAILED, message)
            elif row.id not in found:
                await end_ingestion(session, row, FAILED, DOCUMENT_DELETED)
            else:
                content, document = found[row.id]
                unchanged = row.kind == INGEST and is_unchanged(row, document)
                own = ClaimedDocument(
                    row, list(collections), content, is_unchanged=unchanged, written=dict(row.written)
                )
                claimed.append(own)
        kept = [each for each in claimed if each.row.kind == REINDEX or each.content is None]
        if kept:
            await self._add_kept(session, kept)
        for each in kept:
            if each.row.kind == REINDEX and each.extracted is None:
                # Its text was removed when a later content became visible, which the collections of the base have.
                await end_ingestion(session, each.row, COMPLETED)
                claimed.remove(each)
        return claimed

    async def _add_kept(self, session: AsyncSession, claimed: Sequence[ClaimedDocument]) -> None:
        """Read the texts of documents, and leave out the collections that have their chunks."""
        document_ids = [each.row.document_id for each in claimed]
        complete = sa.select(
            CollectionDocumentRow.collection_id, CollectionDocumentRow.document_id, CollectionDocumentRow.revision
        ).where(CollectionDocumentRow.document_id.in_(document_ids))
        having = {
            (collection, document, revision) for collection, document, revision in await session.execute(complete)
        }
        texts = sa.select(DocumentTextRow.revision, DocumentTextRow.extracted).where(
            DocumentTextRow.revision.in_([each.row.revision for each in claimed])
        )
        kept: dict[str, bytes] = {revision: text for revision, text in await session.execute(texts)}  # noqa: C416  # rows
        for each in claimed:
            row = each.row
            each.targets = [own for own in each.targets if (own.id, row.document_id, row.revision) not in having]
            if row.revision in kept:
                each.set_kept_text(kept[row.revision])

    async def release(self, ingestion_ids: Sequence[str]) -> None:
        """Give ingestions back whose job has failed, which may be because of a document: it was an attempt.

        Args:
            ingestion_ids: ingestions that this process has claimed. Ingestions that have ended stay unchanged.
        """
        self.claimed.difference_update(ingestion_ids)
        own = IngestionRow.owner == self._leases.owner
        await self._give_back_all(sa.and_(own, IngestionRow.id.in_(ingestion_ids)), is_own=False)

    async def _give_back(self, session: AsyncSession, ids: Sequence[str], *, is_own: bool) -> None:
        change = sa.update(IngestionRow).where(IngestionRow.id.in_(ids))
        # A process that hands an ingestion over takes its own attempt back.
        changed = change.values(owner=NOBODY, attempts=IngestionRow.attempts - int(is_own))
        await session.execute(changed.execution_options(synchronize_session=False))


@cache
def _claim_statement(interrupted: bool) -> ReturningUpdate[IngestionRow]:
    """Claims the ingestions of one job. It is made once: that takes half a millisecond (SQLAlchemy 2.0).

    Its parameters are `of_base`, `by`, the process, `into`, ids of collections, and `now`.
    """
    waiting = (
        sa.select(IngestionRow.id, IngestionRow.bytes, IngestionRow.created_on)
        .where(
            IngestionRow.owner == NOBODY,
            IngestionRow.state == (PROCESSING if interrupted else PENDING),
            IngestionRow.base_id == sa.bindparam("of_base"),
        )
        .order_by(IngestionRow.created_on, IngestionRow.id)
        .limit(1 if interrupted else MAX_DOCUMENTS)
        .with_for_update(skip_locked=True)
        .cte("waiting")
    )
    in_order = (waiting.c.created_on, waiting.c.id)
    sizes = sa.select(
        waiting.c.id,
        sa.func.sum(waiting.c.bytes).over(order_by=in_order).label("total"),
        sa.func.row_number().over(order_by=in_order).label("number"),
    ).subquery("sizes")
    chosen = sa.select(sizes.c.id).where(sa.or_(sizes.c.total <= MAX_BYTES, sizes.c.number == 1))
    return (
        sa.update(IngestionRow)
        .where(IngestionRow.id.in_(chosen))
        .values(
            owner=sa.bindparam("by"),
            state=PROCESSING,
            attempts=IngestionRow.attempts + 1,
            targets=sa.bindparam("into"),
            waiting_for="",
            started_on=sa.func.coalesce(IngestionRow.started_on, sa.bindparam("now")),
        )
        .returning(IngestionRow)
        .execution_options(synchronize_session=False)
    )
