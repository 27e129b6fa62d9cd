"""`KeywordBackfill`: indexes the words of documents that an earlier version has ingested."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final

import numpy as np
import sqlalchemy as sa
import structlog

from ragstore.kit.errors import ServiceError
from ragstore_gateway.database.database import Database
from ragstore_gateway.engines.engine_collection import DOCUMENT_KEY, MAX_PASSAGES, REVISION_KEY, Passage
from ragstore_gateway.ingestion.collections import Collection, Collections
from ragstore_gateway.ingestion.tables import CollectionDocumentRow, CollectionRow
from ragstore_gateway.ingestion.transactions import lock_base
from ragstore_gateway.ingestion.workload import Workload
from ragstore_gateway.keywords.keyword_index import IndexedChunk, put_keywords
from ragstore_gateway.keywords.words import words

BATCH: Final = 50
RUN_SECONDS: Final = 2.0
"""How long one run takes about, so that the other work of the supervisor continues."""

INDEXES: Final = MAX_PASSAGES // 4
"""Number of values of `chunk_index` that one call reads: `layers` has three chunks with one value."""

_log = structlog.get_logger(__name__)


class KeywordBackfill:
    """Indexes the words of stored chunks. It reads them from the engines, whose texts searches return.

    Args:
        collections: the collections of all bases.
        workload: the bases whose jobs this process runs.
    """

    def __init__(self, database: Database, collections: Collections, workload: Workload = Workload.ALL) -> None:
        self._database = database
        self._collections = collections
        self._workload = workload

    async def run(self) -> None:
        """Index documents, until all are indexed or the time is over.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        end = monotonic() + RUN_SECONDS
        count = 0
        missing = (
            sa.select(CollectionDocumentRow)
            .join(CollectionRow, CollectionRow.id == CollectionDocumentRow.collection_id)
            .where(CollectionDocumentRow.has_keywords.is_(False), self._workload.engines(CollectionRow.store_type))
            .limit(BATCH)
        )
        while monotonic() < end:
            async with self._database.reading() as session:
                rows = list(await session.scalars(missing))
            if not rows:
                break
            found = {each.id: each for each in await self._collections.load({row.collection_id for row in rows})}
            for row in rows:
                collection = found.get(row.collection_id)
                if collection is None:
                    continue
                try:
                    passages = await self._passages(collection, row)
                except ServiceError as error:
                    _log.warning("keywords not indexed", base=collection.base_id, error=error.code)
                    return
                await self._put(collection, row, passages)
                count += 1
        if count:
            _log.info("keywords of earlier documents indexed", documents=count)

    async def _passages(self, collection: Collection, row: CollectionDocumentRow) -> list[Passage]:
        """All chunks of a document."""
        store = self._collections.open(collection)
        vector = np.ones(collection.dimension or 1, dtype=np.float32)
        found: dict[str, Passage] = {}
        for first in range(0, row.chunks, INDEXES):
            passages = await store.search(
                vector,
                MAX_PASSAGES,
                where={
                    DOCUMENT_KEY: row.document_id,
                    REVISION_KEY: row.revision,
                    "chunk_index": {"$gte": first, "$lt": first + INDEXES},
                },
            )
            found |= {passage.id: passage for passage in passages}
        return list(found.values())

    async def _put(self, collection: Collection, row: CollectionDocumentRow, passages: list[Passage]) -> None:
        chunks = await asyncio.to_thread(lambda: [_indexed(passage) for passage in passages])
        async with self._database.session() as session:
            await lock_base(session, collection.base_id)
            stored = await session.get(CollectionDocumentRow, (row.collection_id, row.document_id))
            if stored is None or stored.revision != row.revision or stored.has_keywords:
                return
            stored.has_keywords = True
            await put_keywords(session, collection.id, {row.document_id: chunks})


def _indexed(passage: Passage) -> IndexedChunk:
    heading = str(passage.metadata.get("section_heading", ""))
    return IndexedChunk(
        passage.id, tuple(words(passage.text if heading in passage.text else f"{heading} {passage.text}"))
    )
