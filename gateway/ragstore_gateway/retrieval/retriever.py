"""`KnowledgeRetriever`: searches several knowledge bases concurrently, under one deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
import structlog

from ragstore.kit.errors import ServiceError
from ragstore_gateway.database.database import Database
from ragstore_gateway.embeddings.embedder import Embedder
from ragstore_gateway.ingestion.collections import Collection, Collections
from ragstore_gateway.ingestion.tables import DocumentRow
from ragstore_gateway.knowledge.configuration import Configuration
from ragstore_gateway.knowledge.knowledge_base import KnowledgeBase
from ragstore_gateway.retrieval import metrics
from ragstore_gateway.vector_stores.vector_store import DOCUMENT_KEY, MAX_HITS, REVISION_KEY, Hit, Vector

if TYPE_CHECKING:
    from ragstore_client import Where

SPARE: Final = 5
"""Number of hits fetched beyond the requested ones, for those that are not visible."""

MAX_SWITCHES: Final = 3
"""Maximum number of times that a search is repeated because another collection became active during it."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class BaseQuery:
    """A search of one knowledge base.

    Attributes:
        base: the base.
        max_results: maximum number of hits, at most 1,000.
        min_score: minimum relevance, (1 + cosine) / 2.
        where: filter by metadata.
    """

    base: Configuration[KnowledgeBase]
    max_results: int
    min_score: float
    where: Where | None = None


@dataclass(frozen=True, slots=True)
class BaseResult:
    """The result of a search of one knowledge base.

    Attributes:
        query: the search.
        hits: the hits by descending score; only chunks of the current revisions of documents.
        error: code of the error of a failed search; empty for none.
        failure: the error itself, if it is one of the gateway's.
    """

    query: BaseQuery
    hits: Sequence[Hit] = ()
    error: str = ""
    failure: ServiceError | None = None


class _Vectors:
    """The vectors of one question: one for each model, computed once."""

    def __init__(self, question: str) -> None:
        self._question = question
        self._tasks: dict[int, tuple[Embedder, asyncio.Task[Vector]]] = {}

    async def of(self, embedder: Embedder) -> Vector:
        """The vector by a model."""
        known = self._tasks.get(id(embedder))
        if known is None:
            task = asyncio.create_task(self._embed(embedder), name="embed-question")
            known = self._tasks[id(embedder)] = embedder, task
        # One of several bases that wait for it may be cancelled.
        return await asyncio.shield(known[1])

    def cancel(self) -> None:
        """End what is not complete."""
        for _, task in self._tasks.values():
            task.cancel()

    async def _embed(self, embedder: Embedder) -> Vector:
        vector: Vector = (await embedder.embed([self._question], "query"))[0]
        return vector


class KnowledgeRetriever:
    """Searches knowledge bases.

    Args:
        database: holds the current revisions of documents.
        collections: the collections of the bases.
    """

    def __init__(self, database: Database, collections: Collections) -> None:
        self._database = database
        self._collections = collections

    async def search(self, question: str, queries: Sequence[BaseQuery], deadline: float) -> list[BaseResult]:
        """Search knowledge bases concurrently. A failing or slow one does not affect the others.

        Args:
            question: the question.
            queries: the searches.
            deadline: time on the event loop's clock (`loop.time()`) at which those that are not complete fail.

        Returns:
            The results in the order of the searches.
        """
        if not queries:
            return []
        vectors = _Vectors(question)
        tasks = [asyncio.create_task(self._result(vectors, query), name="search-base") for query in queries]
        try:
            await asyncio.wait(tasks, timeout=max(0.0, deadline - asyncio.get_running_loop().time()))
            results = [
                task.result() if task.done() else BaseResult(query, error="timeout")
                for task, query in zip(tasks, queries, strict=True)
            ]
        finally:
            for task in tasks:
                task.cancel()
            vectors.cancel()
        for result in results:
            metrics.search(result.error)
            if result.error:
                _log.warning("knowledge base not searched", base=result.query.base.id, error=result.error)
        return results

    async def _result(self, vectors: _Vectors, query: BaseQuery) -> BaseResult:
        started = time.perf_counter()
        try:
            hits = await self._hits(vectors, query)
        except ServiceError as error:
            return BaseResult(query, error=error.code, failure=error)
        except Exception as error:  # noqa: BLE001 - whatever fails in one base, the others continue
            _log.error("search failed", base=query.base.id, error=type(error).__name__)
            return BaseResult(query, error="failed")
        metrics.SEARCH_SECONDS.observe(time.perf_counter() - started)
        return BaseResult(query, hits)

    async def _hits(self, vectors: _Vectors, query: BaseQuery) -> list[Hit]:
        collection = await self._collections.active(query.base.id)
        hits: list[Hit] = []
        for _ in range(MAX_SWITCHES):
            if collection is None or collection.dimension is None:
                return []
            hits = await self._visible_hits(vectors, query, collection)
            current = await self._collections.active(query.base.id)
            # A collection that is no longer active may have been removed during the search.
            if current is None or current.id == collection.id:
                return hits
            collection = current
        return hits

    async def _visible_hits(self, vectors: _Vectors, query: BaseQuery, collection: Collection) -> list[Hit]:
        vector = await vectors.of(self._collections.embedder(collection))
        store = self._collections.open(collection)
        limit = min(query.max_results + SPARE, MAX_HITS)
        while True:
            hits = await store.search(vector, limit, min_score=query.min_score, where=query.where)
            visible = await self._visible(query.base.id, hits)
            if len(visible) >= query.max_results or len(hits) < limit or limit == MAX_HITS:
                return visible[: query.max_results]
            limit = min(2 * limit, MAX_HITS)

    async def _visible(self, base_id: str, hits: Sequence[Hit]) -> list[Hit]:
        """The hits that belong to the current revisions of their documents."""
        ids = {str(hit.metadata.get(DOCUMENT_KEY, "")) for hit in hits}
        if not ids:
            return []
        query = sa.select(DocumentRow.id, DocumentRow.current_revision).where(
            DocumentRow.base_id == base_id, DocumentRow.id.in_(ids), DocumentRow.current_revision.is_not(None)
        )
        async with self._database.reading() as session:
            current = {row.id: row.current_revision for row in await session.execute(query)}
        return [hit for hit in hits if _is_current(hit.metadata, current)]


def _is_current(metadata: Mapping[str, object], current: Mapping[str, str]) -> bool:
    document = str(metadata.get(DOCUMENT_KEY, ""))
    return document in current and metadata.get(REVISION_KEY) == current[document]
