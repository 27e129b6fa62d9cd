"""`Uploads`: files that are uploaded in parts."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, cast
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import undefer

from ragstore.kit.byte_budget import reserved
from ragstore.kit.errors import BodyTooLarge, InvalidRequest
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import FileNotFound, UploadConflict
from ragstore_gateway.openai_vector_stores.file_forms import filename_of, media_type_of
from ragstore_gateway.openai_vector_stores.files import Files, NewFile, file_object
from ragstore_gateway.openai_vector_stores.schemas import (
    MAX_PARTS,
    NewUpload,
    UploadCompletion,
    UploadObject,
    UploadPartObject,
)
from ragstore_gateway.openai_vector_stores.tables import FileRow, UploadPartRow, UploadRow

LIFETIME: Final = timedelta(hours=1)
"""Time in which an upload must be completed. It is OpenAI's."""

PENDING: Final = "pending"
COMPLETED: Final = "completed"
CANCELLED: Final = "cancelled"


class Uploads:
    """The uploads.

    Args:
        files: the uploaded files.
        max_file_bytes: size of the largest file.
    """

    def __init__(self, database: Database, files: Files, max_file_bytes: int) -> None:
        self._database = database
        self._files = files
        self._max_file_bytes = max_file_bytes

    async def create(self, body: NewUpload, created_by: str, tenant: str = "") -> UploadObject:
        """Begin an upload. Its parts take the room for it.

        Args:
            created_by: name of the key that creates it.
            tenant: the tenant of this key; empty for none.

        Raises:
            BodyTooLarge: the file is too large.
            FileStorageFull: all files together would be too large.
            InvalidRequest: its name is not possible.
            TenantBytesExceeded: the documents and files of the tenant would be too large.
        """
        if body.bytes > self._max_file_bytes:
            raise BodyTooLarge(f"A file must not be larger than {self._max_file_bytes} bytes")
        row = UploadRow(
            id=f"upload_{uuid4().hex}",
            filename=filename_of(body.filename, "$.filename"),
            purpose=body.purpose,
            media_type=media_type_of(body.mime_type.partition(";")[0].strip().lower()),
            size=body.bytes,
            expire_seconds=None if body.expires_after is None else body.expires_after.seconds,
            created_on=datetime.now(UTC),
            created_by=created_by,
            tenant=tenant,
            state=PENDING,
            file_id=None,
        )
        async with self._database.session() as session:
            await self._files.take_room(session, tenant, row.size)
            await self._files.check_room(session, row.size)
            session.add(row)
        return _object(row)

    async def add_part(self, upload_id: str, content: bytes, caller: str | None) -> UploadPartObject:
        """Store a part of an upload.

        Args:
            upload_id: the upload.
            content: the part.
            caller: the key to whose uploads the call is limited; None for all.

        Raises:
            FileNotFound: there is no such upload.
            FileStorageFull: all files together would be too large.
            TenantBytesExceeded: the documents and files of the tenant would be too large.
            UploadConflict: the upload has ended, or has as many parts or bytes as it may have.
        """
        async with self._database.session() as session:
            upload = await self._open(session, upload_id, caller)
            query = sa.select(sa.func.count(), sa.func.sum(UploadPartRow.size)).where(
                UploadPartRow.upload_id == upload_id
            )
            count, size = (await session.execute(query)).one()
            if count >= MAX_PARTS:
                raise UploadConflict(f"An upload must not have more than {MAX_PARTS} parts")
            if int(size or 0) + len(content) > upload.size:
                raise UploadConflict(f"The parts must have {upload.size} bytes together")
            part = UploadPartRow(id=f"part_{uuid4().hex}", upload_id=upload_id, size=len(content), content=content)
            await self._files.take_room(session, upload.tenant, len(content))
            await self._files.check_room(session, len(content))
            session.add(part)
            await session.flush()
            await self._files.check_room_at_end(session)
        return UploadPartObject(id=part.id, created_at=int(datetime.now(UTC).timestamp()), upload_id=upload_id)

    async def complete(self, upload_id: str, body: UploadCompletion, caller: str | None) -> UploadObject:
        """Make a file of the parts of an upload.

        Args:
            upload_id: the upload.
            caller: see `add_part`.

        Raises:
            FileNotFound: there is no such upload.
            InvalidRequest: a part is named twice.
            UploadConflict: the upload has ended, has no such part, or the size or the MD5 of the parts is another one.
        """
        async with self._database.reading() as session:
            size = (await self._find(session, upload_id, caller)).size
        # The parts, and the file.
        async with reserved(2 * size), self._database.session() as session:
            upload = await self._open(session, upload_id, caller)
            content = await self._joined(session, upload, body)
            file = NewFile(upload.filename, upload.purpose, upload.media_type, content, upload.expire_seconds)
            await session.execute(sa.delete(UploadPartRow).where(UploadPartRow.upload_id == upload_id))
            # The parts had the room of the tenant.
            row = await self._files.add(session, file, upload.created_by, upload.tenant)
            upload.state, upload.file_id = COMPLETED, row.id
        return _object(upload, row)

    async def cancel(self, upload_id: str, caller: str | None) -> UploadObject:
        """End an upload, and delete its parts.

        Args:
            upload_id: the upload.
            caller: see `add_part`.

        Raises:
            FileNotFound: there is no such upload.
            UploadConflict: the upload has ended.
        """
        async with self._database.session() as session:
            upload = await self._open(session, upload_id, caller)
            await session.execute(sa.delete(UploadPartRow).where(UploadPartRow.upload_id == upload_id))
            upload.state = CANCELLED
        return _object(upload)

    async def forget(self, now: datetime) -> None:
        """Delete uploads whose time is over. The files of completed ones stay.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        old = UploadRow.created_on < now - LIFETIME
        async with self._database.reading() as session:
            if await session.scalar(sa.select(UploadRow.id).where(old).limit(1)) is None:
                return
        async with self._database.session() as session:
            await session.execute(sa.delete(UploadRow).where(old))

    async def _joined(self, session: AsyncSession, upload: UploadRow, body: UploadCompletion) -> bytes:
        """The content of a file."""
        if len(set(body.part_ids)) < len(body.part_ids):
            raise InvalidRequest.at("$.part_ids", "Must not have a part twice")
        query = (
            sa.select(UploadPartRow).where(UploadPartRow.upload_id == upload.id).options(undefer(UploadPartRow.content))
        )
        parts = {part.id: part for part in await session.scalars(query)}
        for index, part_id in enumerate(body.part_ids):
            if part_id not in parts:
                raise UploadConflict(f"The upload has no part of the id {part_id[:64]!r}: $.part_ids[{index}]")
        content = await asyncio.to_thread(b"".join, [parts[part_id].content for part_id in body.part_ids])
        if len(content) != upload.size:
            raise UploadConflict(f"The parts have {len(content)} bytes, and the upload {upload.size}")
        if body.md5 is not None:
            digest = await asyncio.to_thread(lambda: hashlib.md5(content, usedforsecurity=False).hexdigest())
            if digest != body.md5.lower():
                raise UploadConflict("The content has another MD5")
        return content

    async def _open(self, session: AsyncSession, upload_id: str, caller: str | None) -> UploadRow:
        """An upload that has not ended, locked until the end of the transaction."""
        upload = await self._find(session, upload_id, caller, lock=True)
        if upload.state != PENDING:
            raise UploadConflict(f"The upload is {upload.state}")
        return upload

    async def _find(
        self, session: AsyncSession, upload_id: str, caller: str | None, *, lock: bool = False
    ) -> UploadRow:
        query = sa.select(UploadRow).where(
            UploadRow.id == upload_id, UploadRow.created_on >= datetime.now(UTC) - LIFETIME
        )
        if caller is not None:
            query = query.where(UploadRow.created_by == caller)
        upload = None if "\0" in upload_id else await session.scalar(query.with_for_update() if lock else query)
        if upload is None:
            raise FileNotFound(f"There is no upload {upload_id[:64]!r}, or it has expired")
        return upload


def _object(row: UploadRow, file: FileRow | None = None) -> UploadObject:
    return UploadObject(
        id=row.id,
        bytes=row.size,
        created_at=int(row.created_on.timestamp()),
        expires_at=int((row.created_on + LIFETIME).timestamp()),
        filename=row.filename,
        purpose=row.purpose,
        status=cast(Literal["pending", "completed", "cancelled"], row.state),
        file=None if file is None else file_object(file),
    )
