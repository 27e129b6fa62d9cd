"""`KeywordIndex`: which chunks of the visible revisions have the words of a question."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.database.database import Database
from ragstore_gateway.keywords.tables import KeywordChunkRow, KeywordIndexRow
from ragstore_gateway.keywords.word_table import (
    BATCH,
    MAX_MATCHES,
    NOTHING,
    Fts5Table,
    IndexSize,
    Ranked,
    TsvectorTable,
    WordTable,
)
from ragstore_gateway.keywords.words import words

if TYPE_CHECKING:
    import sqlite3

MAX_QUESTION_WORDS: Final = 32
"""Maximum number of different words of a question that are searched for: the rarest ones."""

MAX_SHARE: Final = 8
"""A word that more than this part of the chunks has, one eighth, is left out beside others. Seven judged sets have the
same nDCG@10 without these words (0.711), also with a quarter (0.712); with a sixteenth it is 0.707."""

MIN_FREQUENT: Final = 50
"""Number of chunks up to which no word is too frequent."""

MAX_LOOKED_UP: Final = 200
"""Maximum number of different words of a question whose frequencies are read: the last ones."""


class IndexedChunk(Struct, frozen=True, gc=False):
    """A chunk to be indexed.

    The garbage collector does not visit it. With 20,000 chunks of one document, whose words were lists, a full
    collection stopped the event loop for 150 ms.

    Attributes:
        id: its id in the vector collection.
        words: the words of its text, in a tuple, which the collector stops visiting, too.
    """

    id: str
    words: tuple[str, ...]


async def put_keywords(
    session: AsyncSession,
    collection_id: str,
    documents: Mapping[str, Sequence[IndexedChunk]],
    replaced: Iterable[str] | None = None,
) -> None:
    """Index the chunks of documents, in place of their indexed chunks.

    Args:
        session: the transaction that makes the chunks visible, with the base locked.
        collection_id: the vector collection.
        documents: the chunks by document.
        replaced: the documents that may be indexed already; None for all.
    """
    chunks = [(document_id, chunk) for document_id, own in documents.items() for chunk in own]
    index_id, last = await _enlarge(session, collection_id, len(chunks), sum(len(each.words) for _, each in chunks))
    table = _table(session, index_id)
    before = list(documents if replaced is None else replaced)
    if before:
        await _remove(session, index_id, table, before)
    first = last - len(chunks) + 1
    for start in range(0, len(chunks), BATCH):
        batch = list(enumerate(chunks[start : start + BATCH], first + start))
        rows = [
            {
                "index_id": index_id,
                "number": number,
                "document_id": document_id,
                "chunk_id": chunk.id,
                "words": len(chunk.words),
            }
            for number, (document_id, chunk) in batch
        ]
        await session.execute(sa.insert(KeywordChunkRow), rows)
        await table.add(session, [(number, chunk.words) for number, (_, chunk) in batch])


async def _enlarge(session: AsyncSession, collection_id: str, chunks: int, words: int) -> tuple[int, int]:
    """Count further chunks of an index, which is created if there is none.

    Returns:
        The id of the index, and the number of the last of the chunks.
    """
    larger = (
        sa.update(KeywordIndexRow)
        .where(KeywordIndexRow.collection_id == collection_id)
        .values(
            last_number=KeywordIndexRow.last_number + chunks,
            chunks=KeywordIndexRow.chunks + chunks,
            words=KeywordIndexRow.words + words,
        )
        .returning(KeywordIndexRow.id, KeywordIndexRow.last_number)
        .execution_options(synchronize_session=False)
    )
    found = (await session.execute(larger)).first()
    if found is not None:
        return found.id, found.last_number
    index = KeywordIndexRow(collection_id=collection_id, last_number=chunks, chunks=chunks, words=words)
    session.add(index)
    await session.flush()
    await _table(session, index.id).create(session)
    return index.id, chunks


async def remove_keywords(session: AsyncSession, collection_id: str, document_ids: Sequence[str]) -> None:
    """Remove documents from an index.

    Args:
        session: the transaction that deletes the documents, with the base locked.
        collection_id: the vector collection.
        document_ids: the documents. Documents that are not indexed are skipped.
    """
    index = await _index(session, collection_id)
    if index is not None:
        await _remove(session, index.id, _table(session, index.id), document_ids)


async def drop_keywords(session: AsyncSession, collection_id: str) -> None:
    """Remove an index.

    Args:
        session: the transaction that removes the vector collection.
        collection_id: the vector collection.
    """
    index = await _index(session, collection_id)
    if index is not None:
        await _table(session, index.id).drop(session)
        await session.execute(sa.delete(KeywordChunkRow).where(KeywordChunkRow.index_id == index.id))
        await session.delete(index)
        await session.flush()


class KeywordIndex:
    """Searches the keyword indexes of collections.

    Args:
        database: the gateway's state.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def search(self, collection_id: str, question: str, limit: int) -> Ranked:
        """Find the chunks that have most of the rare words of a question.

        Args:
            collection_id: the vector collection.
            limit: maximum number of chunks.
        """
        given = list(dict.fromkeys(reversed(list(words(question)))))[:MAX_LOOKED_UP]
        if not given:
            return NOTHING
        try:
            if not self._database.is_postgresql:
                search = partial(_search_sqlite, collection_id, given, limit)
                return await self._database.read_sqlite(search)
            async with self._database.reading() as session:
                index = await _index(session, collection_id)
                if index is None:
                    return NOTHING
                table = TsvectorTable(index.id)
                chosen = _chosen(await table.frequencies(session, given), index.chunks)
                if not chosen:
                    return NOTHING
                return await table.ranked(session, chosen, IndexSize(index.chunks, index.words), limit)
        except ProgrammingError as error:
            if getattr(error.orig, "sqlstate", None) != UNDEFINED_TABLE:
                raise
            # The collection was retired since its row was read.
            return NOTHING

    async def sample(self, collection_id: str, count: int) -> list[str]:
        """The ids of chunks of a collection, chosen at random.

        Args:
            collection_id: the vector collection.
            count: maximum number of chunks.
        """
        async with self._database.reading() as session:
            index = await _index(session, collection_id)
            if index is None:
                return []
            last = index.last_number
            numbers = random.sample(range(1, last + 1), min(count, last))
            query = sa.select(KeywordChunkRow.chunk_id).where(
                KeywordChunkRow.index_id == index.id, KeywordChunkRow.number.in_(numbers)
            )
            return list(await session.scalars(query))


