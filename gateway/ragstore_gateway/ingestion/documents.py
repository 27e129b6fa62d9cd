"""`Documents`: what a knowledge base contains, and what is being ingested into it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore.kit.byte_budget import reserve
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import DocumentNotFound, IngestionEnded, IngestionNotFound
from ragstore_gateway.ingestion.acceptance import Acceptance, NewContent, NotAccepted, accept_in_halves
from ragstore_gateway.ingestion.deletions import delete_documents
from ragstore_gateway.ingestion.queue_state import QueueState, read_queue
from ragstore_gateway.ingestion.tables import DocumentRow, DocumentTextRow, IngestionRow
from ragstore_gateway.ingestion.transactions import (
    CANCELLED,
    COMPLETED,
    FAILED,
    PENDING,
    PROCESSING,
    end_ingestion,
    lock_base,
    lock_ingestion,
    reindexing_errors,
)

T = TypeVar("T")

CANCELLED_MESSAGE: Final = "The ingestion was cancelled"

TEXT_COPIES: Final = 3
"""A text is in memory as it is stored, decoded, and as JSON."""

DocumentState: TypeAlias = Literal["pending", "processing", "completed", "failed"]
"""The state of a document's last ingestion. An ingestion that was cancelled counts as failed."""

AlsoStore: TypeAlias = Callable[[AsyncSession, IngestionRow], Awaitable[None]]
"""Writes in the transaction that accepts a document."""

Choice: TypeAlias = Callable[[AsyncSession], Awaitable[Sequence[str]]]
"""Chooses documents in a transaction, by id."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document of a knowledge base, with the state of its last ingestion.

    Attributes:
        chunks_expected: number of chunks that the ingestion in progress embeds, as far as it is known.
        chunks_embedded: number of chunks that it has embedded.
        waiting_for: code of the error for whose end its ingestion waits; empty for none.
        reindexing_error: why the base's new collection does not have it yet; empty if there is no error.
    """

    id: str
    name: str
    media_type: str
    bytes: int
    chunks: int
    content_hash: str
    created_on: datetime
    modified_on: datetime
    state: str
    message: str
    ingestion_id: str
    is_searchable: bool
    metadata: Mapping[str, Any]
    chunks_expected: int = 0
    chunks_embedded: int = 0
    waiting_for: str = ""
    reindexing_error: str = ""


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """A page of the documents of a knowledge base.

    Attributes:
        documents: the documents, by name.
        total: number of documents in the wanted state, over all pages.
        states: number of documents in each state.
    """

    documents: list[Document]
    total: int
    states: Mapping[DocumentState, int]


