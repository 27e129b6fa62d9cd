"""`SourceFiles`: the files of upload sources."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import undefer

from ragstore.kit.errors import ServiceError
from ragstore_gateway.api.uploads import is_blank
from ragstore_gateway.configurations.name_characters import UNSEEN
from ragstore_gateway.configurations.source import UploadSource
from ragstore_gateway.configurations.tables import ConfigurationRow
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import ConfigurationNotFound
from ragstore_gateway.extraction.recognition import recognise
from ragstore_gateway.ingestion.assembly import Ingestion
from ragstore_gateway.ingestion.tables import DocumentRow
from ragstore_gateway.ingestion.tenant_storage import FileSizes
from ragstore_gateway.ingestion.transactions import lock_base
from ragstore_gateway.sources.errors import SourceFileNotFound
from ragstore_gateway.sources.file_tables import FILE_NAME_LENGTH, SourceFileRow
from ragstore_gateway.sources.runs import SourceRuns
from ragstore_gateway.sources.tables import SourceDocumentRow

SIZES: Final[FileSizes] = sa.select(ConfigurationRow.tenant, SourceFileRow.bytes).join(
    SourceFileRow, SourceFileRow.base_id == ConfigurationRow.id
)
"""The files of the bases of tenants."""

INDEXED: Final = "indexed"
CHANGED: Final = "changed"
WAITING: Final = "waiting"

FileStatus: TypeAlias = Literal["indexed", "changed", "waiting"]

_NOT_IN_NAMES: Final = re.compile(rf"[{UNSEEN}/\\]")
_STEPS: Final = (".", "..")


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that is uploaded.

    Attributes:
        media_type: its media type, as declared.
        content: its bytes.
    """

    name: str
    media_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a source, without its content.

    Attributes:
        bytes: its size.
        content_hash: identifies its content and its type.
        uploaded_on: when it was uploaded last.
        status: whether a run has ingested it.
    """

    name: str
    media_type: str
    bytes: int
    content_hash: str
    uploaded_on: datetime
    status: FileStatus


@dataclass(frozen=True, slots=True)
class Rejection:
    """A file that was not stored.

    Attributes:
        index: its position in the upload.
        reason: why.
    """

    index: int
    name: str
    reason: str


class SourceFiles:
    """The files of upload sources. A run of the source ingests them.

    Args:
        ingestion: ingests documents.
        runs: the runs of sources.
        max_file_bytes: maximum size of a file of any source.
    """

    def __init__(self, database: Database, ingestion: Ingestion, runs: SourceRuns, max_file_bytes: int) -> None:
        self._database = database
        self._ingestion = ingestion
        self._runs = runs
        self._max_file_bytes = max_file_bytes

    async def store(
        self, base_id: str, source: str, limits: UploadSource, files: Sequence[NewFile]
    ) -> tuple[list[StoredFile], list[Rejection]]:
        """Store files. One of a name that the source has already replaces it. Each is stored or rejected for itself.

        Args:
            base_id: the knowledge base.
            source: name of the source.
            limits: the limits of its files.

        Returns:
            The stored files, and the rejections.

        Raises:
            ConfigurationNotFound: there is no such knowledge base.
            DatabaseUnavailable: the database cannot be used.
        """
        max_bytes = min(limits.max_file_bytes, self._max_file_bytes)
        reasons = [await asyncio.to_thread(_fault, file, max_bytes) for file in files]
        digests = [await asyncio.to_thread(_digest, file) for file in files]
        stored: list[StoredFile] = []
        now = datetime.now(UTC)
        async with self._database.session() as session:
            if await lock_base(session, base_id) is None:
                raise ConfigurationNotFound(f"There is no knowledge base {base_id}")
            sizes = await _sizes(session, base_id, source)
            room = await self._ingestion.acceptance.storage.room(session, base_id, ())
            for index, file in enumerate(files):
                if reasons[index]:
                    continue
                after = {**sizes, file.name: len(file.content)}
                if len(after) > limits.max_files:
                    reasons[index] = f"The source has {limits.max_files} files, which is its maximum"
                elif sum(after.values()) > limits.max_total_bytes:
                    reasons[index] = f"The files of the source would have more than {limits.max_total_bytes} bytes"
                elif full := room.take_bytes(len(file.content) - sizes.get(file.name, 0)):
                    reasons[index] = full.detail
                else:
                    sizes = after
                    row = _row(base_id, source, file, digests[index], now)
                    await session.merge(row)
                    stored.append(_stored(row, None))
        rejected = [Rejection(index, files[index].name, reason) for index, reason in enumerate(reasons) if reason]
        return stored, rejected

    async def page(self, base_id: str, source: str, index: int, limit: int) -> tuple[list[StoredFile], int, int]:
        """A page of the files of a source, by name.

        Args:
            base_id: the knowledge base.
            source: name of the source.
            index: number of the page, from 0.
            limit: maximum number of files on a page.

        Returns:
            The files, the number of all, and the size of all.
        """
        async with self._database.reading() as session:
            rows = (await session.execute(_files(base_id, source).limit(limit).offset(index * limit))).all()
            sizes = await _sizes(session, base_id, source)
        return [_stored(row, row.known_hash) for row in rows], len(sizes), sum(sizes.values())

    async def names(self, base_id: str, source: str) -> dict[str, StoredFile]:
        """All files of a source, by name.

        Args:
            base_id: the knowledge base.
            source: name of the source.
        """
        async with self._database.reading() as session:
            rows = (await session.execute(_files(base_id, source))).all()
        return {row.name: _stored(row, row.known_hash) for row in rows}

    async def read(self, base_id: str, source: str, name: str) -> NewFile | None:
        """A file with its content; None if the source has none of this name.

        Args:
            base_id: the knowledge base.
            source: name of the source.
            name: name of the file.
        """
        async with self._database.reading() as session:
            row = await session.get(SourceFileRow, (base_id, source, name), options=[undefer(SourceFileRow.content)])
        return None if row is None else NewFile(row.name, row.media_type, row.content)

    async def delete(self, base_id: str, source: str, name: str) -> None:
        """Delete a file, and the document that a run made of it, with its vectors.

        Args:
            base_id: the knowledge base.
            source: name of the source.
            name: name of the file.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            SourceFileNotFound: the source has none of this name.
            SourceRunning: a run of the source has not ended. It could ingest the file after its deletion.
        """

        async def choose(session: AsyncSession) -> list[str]:
            row = None if "\0" in name else await session.get(SourceFileRow, (base_id, source, name))
            if row is None:
                raise SourceFileNotFound(f"The source {source} has no file of this name")
            await self._runs.check_idle(session, base_id, source)
            await session.delete(row)
            documents = (
                sa.select(SourceDocumentRow.document_id)
                .join(DocumentRow, DocumentRow.id == SourceDocumentRow.document_id)
                .where(
                    SourceDocumentRow.base_id == base_id,
                    SourceDocumentRow.source == source,
                    SourceDocumentRow.location == location(source, name),
                    # Otherwise, a caller has ingested another content under its name since.
                    DocumentRow.last_ingestion == SourceDocumentRow.ingestion_id,
                )
            )
            return list(await session.scalars(documents))

        await self._ingestion.delete_chosen(base_id, choose)

    async def has_any(self, base_id: str, source: str) -> bool:
        """Whether a source, or a former one, has files.

        Args:
            base_id: the knowledge base.
            source: name of the source.
        """
        async with self._database.reading() as session:
            return bool(await _sizes(session, base_id, source))


def location(source: str, name: str) -> str:
    """The name of the document of a file: two sources may have files of one name.

    Args:
        source: name of the source.
        name: name of the file.
    """
    return f"{source}/{name}"


def _fault(file: NewFile, max_bytes: int) -> str:
    """Why a file cannot be stored; empty if it can."""
    name = file.name
    if not name or len(name) > FILE_NAME_LENGTH or _NOT_IN_NAMES.search(name) or name != name.strip() or name in _STEPS:
        return (
            f"A file needs a name of at most {FILE_NAME_LENGTH} characters, without slashes and without control, "
            "bidirectional, separator or invisible characters"
        )
    if len(file.content) > max_bytes:
        return f"A file must not be larger than {max_bytes} bytes"
    if is_blank(file.content):
        return "The file is empty"
    try:
        recognise(file.content, file.media_type, name)
    except ServiceError as error:
        return error.detail
    return ""


def _digest(file: NewFile) -> str:
    """The digest of a file's type and content."""
    digest = hashlib.sha256(file.media_type.encode() + b"\0")
    digest.update(file.content)
    return digest.hexdigest()


