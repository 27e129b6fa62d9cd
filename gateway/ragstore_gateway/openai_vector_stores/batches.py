"""`Batches`: files that are attached to a vector store with one call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore.kit.byte_budget import reserved
from ragstore.kit.errors import InvalidRequest, ServiceError
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import ConfigurationNotFound, FileNotFound, IngestionEnded, IngestionNotFound, QueueFull
from ragstore_gateway.ingestion.assembly import Ingestion
from ragstore_gateway.ingestion.queue import MAX_BYTES, MAX_DOCUMENTS
from ragstore_gateway.ingestion.tables import IngestionRow
from ragstore_gateway.ingestion.transactions import UNFINISHED, lock_base
from ragstore_gateway.openai_vector_stores.file_objects import failure_of
from ragstore_gateway.openai_vector_stores.files import Files
from ragstore_gateway.openai_vector_stores.pages import PageQuery, Position
from ragstore_gateway.openai_vector_stores.properties import record_upload
from ragstore_gateway.openai_vector_stores.schemas import (
    FileBatchObject,
    LastError,
    NewFileBatch,
    NewVectorStoreFile,
    State,
    VectorStoreFileObject,
)
from ragstore_gateway.openai_vector_stores.store_files import STATES, StoreFiles, UnsupportedFile
from ragstore_gateway.openai_vector_stores.stores import check_strategy, counts_of, state_of, strategy_of
from ragstore_gateway.openai_vector_stores.tables import FileBatchFileRow, FileBatchRow, VectorStoreFileRow

UNSUPPORTED = "unsupported_file: "
"""Begins the stored error of a file that has an unsupported media type."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Group:
    """Files that are attached with one transaction.

    Attributes:
        size: their size in bytes.
    """

    files: list[NewVectorStoreFile]
    size: int