class Documents:
    """The documents of all knowledge bases.

    Args:
        acceptance: accepts documents.
    """

    def __init__(self, database: Database, acceptance: Acceptance) -> None:
        self._database = database
        self._acceptance = acceptance

    async def accept(self, base_id: str, document: NewContent, also: AlsoStore | None = None) -> IngestionRow:
        """Accept a document. When this returns, it is in the database, and its ingestion ends whatever is killed.

        Args:
            base_id: the knowledge base.
            also: writes in the same transaction. If it raises, nothing is accepted.

        Returns:
            The ingestion.

        Raises:
            ConfigurationNotFound: there is no such knowledge base.
            DatabaseUnavailable: the database cannot be used.
            QueueFull: too many ingestions have not ended, or the documents that wait are too large.
            TenantLimitExceeded: the tenant of the base has its maximum.
        """
        async with self._database.session() as session:
            ingestion = await self._acceptance.accept(session, base_id, document)
            if also is not None:
                await also(session, ingestion)
            await self._acceptance.reserve(session)
        return ingestion

    async def accept_many(self, base_id: str, documents: Sequence[NewContent]) -> list[IngestionRow | NotAccepted]:
        """Accept documents with one transaction; see `accept`.

        Args:
            base_id: the knowledge base.
            documents: the documents. Of several with one name, each later one replaces those before.

        Returns:
            For each document, the ingestion, or why it was not accepted.

        Raises:
            ConfigurationNotFound: there is no such knowledge base.
            DatabaseUnavailable: the database cannot be used.
        """

        async def accept(part: Sequence[NewContent]) -> list[IngestionRow | NotAccepted]:
            async with self._database.session() as session:
                outcomes = await self._acceptance.accept_many(session, base_id, part)
                await self._acceptance.reserve(session)
            return outcomes

        return await accept_in_halves(documents, accept)

    async def ingestion(self, base_id: str, ingestion_id: str) -> IngestionRow:
        """The state of an ingestion.

        Args:
            base_id: the knowledge base that it belongs to.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            IngestionNotFound: the base has no such ingestion.
        """
        async with self._database.reading() as session:
            # PostgreSQL's driver rejects a NUL.
            row = None if "\0" in ingestion_id else await session.get(IngestionRow, ingestion_id)
        if row is None or row.base_id != base_id:
            raise IngestionNotFound(f"The knowledge base {base_id} has no ingestion {ingestion_id}")
        return row

    async def queue(self, base_id: str, ingestion_ids: Sequence[str]) -> tuple[QueueState, list[IngestionRow]]:
        """The queue of a base, and the states of some ingestions; see `read_queue`."""
        return await read_queue(self._database, base_id, ingestion_ids)

    async def cancel(self, base_id: str, ingestion_id: str) -> None:
        """Cancel an ingestion. The document stays as it was before.

        Args:
            base_id: the knowledge base that it belongs to.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            IngestionEnded: it has ended already, and was not cancelled.
            IngestionNotFound: the base has no such ingestion.
        """
        found = await self.ingestion(base_id, ingestion_id)
        async with self._database.session() as session:
            row = await lock_ingestion(session, ingestion_id)
            if row is not None:
                await end_ingestion(session, row, CANCELLED, CANCELLED_MESSAGE)
                return
        found = await self.ingestion(base_id, ingestion_id)
        if found.state != CANCELLED:
            raise IngestionEnded(f"The ingestion {ingestion_id} has ended already")

    async def documents(
        self,
        base_id: str,
        index: int,
        limit: int,
        filter: str = "",
        state: DocumentState | None = None,
        ids: Sequence[str] = (),
    ) -> DocumentPage:
        """A page of the documents of a knowledge base, by name.

        Args:
            base_id: the knowledge base.
            index: number of the page, from 0.
            limit: maximum number of documents on a page.
            filter: part of a name, in lower or upper case; empty means all.
            state: the state of the documents; None for all. It does not change the numbers of `states`.
            ids: the documents to choose from; empty means all.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        states: dict[DocumentState, int] = dict.fromkeys(get_args(DocumentState), 0)
        # No stored name or id has a NUL, and PostgreSQL's driver rejects it.
        wanted = [id for id in ids if "\0" not in id]
        if "\0" in filter or (ids and not wanted):
            return DocumentPage([], 0, states)
        own: sa.ColumnElement[bool] = DocumentRow.base_id == base_id
        if filter:
            own = own & DocumentRow.name.icontains(filter, autoescape=True)
        if wanted:
            own = own & DocumentRow.id.in_(wanted)
        query = _DOCUMENTS.where(own).order_by(DocumentRow.name)
        if state is not None:
            query = query.where(_STATE.in_((state,)))
        counts = _DOCUMENTS.with_only_columns(_STATE, sa.func.count()).where(own).group_by(_STATE)
        async with self._database.reading() as session:
            rows = (await session.execute(query.limit(limit).offset(index * limit))).all()
            states |= {found: count for found, count in await session.execute(counts)}  # noqa: C416  # rows
            errors = await reindexing_errors(session, base_id, [row.id for row, _ in rows])
        total = sum(states.values()) if state is None else states[state]
        return DocumentPage([_listed(row, ingestion, errors) for row, ingestion in rows], total, states)

    async def find(self, base_id: str, name: str) -> Document:
        """A document by its name.

        Args:
            base_id: the knowledge base.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            DocumentNotFound: there is none.
        """
        query = _DOCUMENTS.where(DocumentRow.base_id == base_id, DocumentRow.name == name)
        async with self._database.reading() as session:
            found = None if "\0" in name else (await session.execute(query)).first()
            errors = {} if found is None else await reindexing_errors(session, base_id, [found[0].id])
        if found is None:
            raise _no_document(base_id, name)
        return _listed(*found, errors)

    async def kept_text(self, base_id: str, name: str) -> bytes:
        """The extracted text of a document that searches find, as it is stored. Room for it is reserved before.

        Args:
            base_id: the knowledge base.
            name: the document's name.

        Returns:
            An `Extracted` as MessagePack.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            DocumentNotFound: there is none.
            Overloaded: there was no room for it in the budget of bytes in flight.
        """
        if "\0" in name:
            raise _no_document(base_id, name)
        async with self._database.reading() as session:
            size = await session.scalar(_text_of(base_id, name, sa.func.length(DocumentTextRow.extracted)))
        await reserve(TEXT_COPIES * (size or 0))
        async with self._database.reading() as session:
            found = await session.scalar(_text_of(base_id, name, DocumentTextRow.extracted))
        if found is None:
            raise _no_document(base_id, name)
        return found

    async def delete(self, base_id: str, name: str) -> Sequence[str]:
        """Delete a document. When this returns, no search finds it; its vectors are removed afterwards.

        Args:
            base_id: the knowledge base.
            name: the document's name.

        Returns:
            The ingestions of the document that this cancelled.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            DocumentNotFound: there is none.
        """
        if "\0" in name:
            raise _no_document(base_id, name)

        async def choose(session: AsyncSession) -> Sequence[str]:
            query = sa.select(DocumentRow.id).where(DocumentRow.base_id == base_id, DocumentRow.name == name)
            found = await session.scalar(query)
            if found is None:
                raise _no_document(base_id, name)
            return [found]

        return await self.delete_chosen(base_id, choose)

    async def delete_chosen(self, base_id: str, choose: Choice) -> Sequence[str]:
        """Delete documents in one transaction; see `delete`.

        Args:
            base_id: the knowledge base.
            choose: chooses documents of the base in the transaction, which has locked the base. If it raises, nothing
                is deleted.

        Returns:
            The ingestions of the documents that this cancelled.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        async with self._database.session() as session:
            await lock_base(session, base_id)
            return await delete_documents(session, base_id, await choose(session))


