"""`StoreFiles`: the documents of a knowledge base as the files of a vector store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore.kit.byte_budget import reserved
from ragstore.kit.errors import InvalidRequest, ServiceError
from ragstore_gateway.api.uploads import ACCEPTED
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import ConfigurationNotFound, FileNotFound
from ragstore_gateway.ingestion.acceptance import NewContent
from ragstore_gateway.ingestion.assembly import Ingestion
from ragstore_gateway.ingestion.document_metadata import metadata_of_attributes
from ragstore_gateway.ingestion.documents import AlsoStore
from ragstore_gateway.ingestion.metadata_changes import change_metadata
from ragstore_gateway.ingestion.tables import DocumentRow, IngestionRow
from ragstore_gateway.ingestion.transactions import CANCELLED, COMPLETED, FAILED, UNFINISHED, lock_base
from ragstore_gateway.openai_vector_stores.document_names import linked_name, name_of, names_of
from ragstore_gateway.openai_vector_stores.file_objects import file_of, select_files
from ragstore_gateway.openai_vector_stores.files import Files, missing_file
from ragstore_gateway.openai_vector_stores.pages import PageQuery, Position
from ragstore_gateway.openai_vector_stores.properties import record_upload
from ragstore_gateway.openai_vector_stores.schemas import (
    AttributeValue,
    NewVectorStoreFile,
    State,
    VectorStoreFileObject,
)
from ragstore_gateway.openai_vector_stores.stores import check_strategy, strategy_of
from ragstore_gateway.openai_vector_stores.tables import FileRow, VectorStoreFileRow

MAX_ATTEMPTS: Final = 3
"""How often a document's name is chosen while others take it."""

STATES: Final[Mapping[State, tuple[str, ...]]] = {
    "in_progress": UNFINISHED,
    "completed": (COMPLETED,),
    "failed": (FAILED,),
    "cancelled": (CANCELLED,),
}


class UnsupportedFile(InvalidRequest):
    """Files of this media type cannot be ingested."""

    code = InvalidRequest.code


class _NameUsed(Exception):
    """The document of the chosen name is another file."""