class Batches:
    """Batches of files.

    Args:
        bases: the knowledge bases.
        ingestion: ingests documents.
        files: the uploaded files.
        store_files: the files of vector stores.
    """

    def __init__(
        self,
        database: Database,
        bases: Configurations[KnowledgeBase],
        ingestion: Ingestion,
        files: Files,
        store_files: StoreFiles,
    ) -> None:
        self._database = database
        self._bases = bases
        self._ingestion = ingestion
        self._files = files
        self._store_files = store_files

    async def create(self, base_id: str, body: NewFileBatch) -> FileBatchObject:
        """Attach files. A file that cannot be attached does not affect the others.

        Args:
            base_id: the vector store.
            body: the files.

        Raises:
            ConfigurationNotFound: there is no such vector store.
            FileNotFound: one of the files does not exist. Nothing was attached.
            InvalidRequest: the body is not valid, or the vector store has expired. Nothing was attached.
        """
        base = await self._bases.read(base_id)
        wanted = files_of(body)
        for new in wanted:
            check_strategy(base.body, new.chunking_strategy, "$.chunking_strategy")
        await self._files.check_all([new.file_id for new in wanted])
        batch_id, now = f"vsfb_{uuid4().hex}", datetime.now(UTC)
        async with self._database.session() as session:
            if await lock_base(session, base_id) is None:
                raise ConfigurationNotFound(f"There is no knowledge base {base_id}")
            await record_upload(session, base_id)
            session.add(FileBatchRow(id=batch_id, base_id=base_id, created_on=now))
        for group in await self._groups(wanted):
            async with reserved(group.size):
                await self._attach(base, batch_id, group.files)
        return await self.read(base_id, batch_id)

    async def attach_to_new(
        self, session: AsyncSession, base: Configuration[KnowledgeBase], /, file_ids: Sequence[str]
    ) -> None:
        """Attach files in the transaction that creates a vector store.

        A file that cannot be attached does not affect the others.

        Args:
            session: the transaction.
            base: the vector store.
            file_ids: the files.

        Raises:
            FileNotFound: one of the files does not exist.
            QueueFull: other documents were accepted meanwhile, so that too many wait.
        """
        batch_id = f"vsfb_{uuid4().hex}"
        session.add(FileBatchRow(id=batch_id, base_id=base.id, created_on=datetime.now(UTC)))
        await session.flush()
        new = [NewVectorStoreFile(file_id, None, None) for file_id in dict.fromkeys(file_ids)]
        for group in await self._groups(new):
            outcomes = await self._store_files.attach_group(session, base, group.files)
            for each, outcome in zip(group.files, outcomes, strict=True):
                if isinstance(outcome, FileNotFound):
                    raise outcome
                session.add(_row(batch_id, base.id, each.file_id, outcome))
        await session.flush()
        await self._ingestion.acceptance.reserve(session)

    async def read(self, base_id: str, batch_id: str) -> FileBatchObject:
        """A batch.

        Args:
            base_id: the vector store.
            batch_id: the batch.

        Raises:
            FileNotFound: the vector store has no such batch.
        """
        batch = await self._find(base_id, batch_id)
        query = (
            sa.select(FileBatchFileRow.error, IngestionRow.state)
            .join(IngestionRow, IngestionRow.id == FileBatchFileRow.ingestion_id, isouter=True)
            .where(FileBatchFileRow.batch_id == batch_id)
        )
        counts: Counter[State] = Counter()
        async with self._database.reading() as session:
            for error, state in await session.execute(query):
                counts["failed" if error else state_of(state)] += 1
        return FileBatchObject(
            id=batch_id,
            created_at=int(batch.created_on.timestamp()),
            vector_store_id=base_id,
            status=_state(counts),
            file_counts=counts_of(counts),
        )

    async def cancel(self, base_id: str, batch_id: str) -> None:
        """Cancel the ingestions of a batch that have not ended.

        Args:
            base_id: the vector store.
            batch_id: the batch.

        Raises:
            FileNotFound: the vector store has no such batch.
        """
        await self._find(base_id, batch_id)
        query = (
            sa.select(IngestionRow.id)
            .join(FileBatchFileRow, FileBatchFileRow.ingestion_id == IngestionRow.id)
            .where(FileBatchFileRow.batch_id == batch_id, IngestionRow.state.in_(UNFINISHED))
        )
        async with self._database.reading() as session:
            unfinished = list(await session.scalars(query))
        for ingestion_id in unfinished:
            try:
                await self._ingestion.cancel(base_id, ingestion_id)
            except (IngestionEnded, IngestionNotFound):
                continue

    async def page(
        self, base_id: str, batch_id: str, page: PageQuery, state: State | None
    ) -> tuple[list[VectorStoreFileObject], bool]:
        """A page of the files of a batch.

        Args:
            base_id: the vector store.
            batch_id: the batch.
            state: the state of the files; None for all.

        Returns:
            The files, and whether there are more.

        Raises:
            ConfigurationNotFound: there is no such vector store.
            FileNotFound: the vector store has no such batch, or a cursor is none of its files.
        """
        base = await self._bases.read(base_id)
        await self._find(base_id, batch_id)
        query = _select(base_id, batch_id)
        if state is not None:
            query = query.where(_in_state(state))
        after, before = await self._position(batch_id, page.after), await self._position(batch_id, page.before)
        query = page.apply(query, (FileBatchFileRow.created_on, FileBatchFileRow.file_id), after, before)
        async with self._database.reading() as session:
            rows = [tuple(row) for row in await session.execute(query)]
        strategy = strategy_of(base.body)
        objects = [
            VectorStoreFileObject(
                id=row.file_id,
                created_at=int(row.created_on.timestamp()),
                usage_bytes=row.bytes,
                vector_store_id=base_id,
                status="failed" if row.error else state_of(None if ingestion is None else ingestion.state),
                last_error=_error(row, ingestion),
                chunking_strategy=strategy,
                attributes=attributes or {},
            )
            for row, ingestion, attributes in rows
        ]
        return page.cut(objects)

    async def _groups(self, files: Sequence[NewVectorStoreFile]) -> list[_Group]:
        """Files in groups of one transaction; a large file is alone."""
        sizes = await self._files.sizes([each.file_id for each in files])
        groups: list[_Group] = []
        for each in files:
            size = sizes.get(each.file_id, 0)
            last = groups[-1] if groups else None
            if last is None or len(last.files) == MAX_DOCUMENTS or last.size + size > MAX_BYTES:
                last = _Group([], 0)
                groups.append(last)
            last.files.append(each)
            last.size += size
        return groups

    async def _attach(
        self, base: Configuration[KnowledgeBase], batch_id: str, files: Sequence[NewVectorStoreFile]
    ) -> None:
        """Attach files of a batch with one transaction, or, if the queue has no room for all, half of them first."""
        await self._ingestion.linked.prepare(base.id)
        try:
            async with self._database.session() as session:
                for each, outcome in zip(
                    files, await self._store_files.attach_group(session, base, files), strict=True
                ):
                    await session.merge(_row(batch_id, base.id, each.file_id, outcome))
                await self._ingestion.acceptance.reserve(session)
        except QueueFull as error:
            # Others have taken the room meanwhile.
            if len(files) == 1:
                await self._reject(batch_id, files[0].file_id, error)
                return
        else:
            self._ingestion.wake()
            return
        half = len(files) // 2
        await self._attach(base, batch_id, files[:half])
        await self._attach(base, batch_id, files[half:])

    async def _reject(self, batch_id: str, file_id: str, error: ServiceError) -> None:
        row = _rejected(batch_id, file_id, error)
        async with self._database.session() as session:
            # The vector store may have been deleted meanwhile, with the batch.
            if await session.get(FileBatchRow, batch_id, with_for_update={"key_share": True}) is not None:
                await session.merge(row)

    async def _find(self, base_id: str, batch_id: str) -> FileBatchRow:
        async with self._database.reading() as session:
            row = None if "\0" in batch_id else await session.get(FileBatchRow, batch_id)
        if row is None or row.base_id != base_id:
            raise FileNotFound(f"The vector store {base_id[:64]!r} has no batch {batch_id[:64]!r}")
        return row

    async def _position(self, batch_id: str, file_id: str) -> Position | None:
        if not file_id:
            return None
        async with self._database.reading() as session:
            row = None if "\0" in file_id else await session.get(FileBatchFileRow, (batch_id, file_id))
        if row is None:
            raise FileNotFound(f"The batch has no file {file_id[:64]!r}")
        return row.created_on, row.file_id


