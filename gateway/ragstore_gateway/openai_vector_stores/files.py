"""`Files`: the uploaded files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import undefer

from ragstore.kit.background import in_background
from ragstore_gateway.database.database import Database
from ragstore_gateway.database.locks import lock_name
from ragstore_gateway.database.repetition import forever
from ragstore_gateway.errors import FileNotFound, FileStorageFull
from ragstore_gateway.ingestion.tenant_storage import FileSizes, TenantStorage
from ragstore_gateway.openai_vector_stores.metrics import FILES_BYTES, FILES_LIMIT_BYTES
from ragstore_gateway.openai_vector_stores.pages import PageQuery, Position
from ragstore_gateway.openai_vector_stores.schemas import FileObject
from ragstore_gateway.openai_vector_stores.tables import FileRow, UploadPartRow, UploadRow, VectorStoreFileRow

SIZES: Final[tuple[FileSizes, ...]] = (
    sa.select(FileRow.tenant, FileRow.size.label("bytes")),
    sa.select(UploadRow.tenant, UploadPartRow.size.label("bytes")).join(
        UploadPartRow, UploadPartRow.upload_id == UploadRow.id
    ),
)
"""The files of tenants, and the parts of their uploads."""

STORAGE: Final = "file_storage"
"""The lock under which the last check of the size of all files is made."""

MEASURE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to store.

    Attributes:
        filename: its name.
        media_type: its media type, as declared.
        content: its bytes.
        expire_seconds: seconds after which it is deleted; None for never.
    """

    filename: str
    purpose: str
    media_type: str
    content: bytes
    expire_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class VisibleFiles:
    """The files that exist for a key that is limited to some knowledge bases: its own, and files in its bases.

    Attributes:
        key: name of the key.
        bases: ids of its bases.
    """

    key: str
    bases: Sequence[str]

    def clause(self) -> sa.ColumnElement[bool]:
        """The condition of a query for files."""
        attached = sa.select(VectorStoreFileRow.file_id).where(VectorStoreFileRow.base_id.in_(self.bases))
        return sa.or_(FileRow.created_by == self.key, FileRow.id.in_(attached))


