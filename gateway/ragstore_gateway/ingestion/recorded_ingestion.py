"""`RecordedIngestion`: ingests one document alone, and records each finished part, so that none is repeated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, TypeVar

import msgspec
import numpy as np
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore.kit.background import cancel_all
from ragstore.kit.time_slices import rest
from ragstore_gateway.database.database import Database
from ragstore_gateway.embeddings.embedder import Vectors
from ragstore_gateway.engines.engine_collection import EngineCollection, Record
from ragstore_gateway.engines.engines import IN_MEMORY
from ragstore_gateway.errors import CollectionMissing
from ragstore_gateway.ingestion import metrics
from ragstore_gateway.ingestion.chunk_copies import ChunkCopies, ChunkRange
from ragstore_gateway.ingestion.claimed_document import ClaimedDocument
from ragstore_gateway.ingestion.collections import Collection, Collections
from ragstore_gateway.ingestion.embedded_text import embedded_text
from ragstore_gateway.ingestion.errors import IngestionAbandoned, LeaseLost
from ragstore_gateway.ingestion.payloads import CHUNKS, CONTENT, VECTORS, payload, put_payloads
from ragstore_gateway.ingestion.publication import Publication
from ragstore_gateway.ingestion.records import batches_of, parts_of, records_of
from ragstore_gateway.ingestion.retries import Retries
from ragstore_gateway.ingestion.search_priority import SearchPriority
from ragstore_gateway.ingestion.tables import DocumentTextRow, IngestionPayloadRow, IngestionRow
from ragstore_gateway.ingestion.text_tools import TextTools
from ragstore_gateway.splitting.chunk import ChunkSpan

CONCURRENCY: Final = 4
"""Maximum number of batches of one document that are embedded concurrently."""

MAX_EMBEDDED: Final = 16
"""Maximum number of embedded batches that wait for the engine."""

BATCHES_IN_A_STEP: Final = 64
"""Number of batches that are made in one step of the event loop. 20,000 chunks in one step would take 30 ms."""

T = TypeVar("T")

_decode_spans: Final = msgspec.msgpack.Decoder(list[ChunkSpan]).decode
_encode: Final = msgspec.msgpack.Encoder().encode


class _CollectionLost(Exception):
    """The collection does not exist any more, with what an ingestion has written to it."""


class RecordedIngestion:
    """Ingests one document of this process.

    Args:
        collections: the collections of all bases.
        publication: ends the ingestion.
        texts: extracts and splits texts.
        copies: copies chunks.
        retries: repeats calls.
        may_write: whether this process may still write: no other one has taken over its ingestions.
        priority: delays ingestions during searches.
    """

    def __init__(
        self,
        database: Database,
        collections: Collections,
        publication: Publication,
        texts: TextTools,
        copies: ChunkCopies,
        retries: Retries,
        may_write: Callable[[], bool],
        priority: SearchPriority,
    ) -> None:
        self._database = database
        self._collections = collections
        self._publication = publication
        self._texts = texts
        self._copies = copies
        self._retries = retries
        self._may_write = may_write
        self.priority = priority

    async def run(self, claimed: ClaimedDocument) -> bool:
        """Ingest a document. It may be repeated, and continues with the first part that is not recorded.

        Returns:
            Whether vectors are to be removed.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            IngestionAbandoned: the ingestion has ended, or belongs to another process.
            LeaseLost: the lease of this process has expired.
            ServiceError: a call failed permanently, or for too long.
        """
        while True:
            await self._read_text(claimed)
            await self._read_spans(claimed)
            for collection in claimed.targets:
                if collection.id not in claimed.written and not claimed.is_unchanged:
                    await self._fill(claimed, collection)
            claimed.step = "publish"
            with metrics.step("publish"):
                published = await self._publication.publish([claimed])
            if published.lost:
                raise IngestionAbandoned
            if published.changed:
                # Another content was published after this one was claimed: its own is not stored any more.
                claimed.is_unchanged = False
            elif published.lacking:
                claimed.targets = [*claimed.targets, *published.lacking[claimed]]
            else:
                return published.has_removals

    async def _read_text(self, claimed: ClaimedDocument) -> None:
        """Read the text, or extract and keep it."""
        row = claimed.row
        if claimed.is_text_kept or claimed.is_unchanged:
            return
        if claimed.extracted is None:
            async with self._database.reading() as session:
                kept = await session.get(DocumentTextRow, row.revision)
                if kept is None and claimed.content is None:
                    claimed.content = await payload(session, row.id, CONTENT)
            if kept is not None:
                claimed.set_kept_text(kept.extracted)
                return
            if claimed.content is None:
                raise IngestionAbandoned
            await self._call(claimed, partial(self._texts.extract, claimed))
        async with self._own(claimed) as (session, _):
            kept = DocumentTextRow(revision=row.revision, document_id=row.document_id, extracted=claimed.encoded)
            await session.merge(kept)
        claimed.is_text_kept = True

    async def _read_spans(self, claimed: ClaimedDocument) -> None:
        """Read the spans of the chunks for each collection, or split the text and record them."""
        if claimed.is_unchanged:
            return
        wanted = [each.id for each in claimed.targets] + list(claimed.written)
        own = (
            IngestionPayloadRow.ingestion_id == claimed.id,
            IngestionPayloadRow.kind == CHUNKS,
            IngestionPayloadRow.collection_id.in_(wanted),
        )
        query = sa.select(IngestionPayloadRow.collection_id, IngestionPayloadRow.data).where(*own)
        async with self._database.reading() as session:
            recorded = {id: data for id, data in await session.execute(query)}  # noqa: C416  # rows
        for collection_id, data in recorded.items():
            claimed.spans[collection_id] = _decode_spans(data)
        missing = [each for each in claimed.targets if each.id not in recorded and each.id not in claimed.written]
        for collection in missing:
            if collection.id not in claimed.spans:
                await self._call(claimed, partial(self._texts.split, claimed, collection.id, collection.chunking))
        async with self._own(claimed) as (session, row):
            for collection in missing:
                await put_payloads(
                    session, claimed.id, CHUNKS, collection.id, {0: _encode(claimed.spans[collection.id])}
                )
            to_embed = [each.id for each in claimed.targets if each.id not in claimed.written]
            row.chunks = sum(claimed.written.values()) + sum(len(claimed.spans[id]) for id in to_embed)

    async def _fill(self, claimed: ClaimedDocument, collection: Collection) -> None:
        """Embed and write the chunks of a document for one collection, as far as it is not recorded."""
        batches: list[tuple[int, Sequence[ChunkSpan]]] = []
        for batch in batches_of(claimed.text, claimed.spans[collection.id]):
            batches.append(batch)
            if len(batches) % BATCHES_IN_A_STEP == 0:
                await rest()
        recorded, earlier = await self._recorded(claimed, collection)
        try:
            await _Filling(self, claimed, collection, batches, recorded, earlier).run()
        except _CollectionLost:
            # Somebody has removed the collection with what this ingestion has written.
            await self._forget(claimed, collection)
            fixed = await self._collections.load([collection.id])
            if not fixed:
                raise IngestionAbandoned from None
            await _Filling(self, claimed, fixed[0], batches, set(), {}).run()
        async with self._own(claimed) as (_, row):
            claimed.written[collection.id] = len(claimed.spans[collection.id])
            row.written = dict(claimed.written)

    async def _recorded(self, claimed: ClaimedDocument, collection: Collection) -> tuple[set[int], dict[int, bytes]]:
        """The batches that the engine has, and the vectors that an earlier version has recorded."""
        if collection.store_type == IN_MEMORY:
            # The process that wrote them may have ended.
            await self._forget(claimed, collection)
            return set(), {}
        own = _vectors_of(claimed, collection)
        query = sa.select(IngestionPayloadRow.position, IngestionPayloadRow.data).where(*own)
        async with self._database.reading() as session:
            found = {position: data for position, data in await session.execute(query)}  # noqa: C416  # rows
        return {each for each, data in found.items() if not data}, {each: data for each, data in found.items() if data}

    async def _forget(self, claimed: ClaimedDocument, collection: Collection) -> None:
        async with self._own(claimed) as (session, row):
            removed = sa.delete(IngestionPayloadRow).where(*_vectors_of(claimed, collection))
            if (await session.execute(removed.returning(IngestionPayloadRow.position))).first() is not None:
                row.chunks_embedded = sum(claimed.written.values())

    async def record(
        self, claimed: ClaimedDocument, collection: Collection, positions: Sequence[int], earlier: bool, chunks: int
    ) -> None:
        """Record that an engine has batches of vectors.

        Args:
            positions: the batches.
            earlier: whether their vectors were recorded by an earlier version.
            chunks: number of chunks that were embedded.
        """
        async with self._own(claimed) as (session, row):
            if earlier:
                own = (*_vectors_of(claimed, collection), IngestionPayloadRow.position.in_(positions))
                await session.execute(sa.update(IngestionPayloadRow).where(*own).values(data=b""))
                return
            await put_payloads(session, claimed.id, VECTORS, collection.id, dict.fromkeys(positions, b""))
            row.chunks_embedded += chunks
            # Restarts during a long ingestion are no reason to give it up.
            row.attempts = 1

    async def records(
        self, claimed: ClaimedDocument, collection: Collection, first: int, batch: Sequence[ChunkSpan]
    ) -> list[Record]:
        """Copy or embed a batch of chunks.

        Args:
            collection: the collection that they are for.
            first: the index of the first chunk.
            batch: the spans of the chunks.
        """
        copied = await self._copies.records([ChunkRange(claimed, first, batch)], collection)
        if claimed in copied:
            return copied[claimed]
        vectors = await self._embedded(claimed, collection, batch)
        return records_of(claimed.row, claimed.text, batch, first, vectors)

    async def _embedded(self, claimed: ClaimedDocument, collection: Collection, batch: Sequence[ChunkSpan]) -> Vectors:
        texts = [embedded_text(claimed.text, span, collection.chunking) for span in batch]
        embedder = self._collections.embedder(collection)
        with metrics.step("embed"):
            return await self._call(claimed, partial(embedder.embed, texts, "document"))

    async def write(self, claimed: ClaimedDocument, call: Callable[[], Awaitable[None]]) -> None:
        """Make a call of an engine that changes it."""

        async def checked() -> None:
            if not self._may_write():
                raise LeaseLost
            await call()

        with metrics.step("write"):
            await self._call(claimed, checked)

    async def store_records(self, store: EngineCollection, records: Sequence[Record]) -> None:
        """Store records while this process may write; see `SearchPriority.write`."""
        await self.priority.write(store, records, self._may_write)

    async def opened(self, claimed: ClaimedDocument, collection: Collection, dimension: int) -> EngineCollection:
        """Open a collection whose vectors have a dimension."""
        current = next((each for each in claimed.targets if each.id == collection.id), collection)
        fixed = await self._collections.with_dimension(current, dimension)
        claimed.replace_target(fixed)
        return self._collections.open(fixed)

    async def _call(self, claimed: ClaimedDocument, call: Callable[[], Awaitable[T]]) -> T:
        return await self._retries.call(
            call,
            partial(self._publication.is_needed, claimed.id),
            partial(self._publication.waits, claimed.id),
            lambda: claimed.step,
        )

    @asynccontextmanager
    async def _own(self, claimed: ClaimedDocument) -> AsyncIterator[tuple[AsyncSession, IngestionRow]]:
        """A transaction that has locked the ingestion.

        Raises:
            IngestionAbandoned: it has ended, or belongs to another process.
        """
        async with self._database.session() as session:
            row = await self._publication.lock(session, claimed.id)
            if row is None:
                raise IngestionAbandoned
            yield session, row


class _Filling:
    """Embeds and writes the chunks of one document for one collection: some are embedded while others are written.

    Args:
        ingestion: makes the calls.
        batches: the batches of chunks, each with the index of its first chunk.
        recorded: the batches that the engine has.
        earlier: the vectors of batches that an earlier version has recorded, as float32.
    """

    def __init__(
        self,
        ingestion: RecordedIngestion,
        claimed: ClaimedDocument,
        collection: Collection,
        batches: Sequence[tuple[int, Sequence[ChunkSpan]]],
        recorded: set[int],
        earlier: dict[int, bytes],
    ) -> None:
        self._ingestion = ingestion
        self._claimed = claimed
        self._collection = collection
        self._batches = batches
        self._left = [each for each in range(len(batches)) if each not in recorded and each not in earlier]
        self._has_written = bool(recorded)
        self._is_created = collection.dimension is not None
        self._earlier = {each: self._recorded(each, data) for each, data in earlier.items()}
        self._ready: dict[int, list[Record]] = {}

    async def run(self) -> None:
        """Embed and write everything that is not recorded."""
        self._claimed.step = "embed"
        for part in parts_of(self._earlier):
            await self._write(part, earlier=True)
        left = iter(self._left)
        embedding: set[asyncio.Task[None]] = set()
        writing: set[asyncio.Task[None]] = set()
        position = next(left, None)
        try:
            while position is not None or embedding or writing or self._ready:
                if self._ready and not writing:
                    # One part only: what is embedded meanwhile fills the next one.
                    part = next(parts_of(self._ready))
                    for written in part:
                        del self._ready[written]
                    writing.add(asyncio.create_task(self._ingestion.priority.pausing(self._write(part, earlier=False))))
                while position is not None and len(embedding) < CONCURRENCY and len(self._ready) < MAX_EMBEDDED:
                    embedding.add(asyncio.create_task(self._ingestion.priority.pausing(self._embed(position))))
                    position = next(left, None)
                done, _ = await asyncio.wait(embedding | writing, return_when=asyncio.FIRST_COMPLETED)
                embedding -= done
                writing -= done
                for task in done:
                    task.result()
        finally:
            await cancel_all(embedding | writing)

    async def _embed(self, position: int) -> None:
        first, batch = self._batches[position]
        self._ready[position] = await self._ingestion.records(self._claimed, self._collection, first, batch)

    async def _write(self, part: Mapping[int, list[Record]], *, earlier: bool) -> None:
        self._claimed.step = "write"
        records = [record for batch in part.values() for record in batch]
        store = await self._ingestion.opened(self._claimed, self._collection, len(records[0].vector))

        async def write() -> None:
            if not self._is_created:
                await store.create()
                self._is_created = True
            try:
                await self._ingestion.store_records(store, records)
            except CollectionMissing:
                if self._has_written:
                    raise _CollectionLost from None
                await store.create()
                await self._ingestion.store_records(store, records)

        await self._ingestion.write(self._claimed, write)
        self._has_written = True
        await self._ingestion.record(self._claimed, self._collection, list(part), earlier, len(records))

    def _recorded(self, position: int, data: bytes) -> list[Record]:
        first, batch = self._batches[position]
        vectors = np.frombuffer(data, dtype=np.float32).reshape(len(batch), -1)
        return records_of(self._claimed.row, self._claimed.text, batch, first, vectors)


def _vectors_of(claimed: ClaimedDocument, collection: Collection) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        IngestionPayloadRow.ingestion_id == claimed.id,
        IngestionPayloadRow.kind == VECTORS,
        IngestionPayloadRow.collection_id == collection.id,
    )