def _joined(batch_id: str, file_id: str, ingestion: IngestionRow) -> FileBatchFileRow:
    """A file of a batch whose ingestion was accepted."""
    return FileBatchFileRow(
        batch_id=batch_id,
        file_id=file_id,
        ingestion_id=ingestion.id,
        created_on=ingestion.created_on,
        bytes=ingestion.bytes,
        error="",
    )


def _row(batch_id: str, base_id: str, file_id: str, outcome: IngestionRow | ServiceError) -> FileBatchFileRow:
    """A file of a batch."""
    if not isinstance(outcome, ServiceError):
        return _joined(batch_id, file_id, outcome)
    _log.warning("file not attached", base=base_id, file=file_id, error=outcome.code)
    return _rejected(batch_id, file_id, outcome)


def _rejected(batch_id: str, file_id: str, error: ServiceError) -> FileBatchFileRow:
    """A file of a batch that was not accepted."""
    prefix = UNSUPPORTED if isinstance(error, UnsupportedFile) else ""
    return FileBatchFileRow(
        batch_id=batch_id,
        file_id=file_id,
        ingestion_id=None,
        created_on=datetime.now(UTC),
        bytes=0,
        error=f"{prefix}{error.detail}",
    )


def files_of(body: NewFileBatch) -> Sequence[NewVectorStoreFile]:
    """The files of a batch, each once."""
    if bool(body.file_ids) == bool(body.files):
        raise InvalidRequest.at("$.file_ids", "Either file_ids or files must be given")
    files = body.files or [
        NewVectorStoreFile(file_id, body.attributes, body.chunking_strategy) for file_id in body.file_ids or []
    ]
    return list({each.file_id: each for each in files}.values())


def _select(base_id: str, batch_id: str) -> sa.Select[FileBatchFileRow, IngestionRow, dict[str, Any]]:
    return (
        sa.select(FileBatchFileRow, IngestionRow, VectorStoreFileRow.attributes)
        .join(IngestionRow, IngestionRow.id == FileBatchFileRow.ingestion_id, isouter=True)
        .join(
            VectorStoreFileRow,
            (VectorStoreFileRow.file_id == FileBatchFileRow.file_id) & (VectorStoreFileRow.base_id == base_id),
            isouter=True,
        )
        .where(FileBatchFileRow.batch_id == batch_id)
    )


def _in_state(state: State) -> sa.ColumnElement[bool]:
    chosen = IngestionRow.state.in_(STATES[state])
    if state == "failed":
        return sa.or_(chosen, FileBatchFileRow.error != "")
    if state == "completed":
        return sa.or_(chosen, sa.and_(IngestionRow.id.is_(None), FileBatchFileRow.error == ""))
    return chosen


def _state(counts: Counter[State]) -> State:
    if counts["in_progress"]:
        return "in_progress"
    if counts["cancelled"]:
        return "cancelled"
    return "failed" if counts["failed"] and not counts["completed"] else "completed"


def _error(row: FileBatchFileRow, ingestion: IngestionRow | None) -> LastError | None:
    if row.error.startswith(UNSUPPORTED):
        return LastError("unsupported_file", row.error.removeprefix(UNSUPPORTED))
    if row.error:
        return LastError("server_error", row.error)
    if ingestion is not None and state_of(ingestion.state) == "failed":
        return failure_of(ingestion.message, ingestion.chunks)
    return None
