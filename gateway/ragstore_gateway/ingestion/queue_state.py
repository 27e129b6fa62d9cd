"""`QueueState`: the ingestions of a knowledge base that have not ended, and their rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import IngestionNotFound
from ragstore_gateway.ingestion.collections import BUILDING, live_collections
from ragstore_gateway.ingestion.tables import IngestionRow
from ragstore_gateway.ingestion.transactions import COMPLETED, PENDING, UNFINISHED, missing_documents

WINDOW: Final = timedelta(minutes=1)
"""The time over which the rate is measured."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """The ingestions of a knowledge base that have not ended.

    Attributes:
        waiting: number of documents that have not begun.
        processing: number of documents that have begun.
        waiting_for: number of documents whose calls are repeated, by the code of the error.
        documents_per_second: rate at which documents were completed in the last minute.
        reindexing: number of documents that a new collection lacks; None if none is being built.
    """

    waiting: int
    processing: int
    waiting_for: dict[str, int]
    documents_per_second: float
    reindexing: int | None = None


async def read_queue(
    database: Database, base_id: str, ingestion_ids: Sequence[str]
) -> tuple[QueueState, list[IngestionRow]]:
    """Read the queue of a base, and some of its ingestions.

    Args:
        base_id: the knowledge base.
        ingestion_ids: ingestions of the base.

    Returns:
        The queue, and the ingestions in the order of their ids.

    Raises:
        DatabaseUnavailable: the database cannot be used.
        IngestionNotFound: the base has no such ingestion.
    """
    now = datetime.now(UTC)
    own = IngestionRow.base_id == base_id
    unfinished = (
        sa.select(IngestionRow.state, IngestionRow.waiting_for, sa.func.count())
        .where(own, IngestionRow.state.in_(UNFINISHED))
        .group_by(IngestionRow.state, IngestionRow.waiting_for)
    )
    finished = sa.select(sa.func.count(), sa.func.min(IngestionRow.created_on)).where(
        own, IngestionRow.finished_on > now - WINDOW, IngestionRow.state == COMPLETED
    )
    # PostgreSQL's driver rejects a NUL.
    wanted = [id for id in ingestion_ids if "\0" not in id]
    async with database.reading() as session:
        counts = list(await session.execute(unfinished))
        completed, oldest = (await session.execute(finished)).one()
        rows = await session.scalars(sa.select(IngestionRow).where(own, IngestionRow.id.in_(wanted)))
        found = {row.id: row for row in rows}
        reindexing = await _reindexing(session, base_id)
    for id in ingestion_ids:
        if id not in found:
            raise IngestionNotFound(f"The knowledge base {base_id} has no ingestion {id}")
    states: Counter[str] = Counter()
    waiting_for: Counter[str] = Counter()
    for state, code, count in counts:
        states[PENDING if state == PENDING else ""] += count
        if state != PENDING and code:
            waiting_for[code] += count
    seconds = (now - max(oldest, now - WINDOW)).total_seconds() if completed else 0.0
    rate = completed / max(seconds, 0.1) if completed else 0.0
    queue = QueueState(states[PENDING], states[""], dict(waiting_for), rate, reindexing)
    return queue, [found[id] for id in ingestion_ids]


async def _reindexing(session: AsyncSession, base_id: str) -> int | None:
    building = next((row for row in await live_collections(session, base_id) if row.state == BUILDING), None)
    if building is None:
        return None
    missing = missing_documents(building).with_only_columns(sa.func.count())
    return await session.scalar(missing) or 0
