"""`Expiry`: deletes the documents of vector stores that have expired, and files and uploads that have expired."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

import sqlalchemy as sa
import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore.kit.background import in_background
from ragstore_gateway.configurations.tables import ConfigurationRow
from ragstore_gateway.database.database import Database
from ragstore_gateway.database.repetition import forever
from ragstore_gateway.errors import FileNotFound
from ragstore_gateway.ingestion.assembly import Ingestion
from ragstore_gateway.ingestion.tables import DocumentRow
from ragstore_gateway.openai_vector_stores.files import Files
from ragstore_gateway.openai_vector_stores.store_files import StoreFiles
from ragstore_gateway.openai_vector_stores.tables import FileRow, VectorStoreRow
from ragstore_gateway.openai_vector_stores.uploads import Uploads

SWEEP_SECONDS: Final = 10.0
RECORD_STEP: Final = timedelta(minutes=1)
"""A later activity is recorded if it is later by this time: each record makes all caches of rows invalid."""

BATCH: Final = 500
"""Maximum number of documents that are deleted in a transaction, and of files that a sweep deletes."""

_log: Final = structlog.get_logger(__name__)


class Expiry:
    """Runs beside the requests, in each replica.

    A vector store is active when it is searched, by any call, when a document is ingested, and when it is changed.
    Sweeps record searches: a search in the last minute before the end of a process is lost.

    Args:
        ingestion: deletes documents.
        files: the uploaded files.
        store_files: the files of vector stores.
        uploads: files that are uploaded in parts.
        last_searches: the time of the last search of each base by this process.
    """

    def __init__(
        self,
        database: Database,
        ingestion: Ingestion,
        files: Files,
        store_files: StoreFiles,
        uploads: Uploads,
        last_searches: Mapping[str, datetime],
    ) -> None:
        self._database = database
        self._ingestion = ingestion
        self._files = files
        self._store_files = store_files
        self._uploads = uploads
        self._last_searches = last_searches

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Sweep in the background."""
        async with in_background(forever(self.sweep, SWEEP_SECONDS, "expiry not checked")):
            yield

    async def sweep(self) -> None:
        """Delete once.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        now = datetime.now(UTC)
        has_documents = sa.exists().where(DocumentRow.base_id == VectorStoreRow.base_id)
        with_expiry = sa.select(VectorStoreRow.base_id).where(
            VectorStoreRow.expire_days.is_not(None), sa.or_(VectorStoreRow.expired_on.is_(None), has_documents)
        )
        files = sa.select(FileRow.id).where(FileRow.expires_on <= now).limit(BATCH)
        async with self._database.reading() as session:
            base_ids = list(await session.scalars(with_expiry))
            file_ids = list(await session.scalars(files))
        for base_id in base_ids:
            if await self._has_expired(base_id, now):
                await self._delete_documents(base_id)
        for file_id in file_ids:
            await self._delete_file(file_id)
        await self._uploads.forget(now)

    async def _has_expired(self, base_id: str, now: datetime) -> bool:
        """Record the last activity of a vector store, and whether it has expired."""
        async with self._database.reading() as session:
            row = await session.get(VectorStoreRow, base_id)
            if row is None or row.expire_days is None or row.active_on is None:
                return False
            if row.expired_on is not None:
                return True
            active_on = max(row.active_on, self._last_searches.get(base_id, row.active_on))
            days = timedelta(days=row.expire_days)
            if active_on + days <= now:
                active_on = max(active_on, await _last_change(session, base_id) or active_on)
        has_expired = active_on + days <= now
        if not has_expired and active_on < row.active_on + RECORD_STEP:
            return False
        own = VectorStoreRow.base_id == base_id
        known = VectorStoreRow.active_on == row.active_on, VectorStoreRow.expire_days == row.expire_days
        values = {"active_on": active_on, "expired_on": now if has_expired else None}
        async with self._database.session() as session:
            # Nothing happens if another replica has recorded an activity, or a caller has changed the expiry.
            changed = sa.update(VectorStoreRow).where(own, *known).values(values).returning(VectorStoreRow.base_id)
            if (await session.execute(changed)).first() is None:
                return False
        if has_expired:
            _log.info("vector store expired", base=base_id, days=row.expire_days)
        return has_expired

    async def _delete_documents(self, base_id: str) -> None:
        async def choose(session: AsyncSession) -> list[str]:
            query = sa.select(DocumentRow.id).where(DocumentRow.base_id == base_id).limit(BATCH)
            chosen.extend(found := list(await session.scalars(query)))
            return found

        while True:
            chosen: list[str] = []
            await self._ingestion.delete_chosen(base_id, choose)
            if len(chosen) < BATCH:
                return

    async def _delete_file(self, file_id: str) -> None:
        try:
            await self._store_files.delete_everywhere(file_id)
            await self._files.delete(file_id)
        except FileNotFound:
            return  # by another replica
        _log.info("file expired", file=file_id)


async def _last_change(session: AsyncSession, base_id: str) -> datetime | None:
    """The last change of a knowledge base or of its documents."""
    configured = sa.select(ConfigurationRow.modified_on).where(ConfigurationRow.id == base_id)
    ingested = sa.select(sa.func.max(DocumentRow.modified_on)).where(DocumentRow.base_id == base_id)
    times = (await session.scalar(configured), await session.scalar(ingested))
    return max((time for time in times if time is not None), default=None)
