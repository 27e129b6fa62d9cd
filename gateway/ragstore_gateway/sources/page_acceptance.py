"""`PageAcceptance`: accepts the documents of the pages of a run for ingestion, many with one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeAlias

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import StatementError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import ConfigurationNotFound
from ragstore_gateway.ingestion.acceptance import NewContent, NotAccepted, accept_in_halves
from ragstore_gateway.ingestion.assembly import Ingestion
from ragstore_gateway.ingestion.tables import DocumentRow, IngestionRow
from ragstore_gateway.ingestion.transactions import lock_base
from ragstore_gateway.sources.document_states import (
    ChangedPage,
    DocumentTaken,
    PageNotStorable,
    Pending,
    media_type_of,
    page_values,
)
from ragstore_gateway.sources.runs import SourceRuns
from ragstore_gateway.sources.tables import SourceDocumentRow, SourceRunRow
from ragstore_gateway.sources.visit import KnownPage

PageOutcome: TypeAlias = Pending | DocumentTaken | PageNotStorable | NotAccepted
"""The document whose ingestion has been accepted, or why it was not."""

_log = structlog.get_logger(__name__)


class PageAcceptance:
    """Accepts the documents of pages.

    Args:
        ingestion: ingests documents.
        runs: the runs of all sources.
    """

    def __init__(self, database: Database, ingestion: Ingestion, runs: SourceRuns) -> None:
        self._database = database
        self._ingestion = ingestion
        self._runs = runs

    async def accept(
        self, run: SourceRunRow, kb_id: str, pages: Sequence[ChangedPage], found: Collection[str] = ()
    ) -> list[PageOutcome]:
        """Accept the documents of pages, with one transaction. Until a document is stored, its page is not known.

        A page that cannot be accepted has no effect on the others.

        The URLs of two pages may differ although the names of their documents do not, such as by a final slash. Then
        the document belongs to the page that the run finds first.

        Args:
            kb_id: name of the knowledge base.
            pages: the pages. Each one's document has another name.
            found: locations of the pages that the run has found.

        Returns:
            The outcome of each page.

        Raises:
            ConfigurationNotFound: the knowledge base was deleted.
            DatabaseUnavailable: the database cannot be used.
            RunLost: the run has ended.
        """
        await self._ingestion.linked.prepare(run.base_id)

        async def accept(part: Sequence[ChangedPage]) -> list[PageOutcome]:
            async with self._database.session() as session:
                outcomes = await self._accept_in(session, run, kb_id, part, found)
                await self._ingestion.acceptance.reserve(session)
            return outcomes

        async def accept_storable(part: Sequence[ChangedPage]) -> list[PageOutcome]:
            try:
                return await accept(part)
            except (StatementError, ValueError) as error:
                # The driver rejects a value, such as a text with a NUL.
                if len(part) == 1:
                    _log.warning("page of a source cannot be stored", run=run.id, error=type(error).__name__)
                    return [PageNotStorable()]
            return [outcome for page in part for outcome in await accept_in_halves([page], accept_storable)]

        outcomes = await accept_in_halves(pages, accept_storable)
        self._ingestion.wake()
        return outcomes

    async def _accept_in(
        self, session: AsyncSession, run: SourceRunRow, kb_id: str, pages: Sequence[ChangedPage], found: Collection[str]
    ) -> list[PageOutcome]:
        """Accept pages in a transaction, which ends with `Acceptance.reserve`."""
        if await lock_base(session, run.base_id) is None:
            raise ConfigurationNotFound(f"There is no knowledge base {run.base_id}")
        await self._runs.check_running(session, run.id)
        known = await _documents(session, run.base_id, [page.name for page in pages])
        owned = {page.name: _own_row(run, page, *known[page.name], found) for page in pages if page.name in known}
        free = [page for page in pages if page.name not in owned or owned[page.name] is not None]
        contents = [NewContent(page.name, media_type_of(page.visit), page.visit.content, kb_id) for page in free]
        accepted = await self._ingestion.acceptance.accept_many(session, run.base_id, contents)
        outcomes: dict[str, PageOutcome] = {page.name: DocumentTaken() for page in pages}
        for page, outcome in zip(free, accepted, strict=True):
            if isinstance(outcome, NotAccepted):
                outcomes[page.name] = outcome
                continue
            own = owned.get(page.name)
            is_new = page.name not in known or known[page.name][0].current_revision is None
            outcomes[page.name] = _pending(page, outcome, is_new=is_new, own=own)
            _assign(session, run, page, outcome, own)
        await session.flush()
        return [outcomes[page.name] for page in pages]


async def _documents(
    session: AsyncSession, base_id: str, names: Sequence[str]
) -> dict[str, tuple[DocumentRow, SourceDocumentRow | None]]:
    """The documents that have these names, each with its page if a source made it."""
    query = (
        sa.select(DocumentRow, SourceDocumentRow)
        .join(SourceDocumentRow, SourceDocumentRow.document_id == DocumentRow.id, isouter=True)
        .where(DocumentRow.base_id == base_id, DocumentRow.name.in_(names))
        .options(defer(SourceDocumentRow.links))
    )
    return {document.name: (document, own) for document, own in await session.execute(query)}


def _own_row(
    run: SourceRunRow, page: ChangedPage, document: DocumentRow, row: SourceDocumentRow | None, found: Collection[str]
) -> SourceDocumentRow | None:
    """The row of a page's document; None if the run may not replace the document."""
    if row is None or (row.source, row.ingestion_id) != (run.source, document.last_ingestion):
        return None
    return None if row.location != page.visit.url and row.location in found else row


def _pending(page: ChangedPage, ingestion: IngestionRow, *, is_new: bool, own: SourceDocumentRow | None) -> Pending:
    former = "" if own is None or own.location == page.visit.url else own.location
    visit = replace(page.visit, content=b"")
    return Pending(ingestion.id, ingestion.document_id, visit, is_new, page.before, former)


def _assign(
    session: AsyncSession, run: SourceRunRow, page: ChangedPage, ingestion: IngestionRow, own: SourceDocumentRow | None
) -> None:
    """Record that a document is the source's."""
    now = datetime.now(UTC)
    values = {
        "location": page.visit.url,
        "ingestion_id": ingestion.id,
        "missed_runs": 0,
        "seen_on": now,
        "changed_on": now,
        **page_values(KnownPage(page.visit.url)),
    }
    if own is None:
        session.add(
            SourceDocumentRow(document_id=ingestion.document_id, base_id=run.base_id, source=run.source, **values)
        )
        return
    for name, value in values.items():
        setattr(own, name, value)
