"""`IngestingProcess`: claims ingestions and runs their jobs in the process of a test, as a gateway does."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from ragstore_gateway.claims.leases import Leases
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.extractor import NewDocument
from ragstore_gateway.ingestion.chunk_copies import ChunkCopies
from ragstore_gateway.ingestion.claimed_document import ClaimedDocument
from ragstore_gateway.ingestion.collections import Collections
from ragstore_gateway.ingestion.embedding_requests import EmbeddingRequests
from ragstore_gateway.ingestion.pipeline import Pipeline
from ragstore_gateway.ingestion.publication import Publication
from ragstore_gateway.ingestion.queue import IngestionQueue
from ragstore_gateway.ingestion.recorded_ingestion import RecordedIngestion
from ragstore_gateway.ingestion.removals import Removals
from ragstore_gateway.ingestion.retries import Retries
from ragstore_gateway.ingestion.search_priority import SearchPriority
from ragstore_gateway.ingestion.shared_ingestion import SharedIngestion
from ragstore_gateway.ingestion.tables import IngestionRow
from ragstore_gateway.ingestion.text_tools import TextSplitter, TextTools
from ragstore_gateway.splitting.chunk import Chunking, ChunkSpan
from ragstore_gateway.splitting.strategies import split
from tests.support.knowledge import Knowledge


class PlainExtractor:
    """Extracts texts that need no extraction."""

    async def extract(self, content: bytes, *, media_type: str = "", name: str = "") -> Extracted:
        """The text."""
        return Extracted(content.decode(), media_type)

    async def extract_together(self, documents: Sequence[NewDocument]) -> list[Extracted | None]:
        """The texts."""
        return [Extracted(each.content.decode(), each.media_type) for each in documents]

    async def read_kept(self, content: bytes) -> Extracted:
        """The text."""
        return Extracted(content.decode(), "text/plain")


class LocalSplitter:
    """Splits texts in this process."""

    async def split(self, extracted: bytes, chunking: Chunking) -> list[ChunkSpan]:
        """Split a text."""
        return [chunk.span for chunk in split(msgspec.msgpack.decode(extracted, type=Extracted), chunking)]

    async def split_together(self, extracted: Sequence[bytes], chunking: Chunking) -> list[list[ChunkSpan] | None]:
        """Split texts."""
        return [await self.split(each, chunking) for each in extracted]


class IngestingProcess:
    """A process that ingests documents. It renews no lease and takes over nothing by itself.

    Args:
        collections: the collections; the knowledge's by default.
        splitter: splits texts.
        owner: the id of the process.
    """

    def __init__(
        self,
        knowledge: Knowledge,
        *,
        collections: Collections | None = None,
        splitter: TextSplitter | None = None,
        owner: str = "own",
    ) -> None:
        database = self._database = knowledge.database
        collections = collections or knowledge.collections
        self.leases = Leases(database, owner, 600)
        self.queue = IngestionQueue(database, collections, self.leases)
        self.publication = Publication(database, self.leases)
        texts = TextTools(PlainExtractor(), splitter or LocalSplitter())
        copies = ChunkCopies(collections)
        priority = SearchPriority()
        requests = EmbeddingRequests(concurrency=4)
        shared = SharedIngestion(collections, self.publication, texts, copies, requests, lambda: True, priority)
        recorded = RecordedIngestion(
            database, collections, self.publication, texts, copies, Retries(600), lambda: True, priority
        )
        removals = Removals(database, knowledge.engines)
        self.pipeline = Pipeline(self.publication, removals, shared, recorded, priority)

    async def claim(self, base_id: str, *, interrupted: bool = False) -> Sequence[ClaimedDocument]:
        """Claim the documents of one job; see `IngestionQueue.claim`."""
        return await self.queue.claim(base_id, interrupted=interrupted)

    async def interrupt(self) -> int:
        """Interrupt all jobs, and give their ingestions back; the number of ingestions."""
        self.queue.claimed.clear()
        return await self.queue.give_back_left()

    async def end(self) -> None:
        """End without a hand-over, and let another process notice it."""
        lost = sa.update(IngestionRow).where(IngestionRow.owner == self.leases.owner)
        async with self._database.session() as session:
            await session.execute(lost.values(owner=""))