class Files:
    """The uploaded files.

    Args:
        max_bytes: maximum size of all files together.
        storage: counts the files of tenants.
    """

    def __init__(self, database: Database, max_bytes: int, storage: TenantStorage) -> None:
        self._database = database
        self._max_bytes = max_bytes
        self._storage = storage

    @asynccontextmanager
    async def measuring(self) -> AsyncIterator[None]:
        """Measure the size of all files in the background, in each replica."""
        async with in_background(forever(self.measure, MEASURE_SECONDS, "size of files not measured")):
            yield

    async def measure(self) -> None:
        """Set the metrics.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        async with self._database.reading() as session:
            FILES_BYTES.set(await _stored_bytes(session))
        FILES_LIMIT_BYTES.set(self._max_bytes)

    async def create(self, file: NewFile, created_by: str, tenant: str = "") -> FileObject:
        """Store a file.

        Args:
            created_by: name of the key that uploads it.
            tenant: the tenant of this key; empty for none.

        Raises:
            FileStorageFull: all files together would be too large.
            TenantBytesExceeded: the documents and files of the tenant would be too large.
        """
        async with self._database.session() as session:
            await self.take_room(session, tenant, len(file.content))
            row = await self.add(session, file, created_by, tenant)
        return file_object(row)

    async def take_room(self, session: AsyncSession, tenant: str, size: int) -> None:
        """Take the room of a tenant for a file or a part, before it is stored.

        Args:
            session: the transaction that stores it.
            tenant: empty for none.
            size: in bytes.

        Raises:
            TenantBytesExceeded: the documents and files of the tenant would be too large.
        """
        await self._storage.take_bytes(session, tenant, size)

    async def add(self, session: AsyncSession, file: NewFile, created_by: str, tenant: str) -> FileRow:
        """Store a file in a transaction, which ends with this, and has taken the room of the tenant; see `create`."""
        now = datetime.now(UTC)
        row = FileRow(
            id=f"file-{uuid4().hex}",
            filename=file.filename,
            purpose=file.purpose,
            media_type=file.media_type,
            size=len(file.content),
            created_on=now,
            created_by=created_by,
            tenant=tenant,
            expires_on=None if file.expire_seconds is None else now + timedelta(seconds=file.expire_seconds),
            content=file.content,
        )
        await self.check_room(session, row.size)
        session.add(row)
        await session.flush()
        await self.check_room_at_end(session)
        return row

    async def check_room_at_end(self, session: AsyncSession) -> None:
        """Check the size of all files, with the files that other transactions have committed meanwhile.

        No other one is committed before this one.

        Raises:
            FileStorageFull: they are too large.
        """
        if await lock_name(session, STORAGE):
            await self.check_room(session, 0)

    async def check_room(self, session: AsyncSession, further_bytes: int) -> None:
        """Check the size of all files and of the parts of uploads.

        Args:
            session: a transaction.
            further_bytes: size of a further one.

        Raises:
            FileStorageFull: they are too large.
        """
        if await _stored_bytes(session) + further_bytes > self._max_bytes:
            raise FileStorageFull(
                f"All files together must not have more than {self._max_bytes} bytes; delete files that are not needed"
            )

    async def read(self, file_id: str, *, content: bool = False) -> FileRow:
        """A file.

        Args:
            content: whether its content is read, too.

        Raises:
            FileNotFound: there is none.
        """
        query = sa.select(FileRow).where(FileRow.id == file_id)
        if content:
            query = query.options(undefer(FileRow.content))
        async with self._database.reading() as session:
            row = None if "\0" in file_id else await session.scalar(query)
        if row is None:
            raise missing_file(file_id)
        return row

    async def read_many(self, session: AsyncSession, file_ids: Sequence[str]) -> dict[str, FileRow]:
        """Files with their contents, by id. Ids without a file are left out.

        Args:
            session: the transaction.
        """
        query = sa.select(FileRow).where(FileRow.id.in_(_known(file_ids))).options(undefer(FileRow.content))
        return {row.id: row for row in await session.scalars(query)}

    async def check_visible(self, file_ids: Sequence[str], visible: VisibleFiles | None) -> None:
        """Check that files exist for a caller.

        Args:
            visible: the files that exist for it; None for all, of which none is checked.

        Raises:
            FileNotFound: one does not; the error names the first one.
        """
        if visible is not None:
            await self._check(file_ids, visible.clause())

    async def check_all(self, file_ids: Sequence[str]) -> None:
        """Check that the files of a body exist.

        Raises:
            FileNotFound: one does not; the error names the first one.
        """
        await self._check(file_ids, sa.true())

    async def _check(self, file_ids: Sequence[str], clause: sa.ColumnElement[bool]) -> None:
        query = sa.select(FileRow.id).where(FileRow.id.in_(_known(file_ids)), clause)
        async with self._database.reading() as session:
            found = set(await session.scalars(query))
        for file_id in file_ids:
            if file_id not in found:
                raise missing_file(file_id)

    async def sizes(self, file_ids: Sequence[str]) -> dict[str, int]:
        """Sizes of files in bytes, by id. Ids without a file are left out."""
        query = sa.select(FileRow.id, FileRow.size).where(FileRow.id.in_(_known(file_ids)))
        async with self._database.reading() as session:
            return {id: size for id, size in await session.execute(query)}  # noqa: C416  # rows

    async def page(
        self, page: PageQuery, purpose: str, visible: VisibleFiles | None = None
    ) -> tuple[list[FileObject], bool]:
        """A page of the files.

        Args:
            purpose: the purpose of the files; empty for all.
            visible: the files that exist for the caller; None for all.

        Returns:
            The files, and whether there are more.

        Raises:
            FileNotFound: a cursor is no file.
        """
        query = sa.select(FileRow)
        if purpose:
            query = query.where(FileRow.purpose == purpose)
        if visible is not None:
            query = query.where(visible.clause())
        await self.check_visible([each for each in (page.after, page.before) if each], visible)
        after, before = await self._position(page.after), await self._position(page.before)
        query = page.apply(query, (FileRow.created_on, FileRow.id), after, before)
        async with self._database.reading() as session:
            rows = list(await session.scalars(query))
        return page.cut([file_object(row) for row in rows])

    async def delete(self, file_id: str, visible: VisibleFiles | None = None) -> None:
        """Delete a file. Documents that were made from it stay.

        Args:
            visible: the files that exist for the caller; None for all. A file of another key stays.

        Raises:
            FileNotFound: there is none.
        """
        await self.read(file_id)
        query = sa.delete(FileRow).where(FileRow.id == file_id)
        if visible is not None:
            query = query.where(FileRow.created_by == visible.key)
        async with self._database.session() as session:
            await session.execute(query)

    async def _position(self, file_id: str) -> Position | None:
        if not file_id:
            return None
        row = await self.read(file_id)
        return row.created_on, row.id


def file_object(row: FileRow) -> FileObject:
    """A file as a body."""
    return FileObject(
        id=row.id,
        bytes=row.size,
        created_at=int(row.created_on.timestamp()),
        expires_at=None if row.expires_on is None else int(row.expires_on.timestamp()),
        filename=row.filename,
        purpose=row.purpose,
    )


def missing_file(file_id: str) -> FileNotFound:
    """The error of a file that does not exist."""
    return FileNotFound(f"There is no file {file_id[:64]!r}")


def _known(file_ids: Sequence[str]) -> list[str]:
    """The ids that a file can have: PostgreSQL's driver rejects a NUL."""
    return [each for each in file_ids if "\0" not in each]


async def _stored_bytes(session: AsyncSession) -> int:
    """The size of all files and of the parts of uploads."""
    sums = [await session.scalar(sa.select(sa.func.sum(size))) for size in (FileRow.size, UploadPartRow.size)]
    return sum(int(each or 0) for each in sums)
