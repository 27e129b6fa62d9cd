"""`SharedIngestion`: ingests small documents of one base together. Failing or large ones leave."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import structlog

from ragstore.kit.errors import ServiceError
from ragstore_gateway.database.repetition import repeated
from ragstore_gateway.embeddings.batches import batches
from ragstore_gateway.embeddings.embedder import Vectors
from ragstore_gateway.engines.engine_collection import MAX_BATCH, EngineCollection, Record
from ragstore_gateway.errors import CollectionMissing
from ragstore_gateway.ingestion import metrics
from ragstore_gateway.ingestion.chunk_copies import ChunkCopies, ChunkRange
from ragstore_gateway.ingestion.claimed_document import ClaimedDocument
from ragstore_gateway.ingestion.collections import Collection, Collections
from ragstore_gateway.ingestion.embedded_text import embedded_text
from ragstore_gateway.ingestion.embedding_requests import EmbeddingRequests
from ragstore_gateway.ingestion.errors import LeaseLost
from ragstore_gateway.ingestion.publication import Publication, Published
from ragstore_gateway.ingestion.records import BATCH, BATCH_BYTES, records_of
from ragstore_gateway.ingestion.search_priority import SearchPriority
from ragstore_gateway.ingestion.text_tools import TextTools

MAX_CHUNKS: Final = BATCH
"""Maximum number of chunks of a document that is ingested together with others. Nothing of it is recorded before it is
visible, so that a kill repeats one request to the provider at most."""

CONCURRENCY: Final = 4
"""Maximum number of requests of one job to the provider of its embeddings."""

Leave: TypeAlias = Callable[[ClaimedDocument, Exception | None], None]
"""Called for a document that leaves the others, with the error if no other document can be its reason."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A chunk of one of the documents."""

    claimed: ClaimedDocument
    text: str