UNDEFINED_TABLE: Final = "42P01"
"""PostgreSQL's code of a table that does not exist."""


def _search_sqlite(collection_id: str, given: Sequence[str], limit: int, connection: sqlite3.Connection) -> Ranked:
    """Search with SQLite's own connection, in a transaction that reads."""
    query = "SELECT id, chunks, words FROM keyword_index WHERE collection_id = ?"
    index = connection.execute(query, (collection_id,)).fetchone()
    if index is None:
        return NOTHING
    id, chunks, number_of_words = index
    table = Fts5Table(id)
    chosen = _chosen(table.frequencies(connection, given), chunks)
    return table.ranked(connection, chosen, IndexSize(chunks, number_of_words), limit) if chosen else NOTHING


def _chosen(frequencies: dict[str, int], chunks: int) -> dict[str, int]:
    """The rarest words that lead to `MAX_MATCHES` chunks at most, and at least one.

    Words that many chunks have are left out: they count little in BM25, and take most of the time.

    Args:
        frequencies: the number of chunks that have each word.
        chunks: the number of all chunks.
    """
    chosen: dict[str, int] = {}
    total = 0
    for word, count in sorted(frequencies.items(), key=lambda each: (each[1], each[0]))[:MAX_QUESTION_WORDS]:
        total += count
        if chosen and (total > MAX_MATCHES or count > max(MIN_FREQUENT, chunks // MAX_SHARE)):
            break
        chosen[word] = count
    return chosen


async def _index(session: AsyncSession, collection_id: str) -> KeywordIndexRow | None:
    return await session.scalar(sa.select(KeywordIndexRow).where(KeywordIndexRow.collection_id == collection_id))


def _table(session: AsyncSession, index_id: int) -> WordTable:
    is_postgresql = session.get_bind().dialect.name == "postgresql"
    return TsvectorTable(index_id) if is_postgresql else Fts5Table(index_id)


async def _remove(session: AsyncSession, index_id: int, table: WordTable, document_ids: Iterable[str]) -> None:
    ids = list(document_ids)
    for start in range(0, len(ids), BATCH):
        own = sa.and_(KeywordChunkRow.index_id == index_id, KeywordChunkRow.document_id.in_(ids[start : start + BATCH]))
        rows = (await session.execute(sa.select(KeywordChunkRow.number, KeywordChunkRow.words).where(own))).all()
        if rows:
            await table.remove(session, [row[0] for row in rows])
            await session.execute(sa.delete(KeywordChunkRow).where(own))
            smaller = sa.update(KeywordIndexRow).where(KeywordIndexRow.id == index_id)
            values = {
                "chunks": KeywordIndexRow.chunks - len(rows),
                "words": KeywordIndexRow.words - sum(row[1] for row in rows),
            }
            await session.execute(smaller.values(values).execution_options(synchronize_session=False))
