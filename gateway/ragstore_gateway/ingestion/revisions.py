"""`Revisions`: which chunks of a collection searches may find, which ones are on their way, and which are strays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa

from ragstore_gateway.database.base import ID_LENGTH
from ragstore_gateway.database.database import Database
from ragstore_gateway.database.versioned_cache import VersionedCache
from ragstore_gateway.engines.engine_collection import DOCUMENT_KEY, OWNER_KEY, REVISION_KEY, Passage
from ragstore_gateway.ingestion.collections import Collection
from ragstore_gateway.ingestion.removals import LATE_REMOVAL
from ragstore_gateway.ingestion.tables import CollectionRow, DocumentRow, DocumentTextRow, IngestionRow, RemovalRow
from ragstore_gateway.ingestion.transactions import UNFINISHED

BATCH: Final = 500
"""Maximum number of ids in a statement."""

MAX_CACHED: Final = 50_000
"""Maximum number of documents whose revision is remembered. Each has about 500 bytes."""


@dataclass(frozen=True, slots=True)
class Published:
    """The revision of a document that searches may find.

    Attributes:
        published_on: when it became visible, by the clock of the process that published it.
    """

    revision: str
    published_on: datetime


class Revisions:
    """The revisions of documents."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._current: VersionedCache[tuple[str, str], Published] = VersionedCache(database, MAX_CACHED)

    async def current(self, base_id: str, document_ids: Iterable[str]) -> dict[str, Published]:
        """The visible revisions of documents, by document.

        Args:
            base_id: the knowledge base.
            document_ids: ids of documents. Ids that the base does not have are skipped.
        """
        wanted = [(base_id, id) for ids in _batches(document_ids) for id in ids]
        return {id: published for (_, id), published in (await self._current.get(wanted, self._read_current)).items()}

    async def _read_current(self, wanted: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Published]:
        query = sa.select(DocumentRow.id, DocumentRow.base_id, DocumentRow.current_revision, DocumentRow.modified_on)
        query = query.where(DocumentRow.current_revision.is_not(None))
        found: dict[tuple[str, str], Published] = {}
        async with self._database.reading() as session:
            for ids in _batches(id for _, id in wanted):
                for id, base_id, revision, modified_on in await session.execute(query.where(DocumentRow.id.in_(ids))):
                    found[base_id, id] = Published(str(revision), modified_on)
        return found

    async def all_current(self, base_id: str) -> set[str]:
        """The visible revisions of all documents of a knowledge base.

        Args:
            base_id: the knowledge base.
        """
        query = sa.select(DocumentRow.current_revision).where(
            DocumentRow.base_id == base_id, DocumentRow.current_revision.is_not(None)
        )
        async with self._database.reading() as session:
            return {str(revision) for revision in await session.scalars(query)}

    async def hidden(self, revisions: Iterable[str]) -> dict[str, str]:
        """The revisions among some that searches must not find, whatever document their chunks name.

        Args:
            revisions: revisions, also from the metadata of foreign chunks.

        Returns:
            Each of them with its document; empty for a revision that never becomes visible.
        """
        found = dict.fromkeys(filter(_is_id, revisions), "")
        query = sa.select(DocumentTextRow.revision, DocumentTextRow.document_id, DocumentRow.current_revision).join(
            DocumentRow, DocumentRow.id == DocumentTextRow.document_id
        )
        async with self._database.reading() as session:
            for ids in _batches(found):
                for revision, document_id, current in await session.execute(
                    query.where(DocumentTextRow.revision.in_(ids))
                ):
                    if revision == current:
                        del found[revision]
                    else:
                        found[revision] = document_id
        return found

    async def strays(self, collection: Collection, passages: Sequence[Passage]) -> list[Passage]:
        """The chunks of a collection that belong to no revision.

        A chunk is no stray if its revision is visible, if an ingestion of any replica writes it or has ended within the
        last hour, or if its removal is due. Rows of ingestions are read before rows of documents: an ingestion that
        ends in between has published its revision.

        Args:
            collection: a collection of a knowledge base.
            passages: chunks that were read from it.
        """
        revisions = {revision for passage in passages if _is_id(revision := revision_of(passage))}
        begun: set[str] = set()
        async with self._database.reading() as session:
            if await session.get(CollectionRow, collection.id) is None:
                return []
            due = sa.select(RemovalRow.document_id, RemovalRow.revision).where(
                RemovalRow.collection_id == collection.id
            )
            removals = {(document, revision) for document, revision in await session.execute(due)}
            open_ = sa.or_(
                IngestionRow.state.in_(UNFINISHED), IngestionRow.finished_on > datetime.now(UTC) - LATE_REMOVAL
            )
            for ids in _batches(revisions):
                # The revision of an ingestion is its id; that of a re-indexing is the document's.
                ingests = sa.select(IngestionRow.revision).where(IngestionRow.id.in_(ids), open_)
                begun |= set(await session.scalars(ingests))
                reindexes = sa.select(IngestionRow.revision).where(
                    IngestionRow.base_id == collection.base_id,
                    IngestionRow.state.in_(UNFINISHED),
                    IngestionRow.revision.in_(ids),
                )
                begun |= set(await session.scalars(reindexes))
        current = await self.current(collection.base_id, {document_of(passage) for passage in passages})

        def belongs(passage: Passage) -> bool:
            document, revision = document_of(passage), revision_of(passage)
            due_for = {(None, None), (document, None), (document, revision)}
            return (
                revision in begun or is_visible(passage, current, collection.owner) or not removals.isdisjoint(due_for)
            )

        return [passage for passage in passages if not belongs(passage)]


def document_of(passage: Passage) -> str:
    """The document that a chunk names; empty for none."""
    return str(passage.metadata.get(DOCUMENT_KEY, ""))


def revision_of(passage: Passage) -> str:
    """The revision that a chunk names; empty for none."""
    return str(passage.metadata.get(REVISION_KEY, ""))


def is_visible(passage: Passage, current: Mapping[str, Published], owner: str = "") -> bool:
    """Whether searches may find a chunk: it belongs to the visible revision of its document, or to others.

    Args:
        passage: the chunk.
        current: the visible revisions, by document.
        owner: marks the chunks of the base in a collection that also has records of others; empty elsewhere.
    """
    if owner and OWNER_KEY not in passage.metadata:
        return True
    published = current.get(document_of(passage))
    return published is not None and published.revision == revision_of(passage)


def _is_id(text: str) -> bool:
    """Whether a value of metadata can be an id. PostgreSQL's driver rejects a NUL, and foreign chunks may have one."""
    return 0 < len(text) <= ID_LENGTH and text.isascii() and text.isprintable()


def _batches(ids: Iterable[str]) -> Iterable[Sequence[str]]:
    chosen = sorted(filter(_is_id, ids))
    return (chosen[start : start + BATCH] for start in range(0, len(chosen), BATCH))