_STATE: Final = sa.case(
    # An ingestion that ended long ago is not kept.
    (IngestionRow.state.is_(None), COMPLETED),
    (IngestionRow.state.in_((PENDING, PROCESSING, COMPLETED)), IngestionRow.state),
    else_=FAILED,
)
"""The `DocumentState` of a document, in a query with its last ingestion."""

_DOCUMENTS: Final = sa.select(DocumentRow, IngestionRow).join(
    IngestionRow, IngestionRow.id == DocumentRow.last_ingestion, isouter=True
)
"""Documents, each with its last ingestion."""


def _listed(row: DocumentRow, ingestion: IngestionRow | None, errors: Mapping[str, str]) -> Document:
    state, message = ("completed", "") if ingestion is None else (ingestion.state, ingestion.message)
    return Document(
        row.id,
        row.name,
        row.media_type,
        row.bytes,
        row.chunks,
        row.content_hash,
        row.created_on,
        row.modified_on,
        state,
        message,
        row.last_ingestion,
        row.current_revision is not None,
        row.own_metadata or {},
        0 if ingestion is None else ingestion.chunks,
        0 if ingestion is None else ingestion.chunks_embedded,
        ingestion.waiting_for if ingestion is not None and state == PROCESSING else "",
        errors.get(row.id, ""),
    )


def _text_of(base_id: str, name: str, column: sa.SQLColumnExpression[T]) -> sa.Select[T]:
    """A column of the text of a document that searches find."""
    return (
        sa.select(column)
        .join(DocumentRow, DocumentRow.current_revision == DocumentTextRow.revision)
        .where(DocumentRow.base_id == base_id, DocumentRow.name == name)
    )


def _no_document(base_id: str, name: str) -> DocumentNotFound:
    return DocumentNotFound(f"The knowledge base {base_id} has no document {name[:100]!r}")
