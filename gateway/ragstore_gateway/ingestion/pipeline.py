"""`Pipeline`: the steps of an ingestion. Each of them may run again after an interruption, and changes nothing then."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Protocol

import msgspec
import numpy as np
import sqlalchemy as sa
import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore.kit.errors import ServiceError
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import DatabaseUnavailable
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.kept_text import KEPT_TEXT
from ragstore_gateway.ingestion import metrics
from ragstore_gateway.ingestion.collections import Collection, Collections
from ragstore_gateway.ingestion.embedded_text import embedded_text
from ragstore_gateway.ingestion.errors import IngestionAbandoned, IngestionLimit
from ragstore_gateway.ingestion.jobs import Steps, T
from ragstore_gateway.ingestion.payloads import CHUNKS, CONTENT, VECTORS, payload, put_payload
from ragstore_gateway.ingestion.publication import Publication
from ragstore_gateway.ingestion.records import batches_of, records_of
from ragstore_gateway.ingestion.removals import Removals, add_removal
from ragstore_gateway.ingestion.retries import Retries, backoff
from ragstore_gateway.ingestion.tables import CollectionRow, DocumentTextRow, IngestionPayloadRow, IngestionRow
from ragstore_gateway.ingestion.transactions import FAILED, UNFINISHED, end_ingestion, lock_ingestion
from ragstore_gateway.splitting.chunk import Chunking, ChunkSpan

CONCURRENCY: Final = 4
"""Maximum number of batches of one document that are embedded concurrently."""

INTERNAL: Final = "Internal error"

_log = structlog.get_logger(__name__)
_text: Final = msgspec.msgpack.Decoder(Extracted).decode
_encode: Final = msgspec.msgpack.Encoder().encode


class TextExtractor(Protocol):
    """Extracts texts; see `ragstore_gateway.extraction`."""

    async def extract(self, content: bytes, *, media_type: str = "", name: str = "") -> Extracted:
        """Extract the text of a document.

        Args:
            content: the document.
            media_type: its media type, as declared.
        """

    async def read_kept(self, content: bytes) -> Extracted:
        """Read an extracted text that was exported.

        Args:
            content: the document.
        """


class TextSplitter(Protocol):
    """Splits texts; see `ragstore_gateway.splitting`."""

    async def split(self, extracted: bytes, chunking: Chunking) -> list[ChunkSpan]:
        """Split a text.

        Args:
            extracted: an `Extracted` as MessagePack.
            chunking: how to split it.
        """


class Pipeline:
    """Ingests documents.

    Args:
        collections: the collections of all bases.
        publication: begins and ends ingestions.
        removals: removes vectors.
        extractor: extracts texts.
        splitter: splits texts.
        retries: repeats calls.
        may_write: whether this process may still write: no other one has taken over its jobs.
    """

    def __init__(
        self,
        database: Database,
        collections: Collections,
        publication: Publication,
        removals: Removals,
        extractor: TextExtractor,
        splitter: TextSplitter,
        retries: Retries,
        may_write: Callable[[], bool],
    ) -> None:
        self._database = database
        self._collections = collections
        self._publication = publication
        self._removals = removals
        self._extractor = extractor
        self._splitter = splitter
        self._retries = retries
        self._may_write = may_write

    def run(self, ingestion_id: str, steps: Steps) -> None:
        """Ingest a document: the body of a job.

        Args:
            ingestion_id: the ingestion.
            steps: runs the steps of the job.
        """

        def step(name: str, work: Callable[[str], Awaitable[T]]) -> T | None:
            return steps.run(name, partial(self._guarded, name, ingestion_id, work))

        has_ended = False
        try:
            steps.prepare(partial(self._guarded, "plan", ingestion_id, self._publication.begin))
            step("extract", self.extract)
            while True:
                step("split", self.split)
                step("embed", self.embed)
                step("write", self.write)
                if not step("publish", self._publication.publish):
                    break
            step("clean up", self.clean_up)
            has_ended = True
        finally:
            if not has_ended:
                self._publication.interrupted(ingestion_id)

    async def _guarded(self, name: str, ingestion_id: str, work: Callable[[str], Awaitable[T]]) -> T | None:
        """Run a step. If it fails, the ingestion has failed; no exception reaches the job engine, which would keep it.

        While the database cannot be used, the step is repeated: a failure could not be recorded either.
        """
        attempt = 0
        while True:
            try:
                with metrics.step(name):
                    return await self._try(name, ingestion_id, work)
            except DatabaseUnavailable as error:
                attempt += 1
                _log.warning("ingestion waits for the database", ingestion=ingestion_id, step=name, error=error.cause)
            await asyncio.sleep(backoff(attempt))

    async def _try(self, name: str, ingestion_id: str, work: Callable[[str], Awaitable[T]]) -> T | None:
        try:
            return await work(ingestion_id)
        except DatabaseUnavailable:
            raise
        except ServiceError as error:
            await self._fail(name, ingestion_id, error.detail, error.code)
        except IngestionAbandoned:
            _log.info("ingestion abandoned", ingestion=ingestion_id, step=name)
        except IngestionLimit as error:
            await self._fail(name, ingestion_id, str(error), "limit")
        except Exception as error:  # noqa: BLE001  # a document must not harm the others, whatever it causes
            # Without its text, which may contain a part of the document.
            where = traceback.extract_tb(error.__traceback__)[-1]
            cause = f"{type(error).__name__} at {where.filename.rpartition('/')[2]}:{where.lineno}"
            await self._fail(name, ingestion_id, INTERNAL, cause)
        return None

    async def _fail(self, name: str, ingestion_id: str, message: str, cause: str) -> None:
        async with self._database.session() as session:
            row = await lock_ingestion(session, ingestion_id)
            if row is not None:
                await end_ingestion(session, row, FAILED, message)
                _log.warning("ingestion failed", ingestion=ingestion_id, base=row.base_id, step=name, error=cause)

    async def extract(self, ingestion_id: str) -> None:
        """Extract the text, unless it is kept already.

        Args:
            ingestion_id: the ingestion.
        """
        async with self._database.reading() as session:
            row = await _unfinished(session, ingestion_id)
            if row is None or await session.get(DocumentTextRow, row.revision) is not None:
                return
            content = await payload(session, ingestion_id, CONTENT)
        if content is None:
            return
        extracted = await self._retries.call(
            partial(self._extract, row, content), partial(self._is_unfinished, ingestion_id)
        )
        async with self._database.session() as session:
            if await lock_ingestion(session, ingestion_id) is not None:
                kept = DocumentTextRow(revision=row.revision, document_id=row.document_id, extracted=_encode(extracted))
                await session.merge(kept)

    async def _extract(self, row: IngestionRow, content: bytes) -> Extracted:
        if row.media_type == KEPT_TEXT:
            return await self._extractor.read_kept(content)
        return await self._extractor.extract(content, media_type=row.media_type, name=row.document_name)

    async def split(self, ingestion_id: str) -> None:
        """Split the text for each collection.

        Args:
            ingestion_id: the ingestion.
        """
        row, kept = await self._read_kept(ingestion_id)
        if row is None or kept is None:
            return
        total = sum(row.written.values())
        for collection in await self._collections.load(row.targets):
            async with self._database.reading() as session:
                known = await payload(session, ingestion_id, CHUNKS, collection.id)
            if known is None:
                spans = await self._retries.call(
                    partial(self._splitter.split, kept, collection.chunking),
                    partial(self._is_unfinished, ingestion_id),
                )
                if not spans:
                    raise IngestionLimit("The document has no text")
                await self._put(ingestion_id, CHUNKS, collection.id, 0, _encode(spans))
                count = len(spans)
            else:
                count = len(msgspec.msgpack.decode(known))
            total += count
        change = sa.update(IngestionRow).where(IngestionRow.id == ingestion_id, IngestionRow.state.in_(UNFINISHED))
        async with self._database.session() as session:
            await session.execute(change.values(chunks=total))

    async def embed(self, ingestion_id: str) -> None:
        """Embed the chunks for each collection. The vectors of each batch are kept until the ingestion ends.

        Args:
            ingestion_id: the ingestion.
        """
        row, extracted = await self._read(ingestion_id)
        if row is None or extracted is None:
            return
        for collection in await self._collections.load(row.targets):
            async with self._database.reading() as session:
                spans = await self._spans(session, ingestion_id, collection)
                own = (
                    IngestionPayloadRow.ingestion_id == ingestion_id,
                    IngestionPayloadRow.kind == VECTORS,
                    IngestionPayloadRow.collection_id == collection.id,
                )
                done = set(await session.scalars(sa.select(IngestionPayloadRow.position).where(*own)))
            left = [
                (position, batch)
                for position, (_, batch) in enumerate(batches_of(extracted, spans))
                if position not in done
            ]
            for first in range(0, len(left), CONCURRENCY):
                results = await asyncio.gather(
                    *(
                        self._embed(ingestion_id, extracted, collection, position, batch)
                        for position, batch in left[first : first + CONCURRENCY]
                    ),
                    return_exceptions=True,
                )
                # The vectors of the others are recorded before one fails the document.
                for result in results:
                    if isinstance(result, BaseException):
                        raise result

    async def _embed(
        self, ingestion_id: str, extracted: Extracted, collection: Collection, position: int, batch: Sequence[ChunkSpan]
    ) -> None:
        is_needed = partial(self._is_unfinished, ingestion_id)
        if not await is_needed():
            return
        texts = [embedded_text(extracted, span, collection.chunking) for span in batch]
        embedder = self._collections.embedder(collection)
        vectors = await self._retries.call(partial(embedder.embed, texts, "document"), is_needed)
        await self._collections.with_dimension(collection, vectors.shape[1])
        await self._put(ingestion_id, VECTORS, collection.id, position, vectors.tobytes(), len(batch))

    async def write(self, ingestion_id: str) -> None:
        """Store the chunks in each collection. Searches do not find them yet.

        Args:
            ingestion_id: the ingestion.
        """
        row, extracted = await self._read(ingestion_id)
        if row is None or extracted is None:
            return
        for collection in await self._collections.load(row.targets):
            try:
                await self._write(row, extracted, collection)
            except Exception:
                await self._remove_if_retired(collection)
                raise
            await self._remove_if_retired(collection)

    async def _remove_if_retired(self, collection: Collection) -> None:
        """Remove a collection that was retired during writes: they may be later than its removal, and create it again.

        A cancellation is not delayed by this, because the database may be closed after it.
        """
        if not await self._collections.load([collection.id]):
            async with self._database.session() as session:
                add_removal(session, collection)

    async def _write(self, row: IngestionRow, extracted: Extracted, collection: Collection) -> None:
        store = self._collections.open(collection)
        is_needed = partial(self._is_unfinished, row.id)
        await self._retries.call(store.create, is_needed)
        async with self._database.reading() as session:
            spans = await self._spans(session, row.id, collection)
        for position, (first, batch) in enumerate(batches_of(extracted, spans)):
            async with self._database.reading() as session:
                data = await payload(session, row.id, VECTORS, collection.id, position)
                if data is None or await _unfinished(session, row.id) is None or not self._may_write():
                    return
                if await session.get(CollectionRow, collection.id) is None:
                    return
            vectors = np.frombuffer(data, dtype=np.float32).reshape(len(batch), -1)
            records = records_of(row, extracted, batch, first, vectors)
            await self._retries.call(partial(store.write, records), is_needed)
        if not await self._collections.load([collection.id]):
            return
        async with self._database.session() as session:
            locked = await lock_ingestion(session, row.id)
            if locked is not None:
                locked.written = {**locked.written, collection.id: len(spans)}

    async def clean_up(self, ingestion_id: str) -> None:
        """Remove vectors that nothing refers to any more. The supervisor repeats removals that fail.

        Args:
            ingestion_id: the ingestion.
        """
        base_id = await self._publication.clean_up(ingestion_id)
        if base_id:
            await self._removals.run(base_id)

    async def _read(self, ingestion_id: str) -> tuple[IngestionRow | None, Extracted | None]:
        """An ingestion that has not ended, and the text of its document."""
        row, kept = await self._read_kept(ingestion_id)
        return row, None if kept is None else _text(kept)

    async def _read_kept(self, ingestion_id: str) -> tuple[IngestionRow | None, bytes | None]:
        """An ingestion that has not ended, and the text of its document as MessagePack."""
        async with self._database.reading() as session:
            row = await _unfinished(session, ingestion_id)
            kept = None if row is None else await session.get(DocumentTextRow, row.revision)
        return row, None if kept is None else kept.extracted

    async def _is_unfinished(self, ingestion_id: str) -> bool:
        async with self._database.reading() as session:
            return await _unfinished(session, ingestion_id) is not None

    async def _spans(self, session: AsyncSession, ingestion_id: str, collection: Collection) -> list[ChunkSpan]:
        data = await payload(session, ingestion_id, CHUNKS, collection.id)
        return [] if data is None else msgspec.msgpack.decode(data, type=list[ChunkSpan])

    async def _put(
        self, ingestion_id: str, kind: str, collection_id: str, position: int, data: bytes, embedded: int = 0
    ) -> bool:
        """Keep bytes until the ingestion ends.

        Returns:
            Whether it has not ended yet.
        """
        async with self._database.session() as session:
            row = await lock_ingestion(session, ingestion_id)
            if row is None:
                return False
            await put_payload(session, ingestion_id, kind, collection_id, position, data)
            row.chunks_embedded += embedded
            if embedded:
                # Restarts during a long ingestion are no reason to give it up.
                row.attempts = 1
            return True


async def _unfinished(session: AsyncSession, ingestion_id: str) -> IngestionRow | None:
    row = await session.get(IngestionRow, ingestion_id)
    return row if row is not None and row.state in UNFINISHED else None
