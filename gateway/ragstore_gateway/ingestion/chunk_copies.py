"""`ChunkCopies`: chunks for a new collection that are copied from the collection in use instead of embedded again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import structlog

from ragstore.kit.errors import ServiceError
from ragstore_gateway.engines.engine_collection import MAX_BATCH, Passage, Record
from ragstore_gateway.ingestion import metrics
from ragstore_gateway.ingestion.claimed_document import ClaimedDocument
from ragstore_gateway.ingestion.collections import BUILDING, Collection, Collections
from ragstore_gateway.ingestion.records import chunk_id
from ragstore_gateway.ingestion.transactions import REINDEX
from ragstore_gateway.splitting.chunk import ChunkSpan

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ChunkRange:
    """Consecutive chunks of a document.

    Attributes:
        first: the index of the first one.
    """

    claimed: ClaimedDocument
    first: int
    spans: Sequence[ChunkSpan]

    @property
    def texts(self) -> dict[str, str]:
        """The texts of the chunks by their ids, in order."""
        return {
            chunk_id(self.claimed.row, index): self.claimed.text.text[span.start : span.end]
            for index, span in enumerate(self.spans, self.first)
        }


class ChunkCopies:
    """Copies chunks. A chunk has the same id in both collections.

    Only chunks with the expected text are copied, so that a vector never belongs to another text. Other documents are
    embedded: their chunks are missing or others, or the engine in use does not respond or returns no vectors.

    Args:
        collections: the collections of all bases.
    """

    def __init__(self, collections: Collections) -> None:
        self._collections = collections

    async def records(
        self, ranges: Sequence[ChunkRange], collection: Collection
    ) -> dict[ClaimedDocument, list[Record]]:
        """Read the records of chunks from the collection in use.

        Args:
            ranges: the chunks, one range for each document.
            collection: the collection that they are for.

        Returns:
            The records of each document whose chunks can all be copied.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        if collection.state != BUILDING:
            return {}
        source = await self._collections.active(collection.base_id)
        if source is None or source.id == collection.id or source.dimension is None:
            return {}
        copied = [each for each in ranges if each.spans and _is_stored(each.claimed, source)]
        if not copied:
            return {}
        try:
            if not self._collections.have_same_vectors(source, collection):
                return {}
            with metrics.step("copy"):
                found = await self._read(source, [id for each in copied for id in each.texts])
        except ServiceError as error:
            _log.warning("chunks not copied", base=collection.base_id, documents=len(copied), error=error.code)
            return {}
        made = {each.claimed: _records(each, found) for each in copied}
        return {claimed: records for claimed, records in made.items() if records is not None}

    async def _read(self, source: Collection, ids: Sequence[str]) -> dict[str, Passage]:
        # Engines read records by id to compare them with a vector.
        axis = np.zeros(source.dimension or 0, dtype=np.float32)
        axis[:1] = 1.0
        store = self._collections.open(source)
        found: dict[str, Passage] = {}
        for start in range(0, len(ids), MAX_BATCH):
            found |= {each.id: each for each in await store.compare(axis, ids[start : start + MAX_BATCH])}
        return found


def _is_stored(claimed: ClaimedDocument, source: Collection) -> bool:
    """Whether the collection in use has the revision: it is the current one, or was written to it just before."""
    return claimed.row.kind == REINDEX or source.id in claimed.written


def _records(chunks: ChunkRange, found: dict[str, Passage]) -> list[Record] | None:
    """The records of chunks; None if one is missing, has another text, or has no vector."""
    records: list[Record] = []
    for id, text in chunks.texts.items():
        passage = found.get(id)
        if passage is None or passage.vector is None or passage.text != text:
            return None
        records.append(Record(id, text, passage.vector, passage.metadata))
    return records