class SharedIngestion:
    """Ingests documents of this process. No call is repeated: a document whose call fails leaves the others.

    Args:
        collections: the collections of all bases.
        publication: ends ingestions.
        texts: extracts and splits texts.
        copies: copies chunks.
        requests: counts the requests for embeddings.
        may_write: whether this process may still write: no other one has taken over its ingestions.
        priority: delays ingestions during searches.
    """

    def __init__(
        self,
        collections: Collections,
        publication: Publication,
        texts: TextTools,
        copies: ChunkCopies,
        requests: EmbeddingRequests,
        may_write: Callable[[], bool],
        priority: SearchPriority,
    ) -> None:
        self._collections = collections
        self._copies = copies
        self._requests = requests
        self._publication = publication
        self._texts = texts
        self._may_write = may_write
        self._priority = priority

    async def run(self, claimed: Sequence[ClaimedDocument], leave: Leave) -> Published:
        """Ingest documents.

        Args:
            claimed: documents of one base, each one once.
            leave: lets a document continue alone, or fail.

        Raises:
            LeaseLost: the lease of this process has expired.
        """
        together = await self._prepared(claimed, leave)
        for collection in {own.id: own for each in together for own in each.targets}.values():
            own = [each for each in together if not each.is_unchanged and collection.id in {t.id for t in each.targets}]
            left = await self._fill(own, collection, leave) if own else []
            together = [each for each in together if each not in own or each in left]
        return await self._publish([each for each in together if not each.is_cancelled], leave)

    async def _prepared(self, claimed: Sequence[ClaimedDocument], leave: Leave) -> list[ClaimedDocument]:
        """Extract and split the texts, and let large documents leave."""
        await self._prepare_together([each for each in claimed if not each.is_unchanged and not each.is_cancelled])
        outcomes = await asyncio.gather(
            *(self._priority.pausing(self._prepare(each)) for each in claimed), return_exceptions=True
        )
        left = []
        for each, outcome in zip(claimed, outcomes, strict=True):
            if isinstance(outcome, Exception):
                leave(each, outcome)
            elif isinstance(outcome, BaseException):
                raise outcome
            elif max(map(len, each.spans.values()), default=0) > MAX_CHUNKS:
                leave(each, None)
            else:
                left.append(each)
        return left

    async def _prepare_together(self, claimed: Sequence[ClaimedDocument]) -> None:
        """Extract and split the texts, as far as no document fails."""
        try:
            await self._texts.extract_together([each for each in claimed if each.extracted is None])
            extracted = [each for each in claimed if each.extracted is not None]
            for collection in {own.id: own for each in extracted for own in each.targets}.values():
                own = [each for each in extracted if collection.id in {target.id for target in each.targets}]
                await self._texts.split_together(own, collection.id, collection.chunking)
        except ServiceError as error:
            _log.info("texts are extracted one by one", documents=len(claimed), error=error.code)

    async def _prepare(self, claimed: ClaimedDocument) -> None:
        if claimed.is_unchanged or claimed.is_cancelled:
            return
        if claimed.extracted is None:
            await self._texts.extract(claimed)
        for collection in claimed.targets:
            if collection.id not in claimed.spans:
                await self._texts.split(claimed, collection.id, collection.chunking)

    async def _fill(
        self, claimed: list[ClaimedDocument], collection: Collection, leave: Leave
    ) -> list[ClaimedDocument]:
        """Embed and write the chunks of documents for one collection.

        Returns:
            The documents that have not left.
        """
        made = await self._made(claimed, collection, leave)
        claimed = list(made)
        if not claimed:
            return []
        try:
            fixed = await self._collections.with_dimension(collection, len(made[claimed[0]][0].vector))
        except ServiceError:
            for each in claimed:
                leave(each, None)
            return []
        for each in claimed:
            each.replace_target(fixed)
            each.step = "write"
        records = [(each, record) for each, own in made.items() for record in own]
        store = self._collections.open(fixed)
        failed: set[ClaimedDocument] = set()
        with metrics.step("write"):
            if collection.dimension is None:
                await self._write(store.create, {*claimed}, failed)
            for start in range(0, len(records), MAX_BATCH):
                part = records[start : start + MAX_BATCH]
                write = self._writing(store, [record for _, record in part])
                await self._write(write, {each for each, _ in part}, failed)
        for each in failed:
            leave(each, None)
        left = [each for each in claimed if each not in failed]
        for each in left:
            each.written[collection.id] = len(each.spans[collection.id])
        return left

    async def _made(
        self, claimed: Sequence[ClaimedDocument], collection: Collection, leave: Leave
    ) -> dict[ClaimedDocument, list[Record]]:
        """Copy or embed the chunks of documents.

        Returns:
            The records of the documents that have not left, in the order of the documents.
        """
        ranges = [ChunkRange(each, 0, each.spans[collection.id]) for each in claimed]
        made = await self._copies.records(ranges, collection)
        embedded, vectors = await self._embedded([each for each in claimed if each not in made], collection, leave)
        for each in embedded:
            made[each] = records_of(each.row, each.text, each.spans[collection.id], 0, vectors[each])
        return {each: made[each] for each in claimed if each in made}

    async def _write(
        self, call: Callable[[], Awaitable[None]], claimed: set[ClaimedDocument], failed: set[ClaimedDocument]
    ) -> None:
        """Make a call of an engine, unless all documents have failed that it is for.

        Args:
            claimed: the documents that it is for.
            failed: the documents that have failed; the call adds its own if it fails.
        """
        if not self._may_write():
            raise LeaseLost
        if claimed <= failed:
            return
        try:
            await call()
        except ServiceError as error:
            _log.info("documents continue alone", documents=len(claimed), error=error.code)
            failed |= claimed

    async def _embedded(
        self, claimed: Sequence[ClaimedDocument], collection: Collection, leave: Leave
    ) -> tuple[list[ClaimedDocument], dict[ClaimedDocument, Vectors]]:
        """Embed the chunks of documents, several documents with one request.

        Returns:
            The documents that have not left, and their vectors.
        """
        pieces = [
            _Piece(each, embedded_text(each.text, span, collection.chunking))
            for each in claimed
            if not each.is_cancelled
            for span in each.spans[collection.id]
        ]
        for each in claimed:
            each.step = "embed"
        requests: list[list[_Piece]] = []
        first = 0
        for texts in batches([piece.text for piece in pieces], BATCH, BATCH_BYTES):
            requests.append(pieces[first : first + len(texts)])
            first += len(texts)
        slots = asyncio.Semaphore(CONCURRENCY)

        async def embed(request: Sequence[_Piece]) -> Vectors:
            with self._requests.request(request[0].claimed.row.base_id):
                async with slots:
                    embedder = self._collections.embedder(collection)
                    return await embedder.embed([piece.text for piece in request], "document")

        with metrics.step("embed"):
            outcomes = await asyncio.gather(
                *(self._priority.pausing(embed(each)) for each in requests), return_exceptions=True
            )
        parts: dict[ClaimedDocument, list[Vectors]] = {}
        leaving: dict[ClaimedDocument, Exception | None] = {}
        for request, outcome in zip(requests, outcomes, strict=True):
            if isinstance(outcome, Exception):
                of_request = {piece.claimed for piece in request}
                _log.info("documents continue alone", documents=len(of_request), error=type(outcome).__name__)
                leaving.update(dict.fromkeys(of_request, outcome if len(of_request) == 1 else None))
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                for piece, vector in zip(request, outcome, strict=True):
                    parts.setdefault(piece.claimed, []).append(vector)
        for each, error in leaving.items():
            leave(each, error)
        left = [each for each in parts if each not in leaving]
        return left, {each: np.stack(parts[each]) for each in left}

    async def _publish(self, claimed: Sequence[ClaimedDocument], leave: Leave) -> Published:
        if not claimed:
            return Published()
        for each in claimed:
            each.step = "publish"
        published = await self._published(claimed)
        for each in published.changed:
            each.is_unchanged = False
            leave(each, None)
        for each, collections in published.lacking.items():
            each.targets = [*each.targets, *collections]
            leave(each, None)
        return published

    async def _published(self, claimed: Sequence[ClaimedDocument]) -> Published:
        """Publish documents, as soon as the database can be used."""

        async def publish() -> Published:
            with metrics.step("publish"):
                return await self._publication.publish(claimed)

        return await repeated(
            publish,
            lambda error: _log.warning("documents wait for the database", documents=len(claimed), error=error.cause),
        )

    def _writing(self, store: EngineCollection, records: Sequence[Record]) -> Callable[[], Awaitable[None]]:
        async def write() -> None:
            try:
                await self._priority.write(store, records, self._may_write)
            except CollectionMissing:
                await store.create()
                await self._priority.write(store, records, self._may_write)

        return write
