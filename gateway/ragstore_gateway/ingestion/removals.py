"""`Removals`: vectors that nothing refers to any more are removed, and the removal is repeated until it succeeds."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

import sqlalchemy as sa
import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore.kit.errors import ServiceError
from ragstore_client import Where
from ragstore_gateway.database.database import Database
from ragstore_gateway.engines.assembly import Engines
from ragstore_gateway.engines.engine_collection import DOCUMENT_KEY, REVISION_KEY
from ragstore_gateway.engines.linked_store import SharedStore
from ragstore_gateway.ingestion import metrics
from ragstore_gateway.ingestion.collections import Collection
from ragstore_gateway.ingestion.tables import CollectionRow, RemovalRow
from ragstore_gateway.ingestion.workload import Workload

MAX_WAIT: Final = timedelta(minutes=10)
LATE_REMOVAL: Final = timedelta(hours=1)
"""When a collection that is not needed any more is removed again: longer than any call that may still create it."""

BATCH: Final = 100

_log = structlog.get_logger(__name__)


def add_removal(
    session: AsyncSession,
    collection: CollectionRow | Collection,
    document_id: str | None = None,
    revision: str | None = None,
    *,
    url: str | None = None,
    wait: timedelta = timedelta(0),
) -> None:
    """Decide in a transaction that vectors are removed after it.

    Args:
        session: the transaction.
        document_id: their document; None for the whole collection.
        revision: their revision; None for all of the document.
        url: removes the records of others with this URL, which the document replaces, and no chunk of it.
        wait: how long after now.
    """
    if collection.dimension is None:
        return
    session.add(
        RemovalRow(
            id=str(uuid4()),
            base_id=collection.base_id,
            collection_id=collection.id,
            store_type=collection.store_type,
            store_parameters=dict(collection.store_parameters),
            dimension=collection.dimension,
            document_id=document_id,
            revision=revision,
            url=url,
            attempts=0,
            due_on=datetime.now(UTC) + wait,
        )
    )


class Removals:
    """Removes vectors.

    Args:
        engines: opens collections.
        workload: the bases whose jobs this process runs.
    """

    def __init__(self, database: Database, engines: Engines, workload: Workload = Workload.ALL) -> None:
        self._database = database
        self._engines = engines
        self._workload = workload

    async def run(self, base_id: str | None = None) -> None:
        """Remove all that is due and that this process can reach. Vectors that cannot be removed are due again later.

        Args:
            base_id: the knowledge base; None for all.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        reachable = self._workload.engines(RemovalRow.store_type)
        query = sa.select(RemovalRow).where(RemovalRow.due_on <= datetime.now(UTC), reachable)
        query = query.order_by(RemovalRow.due_on)
        if base_id is not None:
            query = query.where(RemovalRow.base_id == base_id)
        async with self._database.reading() as session:
            rows = list(await session.scalars(query.limit(BATCH)))
        await self._run(rows)

    async def _run(self, rows: Iterable[RemovalRow]) -> None:
        for row in rows:
            own = RemovalRow.id == row.id
            failed = False
            done: sa.Delete | sa.Update = sa.delete(RemovalRow).where(own)
            try:
                await self._remove(row)
            except ServiceError as error:
                failed = True
                metrics.removal("failed")
                _log.warning("vectors not removed", base=row.base_id, collection=row.collection_id, error=error.code)
                due_on = datetime.now(UTC) + min(MAX_WAIT, timedelta(seconds=2 ** min(row.attempts, 10)))
                done = sa.update(RemovalRow).where(own).values(attempts=row.attempts + 1, due_on=due_on)
            else:
                metrics.removal("removed")
            async with self._database.session() as session:
                await session.execute(done)
            if failed:
                # The others would wait for the same store; they are still due.
                return

    async def _remove(self, row: RemovalRow) -> None:
        store = self._engines.open(row.store_type, row.store_parameters, row.collection_id, row.dimension)
        if row.url is not None:
            if isinstance(store, SharedStore):
                await store.delete_replaced(row.url)
            return
        if row.document_id is None:
            await store.drop()
            return
        of_document: Where = {DOCUMENT_KEY: row.document_id}
        of_revision: Where = {"$and": [of_document, {REVISION_KEY: row.revision}]} if row.revision else of_document
        await store.delete(of_revision)
