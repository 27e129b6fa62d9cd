"""`KnowledgeRetriever`: searches several knowledge bases concurrently, under one deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Self

import structlog

from ragstore.kit.byte_budget import FREE_BYTES, give_back, reserve
from ragstore.kit.errors import ServiceError
from ragstore.kit.tracing.spans import span
from ragstore_client import Where
from ragstore_gateway.api.request_variables import RequestVariables
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.where_template import joined
from ragstore_gateway.embeddings.embedder import Embedder
from ragstore_gateway.engines.engine_collection import MAX_PASSAGES, Passage, Vector
from ragstore_gateway.ingestion.collections import Collection, Collections
from ragstore_gateway.ingestion.linked_collections import LinkedCollections
from ragstore_gateway.ingestion.search_priority import SearchPriority
from ragstore_gateway.ingestion.strays import Strays
from ragstore_gateway.retrieval import metrics
from ragstore_gateway.retrieval.hybrid_search import CollectionSearch, HybridSearch, candidates_of
from ragstore_gateway.retrieval.question import Question
from ragstore_gateway.retrieval.visible_search import FoundChunks, narrowed

BYTES_PER_CHARACTER: Final = 4
"""Memory for a character of a passage: the text, and the response or the prompt that has it, at two bytes each. Further
copies are in the share of memory that the budget leaves."""

CHARACTERS_PER_TOKEN: Final = 4
"""An estimate for the texts of bases whose chunks are measured in tokens."""

MAX_SWITCHES: Final = 3
"""Maximum number of times that a search is repeated because another collection became active during it."""

CHUNKS_ONLY: Final[Where] = {"layer": {"$nin": ["document", "page", "section"]}}
"""Selects the chunks of a collection with `layers`."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class BaseQuery:
    """A search of one knowledge base.

    Attributes:
        max_results: maximum number of passages, at most 1,000.
        min_score: minimum relevance, (1 + cosine) / 2.
        where: filter by metadata.
        with_vectors: whether the passages have their vectors, where the engine returns them.
        matches_nothing: whether its filter needs what the request does not have, such as a session.
        chunks_only: whether records of documents, pages and sections are left out, which repeat the texts of chunks.
        all_texts: whether passages below the minimum relevance keep their texts.
    """

    base: Configuration[KnowledgeBase]
    max_results: int
    min_score: float
    where: Where | None = None
    with_vectors: bool = False
    matches_nothing: bool = False
    chunks_only: bool = False
    all_texts: bool = False

    @classmethod
    def of(
        cls,
        base: Configuration[KnowledgeBase],
        max_results: int,
        min_score: float,
        variables: RequestVariables,
        *,
        filters: Sequence[Mapping[str, Any]] = (),
        where: Where | None = None,
        with_vectors: bool = False,
        chunks_only: bool = False,
        all_texts: bool = False,
    ) -> Self:
        """A search within the filter of the base.

        Args:
            variables: the variables of the request.
            filters: further filters of configurations.
            where: the filter of the caller, whose values are no variables.
        """
        own = joined([base.body.where, *filters], variables)
        both = {"$and": [own, where]} if own and where else own or where
        return cls(
            base,
            max_results,
            min_score,
            both or None,
            with_vectors,
            matches_nothing=own is None,
            chunks_only=chunks_only,
            all_texts=all_texts,
        )

    @property
    def estimated_bytes(self) -> int:
        """Memory for the largest result, as far as it is known before the search."""
        if self.matches_nothing:
            return 0
        body = self.base.body
        characters = body.chunk_size * (CHARACTERS_PER_TOKEN if body.chunk_unit == "tokens" else 1)
        rankings = 2 if body.retrieval == "hybrid" else 1
        return rankings * candidates_of(self.max_results) * characters * BYTES_PER_CHARACTER


@dataclass(frozen=True, slots=True)
class BaseResult:
    """The result of a search of one knowledge base.

    Attributes:
        query: the search.
        passages: the passages by descending rank; only chunks of the current revisions of documents.
        error: code of the error of a failed search; empty for none.
        failure: the error itself, if it is one of the gateway's.
        is_missing: whether there is nothing to search: no document was ingested, the collection does not exist, or no
            record can match the filter.
        model: the model of the vectors; empty for an unknown one.
        below: passages whose relevance is less than the minimum, the most relevant one first, without texts unless
            the search is for all texts.
        fetched: the number of passages that were searched for, if that is more than the search says.
    """

    query: BaseQuery
    passages: Sequence[Passage] = ()
    error: str = ""
    failure: ServiceError | None = None
    is_missing: bool = False
    model: str = ""
    below: Sequence[Passage] = ()
    fetched: int = 0

    @property
    def may_have_more(self) -> bool:
        """Whether a search for more passages may find others."""
        return not self.error and self.wanted <= len(self.passages) and self.wanted < MAX_PASSAGES

    @property
    def wanted(self) -> int:
        """The number of passages that were searched for."""
        return max(self.fetched, self.query.max_results)


