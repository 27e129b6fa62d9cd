"""`SourceDocuments`: the documents of a knowledge base that its sources made, and what is known about them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, TypeAlias

import sqlalchemy as sa
import structlog
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from ragstore_gateway.database.database import Database
from ragstore_gateway.ingestion.assembly import Ingestion
from ragstore_gateway.ingestion.tables import DocumentRow, IngestionRow
from ragstore_gateway.ingestion.transactions import COMPLETED, UNFINISHED
from ragstore_gateway.sources.document_states import Ended, KnownDocument, Missing, Pending, page_values
from ragstore_gateway.sources.page_acceptance import PageAcceptance
from ragstore_gateway.sources.runs import SourceRuns
from ragstore_gateway.sources.tables import SourceDocumentRow, SourceRunRow
from ragstore_gateway.sources.visit import KnownPage, Visit

LOADED_ROWS: Final = 500
"""Number of documents of a source that are read from the database at a time. A source has up to 50,000, and SQLAlchemy
makes their objects on the event loop."""

EndRun: TypeAlias = Callable[[AsyncSession, Missing], Awaitable[None]]
"""Ends a run in a transaction."""


class SourceDocuments:
    """The documents of sources.

    A document belongs to a source as long as its last ingestion is one that the source requested. One that a person
    ingested, or has ingested since, is theirs: no run replaces or removes it.

    Args:
        ingestion: ingests documents.

    Attributes:
        acceptance: accepts the documents of pages.
    """

    def __init__(self, database: Database, ingestion: Ingestion, runs: SourceRuns) -> None:
        self.acceptance = PageAcceptance(database, ingestion, runs)
        self._database = database
        self._ingestion = ingestion
        self._runs = runs

    async def load(self, base_id: str, source: str) -> dict[str, KnownDocument]:
        """The documents of a source that are stored, by the location of their pages, without the links of these.

        Args:
            base_id: the knowledge base.
            source: name of the source.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        query = _owned(base_id, source).where(
            SourceDocumentRow.content_hash != "", DocumentRow.current_revision.is_not(None)
        )
        query = query.options(defer(SourceDocumentRow.links)).execution_options(yield_per=LOADED_ROWS)
        known: dict[str, KnownDocument] = {}
        async with self._database.reading() as session:
            async for rows in (await session.stream_scalars(query)).partitions():
                known.update((row.location, KnownDocument(row.document_id, _page(row))) for row in rows)
        return known

    async def page(self, known: KnownDocument) -> KnownPage:
        """The page of a document as the last run left it, with its links.

        Args:
            known: the document.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        query = sa.select(SourceDocumentRow.links).where(SourceDocumentRow.document_id == known.document_id)
        async with self._database.reading() as session:
            links = await session.scalar(query)
        return replace(known.page, links=tuple(links or ()))

    async def owners(self, base_id: str, source: str, names: Mapping[str, str]) -> dict[str, str]:
        """The locations of the pages that documents belong to.

        Args:
            base_id: the knowledge base.
            source: name of the source.
            names: names of documents by location.

        Returns:
            The owner of each location's document, empty if it is not one of the source. Without a document there is no
            entry.
        """
        own = _owned(base_id, source).with_only_columns(SourceDocumentRow.location, SourceDocumentRow.document_id)
        query = sa.select(DocumentRow.name, DocumentRow.id).where(
            DocumentRow.base_id == base_id, DocumentRow.name.in_(set(names.values()))
        )
        async with self._database.reading() as session:
            owned = {document_id: location for location, document_id in await session.execute(own)}
            ids = {name: document_id for name, document_id in await session.execute(query)}  # noqa: C416  # rows
        return {at: owned.get(ids[name], "") for at, name in names.items() if name in ids}

    async def ended(self, run_id: str, pending: Sequence[Pending]) -> list[Ended]:
        """The documents whose ingestions have ended. The state of their pages is stored with that.

        Args:
            run_id: the run.
            pending: the documents.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            RunLost: the run has ended.
        """
        by_id = {each.ingestion_id: each for each in pending}
        query = sa.select(IngestionRow.id, IngestionRow.state, IngestionRow.unchanged, IngestionRow.chunks)
        async with self._database.reading() as session:
            rows = (await session.execute(query.where(IngestionRow.id.in_(by_id)))).all()
        # The entry of an ingestion is removed only with its document, or long after its end.
        states = {row.id: row for row in rows}
        ended = [
            Ended(each, False, False, 0)
            if (row := states.get(id)) is None
            else Ended(each, row.state == COMPLETED, row.unchanged, row.chunks)
            for id, each in by_id.items()
            if id not in states or states[id].state not in UNFINISHED
        ]
        if ended:
            async with self._database.session() as session:
                await self._runs.check_running(session, run_id)
                now = datetime.now(UTC)
                stored = [
                    {**_names(each.pending), **page_values(each.pending.visit.known), "changed_on": now}
                    for each in ended
                    if each.is_stored
                ]
                kept = [
                    {**_names(each.pending), **page_values(before)}
                    for each in ended
                    if not each.is_stored and (before := each.pending.before) is not None
                ]
                for pages in (stored, kept):
                    await _update(session, _OF_INGESTION, pages)
        return ended

    async def seen(self, run_id: str, visits: Mapping[str, Visit]) -> None:
        """Record visits of pages that have not changed.

        Args:
            run_id: the run.
            visits: the visits, by document id.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            RunLost: the run has ended.
        """
        now = datetime.now(UTC)
        async with self._database.session() as session:
            await self._runs.check_running(session, run_id)
            pages = [
                {
                    "of_document": id,
                    "of_location": visit.url,
                    "missed_runs": 0,
                    "seen_on": now,
                    **page_values(visit.known),
                }
                for id, visit in visits.items()
            ]
            await _update(session, _OF_LOCATION, pages)

    async def miss(self, run: SourceRunRow, found: Collection[str], max_missed: int, end: EndRun) -> None:
        """Count the documents whose pages a complete run did not find. Remove documents that were missed too often.

        The run ends with that, so that no document is counted twice.

        Args:
            found: locations of the pages that it found, and of pages whose state is unknown.
            max_missed: the number of complete runs in a row without a page after which its document is removed.
            end: ends the run, in the transaction.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            RunLost: the run has ended.
        """
        found = set(found)

        async def choose(session: AsyncSession) -> list[str]:
            missing = 0
            removed: list[str] = []
            await self._runs.check_running(session, run.id, exclusive=True)
            await _let_go(session, run.base_id, run.source)
            owned = _owned(run.base_id, run.source).options(defer(SourceDocumentRow.links))
            for row in await session.scalars(owned):
                if row.location in found:
                    continue
                row.missed_runs += 1
                if row.missed_runs >= max_missed:
                    removed.append(row.document_id)
                else:
                    missing += 1
            await end(session, Missing(missing, len(removed)))
            await session.flush()
            return removed

        # The log says which run has deleted the documents.
        with structlog.contextvars.bound_contextvars(source=run.source, run=run.id):
            await self._ingestion.delete_chosen(run.base_id, choose)

    async def purge(self, base_id: str, source: str) -> int:
        """Delete the documents of a source, and forget what is known about its pages.

        Args:
            base_id: the knowledge base.
            source: name of the source.

        Returns:
            The number of documents.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            SourceRunning: a run of the source has not ended.
        """
        chosen: list[str] = []

        async def choose(session: AsyncSession) -> list[str]:
            await self._runs.check_idle(session, base_id, source)
            await _let_go(session, base_id, source)
            chosen.extend(
                await session.scalars(_owned(base_id, source).with_only_columns(SourceDocumentRow.document_id))
            )
            return chosen

        await self._ingestion.delete_chosen(base_id, choose)
        return len(chosen)

    async def has_any(self, base_id: str, source: str) -> bool:
        """Whether a source, or a former one, has documents or runs.

        Args:
            base_id: the knowledge base.
            source: name of the source.
        """
        documents = sa.select(SourceDocumentRow.document_id).where(
            SourceDocumentRow.base_id == base_id, SourceDocumentRow.source == source
        )
        runs = sa.select(SourceRunRow.id).where(SourceRunRow.base_id == base_id, SourceRunRow.source == source)
        async with self._database.reading() as session:
            return any([(await session.execute(query.limit(1))).first() is not None for query in (documents, runs)])


_OF_DOCUMENT: Final = SourceDocumentRow.document_id == sa.bindparam("of_document")
_OF_LOCATION: Final = sa.update(SourceDocumentRow).where(
    _OF_DOCUMENT, SourceDocumentRow.location == sa.bindparam("of_location")
)
_OF_INGESTION: Final = sa.update(SourceDocumentRow).where(
    _OF_DOCUMENT, SourceDocumentRow.ingestion_id == sa.bindparam("of_ingestion")
)
"""Changes of the page of a document, unless the document was replaced meanwhile."""


async def _update(session: AsyncSession, change: sa.Update, pages: Sequence[Mapping[str, object]]) -> None:
    """Change pages with one call of the driver.

    Args:
        pages: for each page, the parameters of the change and the new values of columns.
    """
    if pages:
        # A session itself would update rows by their primary keys only.
        await (await session.connection()).execute(change, pages)


def _names(pending: Pending) -> dict[str, object]:
    """The parameters of `_OF_INGESTION`."""
    return {"of_document": pending.document_id, "of_ingestion": pending.ingestion_id}


def _owned(base_id: str, source: str) -> sa.Select[SourceDocumentRow]:
    return (
        sa.select(SourceDocumentRow)
        .join(DocumentRow, DocumentRow.id == SourceDocumentRow.document_id)
        .where(
            SourceDocumentRow.base_id == base_id,
            SourceDocumentRow.source == source,
            DocumentRow.last_ingestion == SourceDocumentRow.ingestion_id,
        )
    )


async def _let_go(session: AsyncSession, base_id: str, source: str) -> None:
    """Forget the documents that others have ingested since."""
    owned = _owned(base_id, source).with_only_columns(SourceDocumentRow.document_id)
    await session.execute(
        sa.delete(SourceDocumentRow).where(
            SourceDocumentRow.base_id == base_id,
            SourceDocumentRow.source == source,
            SourceDocumentRow.document_id.not_in(owned.subquery().select()),
        )
    )


def _page(row: SourceDocumentRow) -> KnownPage:
    return KnownPage(
        row.location,
        row.etag,
        row.last_modified,
        row.content_hash,
        characters=row.characters,
        title=row.title,
        media_type=row.media_type,
    )