def _row(base_id: str, source: str, file: NewFile, digest: str, now: datetime) -> SourceFileRow:
    return SourceFileRow(
        base_id=base_id,
        source=source,
        name=file.name,
        media_type=file.media_type,
        bytes=len(file.content),
        content_hash=digest,
        content=file.content,
        uploaded_on=now,
    )


def _files(base_id: str, source: str) -> sa.Select[str, str, int, str, datetime, str]:
    """The files of a source without their contents, with the hash of what a run has stored of each."""
    return (
        sa.select(
            SourceFileRow.name,
            SourceFileRow.media_type,
            SourceFileRow.bytes,
            SourceFileRow.content_hash,
            SourceFileRow.uploaded_on,
            SourceDocumentRow.content_hash.label("known_hash"),
        )
        .outerjoin(
            SourceDocumentRow,
            (SourceDocumentRow.base_id == SourceFileRow.base_id)
            & (SourceDocumentRow.source == SourceFileRow.source)
            & (SourceDocumentRow.location == SourceFileRow.source + "/" + SourceFileRow.name),
        )
        .where(SourceFileRow.base_id == base_id, SourceFileRow.source == source)
        .order_by(SourceFileRow.name)
    )


def _stored(row: SourceFileRow | sa.Row[str, str, int, str, datetime, str], known_hash: str | None) -> StoredFile:
    status: FileStatus = WAITING
    if known_hash:
        status = INDEXED if known_hash == row.content_hash else CHANGED
    return StoredFile(row.name, row.media_type, row.bytes, row.content_hash, row.uploaded_on, status)


async def _sizes(session: AsyncSession, base_id: str, source: str) -> dict[str, int]:
    query = sa.select(SourceFileRow.name, SourceFileRow.bytes).where(
        SourceFileRow.base_id == base_id, SourceFileRow.source == source
    )
    return {name: size for name, size in await session.execute(query)}  # noqa: C416  # rows