class _Vectors:
    """The vectors of one question: one for each model, computed once."""

    def __init__(self, question: Question) -> None:
        self.question = question
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
        with span("embed question", attributes={"model": embedder.name}):
            vectors = await embedder.embed(self.question.embedded, "query")
        vector: Vector = vectors[0] if len(vectors) == 1 else vectors.mean(axis=0)
        return vector


class KnowledgeRetriever:
    """Searches knowledge bases.

    Args:
        collections: the collections of the bases.
        linked: the existing collections that bases name.
        hybrid: searches a collection.
        strays: removes chunks that belong to no revision.

    Attributes:
        priority: delays ingestions during searches.
        last_searches: the time of the last search of each knowledge base, by this process.
    """

    def __init__(
        self,
        collections: Collections,
        linked: LinkedCollections,
        hybrid: HybridSearch,
        strays: Strays,
        priority: SearchPriority,
    ) -> None:
        self._collections = collections
        self._linked = linked
        self._hybrid = hybrid
        self._strays = strays
        self.priority = priority
        self.last_searches: dict[str, datetime] = {}

    async def search(self, question: Question, queries: Sequence[BaseQuery], deadline: float) -> list[BaseResult]:
        """Search knowledge bases concurrently. A failing or slow one does not affect the others.

        Room for the results is reserved in the budget of bytes; the rest is given back.

        Args:
            queries: the searches.
            deadline: time on the event loop's clock (`loop.time()`) at which unfinished searches fail.

        Returns:
            The results in the order of the searches.

        Raises:
            Overloaded: there was no room for the results in time.
        """
        if not queries:
            return []
        self.last_searches.update((query.base.id, datetime.now(UTC)) for query in queries)
        estimate = sum(query.estimated_bytes for query in queries)
        await reserve(estimate)
        with self.priority.search():
            results = await self._search(question, queries, deadline)
        characters = sum(len(each.text) for result in results for each in (*result.passages, *result.below))
        if estimate > FREE_BYTES:
            give_back(estimate - BYTES_PER_CHARACTER * characters)
        return results

    async def passage(self, base: Configuration[KnowledgeBase], id: str) -> Passage | None:
        """Read a passage by its id.

        Returns:
            The passage; None if searches do not find it any more.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            ServiceError: the engine failed.
        """
        collection = await self._collection(base)
        if collection is None or collection.dimension is None:
            return None
        found = await self._hybrid.passage(base, collection, self._collections.open(collection), id)
        return None if found is None else replace(found, base=base.body.name)

    async def _search(self, question: Question, queries: Sequence[BaseQuery], deadline: float) -> list[BaseResult]:
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
        attributes = {"base": query.base.id, "engine": query.base.body.store_type}
        try:
            with span("search base", attributes=attributes) as describe:
                result = await self._found(vectors, query)
                describe("passages", len(result.passages))
        except ServiceError as error:
            return BaseResult(query, error=error.code, failure=error)
        except Exception as error:  # noqa: BLE001 - whatever fails in one base, the others continue
            _log.error("search failed", base=query.base.id, error=type(error).__name__)
            return BaseResult(query, error="failed")
        metrics.SEARCH_SECONDS.observe(time.perf_counter() - started)
        return result

    async def _found(self, vectors: _Vectors, query: BaseQuery) -> BaseResult:
        if query.matches_nothing:
            return BaseResult(query, is_missing=True)
        collection = await self._collection(query.base)
        found = FoundChunks((), ())
        model = ""
        for _ in range(MAX_SWITCHES):
            if collection is None or collection.dimension is None:
                return BaseResult(query, is_missing=True)
            embedder = self._collections.embedder(collection)
            model = embedder.name
            found = await self._visible_passages(
                partial(vectors.of, embedder), vectors.question.keywords, query, collection
            )
            current = await self._collection(query.base)
            # A collection that is no longer active may have been removed during the search.
            if current is None or current.id == collection.id:
                break
            collection = current
        name = query.base.body.name
        named = [replace(each, base=name) for each in found.visible]
        below = [replace(each, base=name, text=each.text if query.all_texts else "") for each in found.below]
        return BaseResult(query, named, model=model, below=below)

    async def _collection(self, base: Configuration[KnowledgeBase]) -> Collection | None:
        """The collection that searches of a base use."""
        if base.body.collection:
            return await self._linked.find(base)
        return await self._collections.active(base.id)

    async def _visible_passages(
        self, embed: Callable[[], Awaitable[Vector]], keywords: str, query: BaseQuery, collection: Collection
    ) -> FoundChunks:
        has_layers = query.chunks_only and collection.chunking.strategy == "layers"
        found = await self._hybrid.search(
            CollectionSearch(
                collection,
                self._collections.open(collection),
                query.base.body,
                keywords,
                embed,
                query.max_results,
                query.min_score,
                narrowed(query.where, CHUNKS_ONLY if has_layers else None),
                query.with_vectors,
            )
        )
        if found.invisible:
            self._strays.report(collection, await embed(), found.invisible)
        return found