class StoreFiles:
    """The files of vector stores. Their documents are named after them.

    Args:
        bases: the knowledge bases.
        ingestion: ingests documents.
        files: the uploaded files.
    """

    def __init__(
        self, database: Database, bases: Configurations[KnowledgeBase], ingestion: Ingestion, files: Files
    ) -> None:
        self._database = database
        self._bases = bases
        self._ingestion = ingestion
        self._files = files

    async def attach(
        self,
        base: Configuration[KnowledgeBase],
        new: NewVectorStoreFile,
        also: AlsoStore | None = None,
        path: str = "$.chunking_strategy",
    ) -> None:
        """Ingest a file into a knowledge base. A file that is in it already is ingested again.

        Args:
            base: the knowledge base.
            new: the file.
            also: writes in the same transaction.
            path: JSON path of the chunking, for errors.

        Raises:
            FileNotFound: there is no such file.
            InvalidRequest: the file cannot be ingested, or not with this chunking, or the vector store has expired.
            Overloaded: there was no room for the file in the budget of bytes in flight.
            QueueFull: too many ingestions have not ended.
        """
        check_strategy(base.body, new.chunking_strategy, path)
        file = await self._files.read(new.file_id)
        if file.media_type not in ACCEPTED:
            raise _unsupported()
        async with reserved(file.size):
            await self._attach(base, new, await self._files.read(new.file_id, content=True), also)

    async def _attach(
        self, base: Configuration[KnowledgeBase], new: NewVectorStoreFile, file: FileRow, also: AlsoStore | None
    ) -> None:
        async def link(session: AsyncSession, ingestion: IngestionRow) -> None:
            await record_upload(session, base.id)
            known = await session.get(VectorStoreFileRow, ingestion.document_id)
            if known is None and (ingestion.sequence > 1 or await linked_name(session, base.id, file.id) is not None):
                raise _NameUsed
            if known is not None and known.file_id != file.id:
                raise _NameUsed
            row = VectorStoreFileRow(
                document_id=ingestion.document_id,
                base_id=base.id,
                file_id=file.id,
                filename=file.filename,
                attributes=dict(new.attributes or {}),
            )
            await session.merge(row)
            if also is not None:
                await also(session, ingestion)

        for attempt in range(MAX_ATTEMPTS):
            name = await self._document_name(base.id, file.id) or name_of(file.filename, file.id, unique=attempt > 0)
            try:
                metadata = metadata_of_attributes(new.attributes or {})
                content = NewContent(name, file.media_type, file.content, base.body.name, metadata)
                await self._ingestion.ingest(base.id, content, link)
            except _NameUsed:
                continue
            return
        raise _name_taken()

    async def attach_group(
        self, session: AsyncSession, base: Configuration[KnowledgeBase], new: Sequence[NewVectorStoreFile]
    ) -> list[IngestionRow | ServiceError]:
        """Ingest files into a knowledge base, in one transaction; see `attach`.

        Args:
            session: the transaction, which ends with `Acceptance.reserve`.
            base: the knowledge base.
            new: the files, each one once. Their contents are in memory together.

        Returns:
            For each file, the ingestion, or why it cannot be ingested.

        Raises:
            ConfigurationNotFound: there is no such knowledge base.
        """
        if await lock_base(session, base.id) is None:
            raise ConfigurationNotFound(f"There is no knowledge base {base.id}")
        ids = [each.file_id for each in new]
        files = await self._files.read_many(session, ids)
        names = await names_of(session, base.id, [files[each] for each in ids if each in files])
        outcomes: dict[str, IngestionRow | ServiceError] = {}
        valid: list[NewVectorStoreFile] = []
        for each in new:
            if each.file_id not in files:
                outcomes[each.file_id] = missing_file(each.file_id)
            elif files[each.file_id].media_type not in ACCEPTED:
                outcomes[each.file_id] = _unsupported()
            elif each.file_id not in names:
                outcomes[each.file_id] = _name_taken()
            else:
                valid.append(each)
        contents = [
            NewContent(
                names[each.file_id],
                files[each.file_id].media_type,
                files[each.file_id].content,
                base.body.name,
                metadata_of_attributes(each.attributes or {}),
            )
            for each in valid
        ]
        accepted = await self._ingestion.acceptance.accept_many(session, base.id, contents)
        for each, outcome in zip(valid, accepted, strict=True):
            outcomes[each.file_id] = outcome
            if isinstance(outcome, IngestionRow):
                link = VectorStoreFileRow(
                    document_id=outcome.document_id,
                    base_id=base.id,
                    file_id=each.file_id,
                    filename=files[each.file_id].filename,
                    attributes=dict(each.attributes or {}),
                )
                await session.merge(link)
        for file in files.values():
            # The session would keep the contents until its end.
            session.expunge(file)
        return [outcomes[each] for each in ids]

    async def read(self, base_id: str, file_id: str) -> VectorStoreFileObject:
        """A file of a vector store.

        Args:
            base_id: the vector store.
            file_id: the file.

        Raises:
            ConfigurationNotFound: there is no such vector store.
            FileNotFound: it has no such file.
        """
        base = await self._bases.read(base_id)
        return file_of(strategy_of(base.body), *await self._find(base_id, file_id))

    async def page(
        self, base_id: str, page: PageQuery, state: State | None
    ) -> tuple[list[VectorStoreFileObject], bool]:
        """A page of the files of a vector store.

        Args:
            base_id: the vector store.
            state: the state of the files; None for all.

        Returns:
            The files, and whether there are more.

        Raises:
            ConfigurationNotFound: there is no such vector store.
            FileNotFound: a cursor is none of its files.
        """
        base = await self._bases.read(base_id)
        query = select_files(base_id)
        if state is not None:
            chosen = IngestionRow.state.in_(STATES[state])
            query = query.where(sa.or_(chosen, IngestionRow.id.is_(None)) if state == "completed" else chosen)
        after, before = await self._position(base_id, page.after), await self._position(base_id, page.before)
        query = page.apply(query, (DocumentRow.created_on, DocumentRow.id), after, before)
        async with self._database.reading() as session:
            rows = (await session.execute(query)).all()
        strategy = strategy_of(base.body)
        return page.cut([file_of(strategy, document, ingestion, link) for document, ingestion, link in rows])

    async def update(self, base_id: str, file_id: str, attributes: Mapping[str, AttributeValue]) -> None:
        """Replace the attributes of a file. Searches of the vector store use them from then on.

        Filters of bases and assistants use them when an ingestion has written the chunks again.

        Args:
            base_id: the vector store.
            file_id: the file.

        Raises:
            ConfigurationNotFound: there is no such vector store.
            FileNotFound: it has no such file.
        """
        base = await self._bases.read(base_id)
        document, _, known = await self._find(base_id, file_id)
        async with self._database.session() as session:
            # Of two first changes, one waits; without the lock, it would insert the same row. A deletion waits, too.
            locked = await session.get(DocumentRow, document.id, with_for_update={"key_share": True})
            if locked is None:
                raise _missing(base_id, file_id)
            row = VectorStoreFileRow(
                document_id=document.id,
                base_id=base_id,
                file_id=known.file_id if known else document.id,
                filename=known.filename if known else document.name,
                attributes=dict(attributes),
            )
            await session.merge(row)
            await change_metadata(session, locked, metadata_of_attributes(attributes), base.body.name)
        self._ingestion.wake()

    async def delete(self, base_id: str, file_id: str) -> None:
        """Remove a file from a vector store. The uploaded file stays.

        Args:
            base_id: the vector store.
            file_id: the file.

        Raises:
            ConfigurationNotFound: there is no such vector store.
            DocumentNotFound: it was removed meanwhile.
            FileNotFound: it has no such file.
        """
        await self._bases.read(base_id)
        document, _, _ = await self._find(base_id, file_id)
        await self._ingestion.delete(base_id, document.name)

    async def delete_everywhere(self, file_id: str, bases: Sequence[str] | None = None) -> None:
        """Remove a file from all vector stores.

        Args:
            file_id: the file.
            bases: ids of the vector stores; None for all.
        """
        query = sa.select(VectorStoreFileRow.base_id).where(VectorStoreFileRow.file_id == file_id)
        if bases is not None:
            query = query.where(VectorStoreFileRow.base_id.in_(bases))
        async with self._database.reading() as session:
            base_ids = list(await session.scalars(query))
        for base_id in base_ids:
            own = (VectorStoreFileRow.base_id == base_id, VectorStoreFileRow.file_id == file_id)

            async def choose(session: AsyncSession, own: Sequence[sa.ColumnElement[bool]] = own) -> Sequence[str]:
                # None if the document was removed meanwhile; another one may have its name.
                return list(await session.scalars(sa.select(VectorStoreFileRow.document_id).where(*own)))

            await self._ingestion.delete_chosen(base_id, choose)

    async def kept_text(self, base_id: str, file_id: str) -> bytes:
        """The extracted text of a file; see `Documents.kept_text`.

        Args:
            base_id: the vector store.
            file_id: the file.

        Raises:
            ConfigurationNotFound: there is no such vector store.
            DocumentNotFound: its first ingestion has not completed.
            FileNotFound: the vector store has no such file.
        """
        await self._bases.read(base_id)
        document, _, _ = await self._find(base_id, file_id)
        return await self._ingestion.documents.kept_text(base_id, document.name)

    async def _find(
        self, base_id: str, file_id: str
    ) -> tuple[DocumentRow, IngestionRow | None, VectorStoreFileRow | None]:
        linked = select_files(base_id).where(
            VectorStoreFileRow.base_id == base_id, VectorStoreFileRow.file_id == file_id
        )
        own = select_files(base_id).where(VectorStoreFileRow.document_id.is_(None), DocumentRow.id == file_id)
        found = None
        async with self._database.reading() as session:
            if "\0" not in file_id:
                # One statement for both would read all documents. Documents get links and do not lose them: one that is
                # linked between the two statements is found by the second one.
                found = (await session.execute(own)).first() or (await session.execute(linked)).first()
        if found is None:
            raise _missing(base_id, file_id)
        document, ingestion, link = found
        return document, ingestion, link

    async def _position(self, base_id: str, file_id: str) -> Position | None:
        if not file_id:
            return None
        document, _, _ = await self._find(base_id, file_id)
        return document.created_on, document.id

    async def _document_name(self, base_id: str, file_id: str) -> str | None:
        """The name of the document of a file that is in the vector store already."""
        async with self._database.reading() as session:
            return await linked_name(session, base_id, file_id)


def _unsupported() -> InvalidRequest:
    return UnsupportedFile.at("$.file_id", "Files of this media type cannot be ingested")


def _name_taken() -> InvalidRequest:
    return InvalidRequest.at("$.file_id", "Another document has the name of the file")


def _missing(base_id: str, file_id: str) -> FileNotFound:
    return FileNotFound(f"The vector store {base_id} has no file {file_id[:64]!r}")
