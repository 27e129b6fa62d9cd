"""`HybridSearch`: the visible chunks of a collection that are nearest to a question, or have its words.

Both rankings are one sum of normalised scores: (cosine - mean) / deviation of unrelated chunks, and `keywordWeight`
times BM25 / deviation of the collection's BM25. On seven judged sets, this is better than the sum of reciprocal ranks,
and than a share of the best score, with every model (docs/knowledge-bases.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from ragstore.filters import where as language
from ragstore.kit.tracing.spans import span
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.engines.engine_collection import MAX_PASSAGES, EngineCollection, Passage, Vector
from ragstore_gateway.ingestion.collections import Collection
from ragstore_gateway.ingestion.revisions import Revisions, document_of, is_visible
from ragstore_gateway.keywords.keyword_index import KeywordIndex
from ragstore_gateway.keywords.word_table import NOTHING, Ranked
from ragstore_gateway.retrieval.calibration import DEFAULT, Calibration, Calibrations
from ragstore_gateway.retrieval.visible_search import FoundChunks, VisibleSearch, narrowed

if TYPE_CHECKING:
    from ragstore_client import Where

POOL: Final = 20
"""Minimum number of chunks of each ranking that are candidates. With 50, seven judged sets have the same results."""

FILTERED_POOL: Final = 200
"""Minimum number of chunks of the ranking by keywords that are candidates of a search with a filter. The filter is
applied to them afterwards: the keyword index has no metadata."""

KEYWORD_DEPTH: Final = 200
"""Number of chunks whose keyword scores are read. A chunk that only its vector finds needs its score, too: without it,
CISI loses 4 points of nDCG@10. With 500, CISI and Cranfield have 0.002 and 0.004 less, and a question takes 1 ms more;
with 50, CISI has 0.022 less."""

MAX_KEYWORD_PART: Final = 12.0
"""Maximum of BM25 / deviation: a word that one chunk of 10,000 has is 100 deviations, and would decide everything."""

MAX_ROUNDS: Final = 3
"""Maximum number of times that a search is sent, because documents were replaced during it."""


@dataclass(frozen=True, slots=True)
class CollectionSearch:
    """A search of one collection.

    Attributes:
        embed: the vector of the question, which is computed once.
        max_results: maximum number of passages.
        min_score: minimum relevance, (1 + cosine) / 2.
        where: filter by metadata.
        with_vectors: whether the passages have their vectors, where the engine returns them.
    """

    collection: Collection
    store: EngineCollection
    base: KnowledgeBase
    question: str
    embed: Callable[[], Awaitable[Vector]]
    max_results: int
    min_score: float
    where: Where | None = None
    with_vectors: bool = False

    @property
    def pool(self) -> int:
        """Maximum number of candidates of each ranking."""
        return candidates_of(self.max_results)

    @property
    def vector_attributes(self) -> Mapping[str, str]:
        """The attributes of the span of a search by vectors."""
        return {"db.system.name": self.collection.store_type, "base": self.collection.base_id}

    def split(self, passages: Sequence[Passage]) -> tuple[list[Passage], list[Passage]]:
        """The passages that have the minimum relevance, and the nearest ones of the others, at most `max_results`.

        The engine returns both, so that a trace can show what the minimum has excluded.
        """
        near = [each for each in passages if each.relevance >= self.min_score]
        below = sorted((each for each in passages if each.relevance < self.min_score), key=lambda each: -each.relevance)
        return near, below[: self.max_results]


@dataclass(frozen=True, slots=True)
class _KeywordHits:
    """The result of a search by keywords.

    Attributes:
        ranked: the best chunks.
        candidates: ids of the chunks that are candidates.
        passages: the candidates that the engine has.
    """

    ranked: Ranked = NOTHING
    candidates: Sequence[str] = ()
    passages: Sequence[Passage] = ()


def candidates_of(max_results: int) -> int:
    """Maximum number of candidates of each ranking for a number of results."""
    return min(max(max_results, POOL), MAX_PASSAGES)


class HybridSearch:
    """Searches collections by vectors and keywords.

    Args:
        visible: searches by vectors.
        keywords: searches by keywords.
        revisions: the revisions of documents.

    Attributes:
        calibrations: the calibrations of the collections.
    """

    def __init__(self, visible: VisibleSearch, keywords: KeywordIndex, revisions: Revisions) -> None:
        self._visible = visible
        self._keywords = keywords
        self._revisions = revisions
        self.calibrations = Calibrations(keywords)

    async def search(self, search: CollectionSearch) -> FoundChunks:
        """Find the best visible chunks.

        Returns:
            The chunks by descending rank, and the invisible chunks that a search by vectors found.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            ServiceError: the engine failed.
        """
        if search.base.is_linked:
            return await self._search_linked(search)
        found = FoundChunks((), ())
        for _ in range(MAX_ROUNDS):
            found, is_stable = await self._search(search)
            if is_stable:
                break
        if search.with_vectors:
            return replace(found, visible=await _with_vectors(search, found.visible))
        return found

    async def passage(
        self, base: Configuration[KnowledgeBase], collection: Collection, store: EngineCollection, id: str
    ) -> Passage | None:
        """Read a visible chunk by its id.

        Args:
            base: the knowledge base.
            store: the collection in the engine.
        """
        # Engines read records by id to compare them with a vector. Its direction has no effect on which are read.
        axis = np.zeros(collection.dimension or 0, dtype=np.float32)
        axis[:1] = 1.0
        found = [each for each in await store.compare(axis, [id]) if each.id == id]
        if base.body.is_linked:
            return next(iter(found), None)
        current = await self._revisions.current(collection.base_id, {document_of(passage) for passage in found})
        return next((each for each in found if is_visible(each, current, collection.owner)), None)

    async def _search_linked(self, search: CollectionSearch) -> FoundChunks:
        """Search a collection that others fill: by vectors, and all of its records are visible."""
        with span("search vectors", "client", search.vector_attributes):
            passages = await search.store.search(await search.embed(), search.max_results, where=search.where)
        near, below = search.split(passages)
        return FoundChunks(_ranked(search, near, NOTHING, DEFAULT), (), below)

    async def _search(self, search: CollectionSearch) -> tuple[FoundChunks, bool]:
        """Search once.

        Returns:
            The chunks, and whether no chunk was left out because its document changed meanwhile.
        """
        keywords, near, calibration = await self._both(search)
        known = {passage.id for passage in near.visible}
        added = [id for id in keywords.candidates if id not in known]
        compared = [passage for passage in keywords.passages if passage.id not in known]
        chosen = language.parse(search.where)
        passages = [
            *near.visible,
            *(passage for passage in compared if language.matches(chosen, passage.metadata)),
        ]
        kept = passages
        if compared:
            current = await self._revisions.current(
                search.collection.base_id, {document_of(passage) for passage in passages}
            )
            # A document that was replaced since the search by vectors keeps the revision that this search has found.
            # Otherwise, a document that is replaced during each round would not be found at all.
            current = {id: near.revisions.get(id, published) for id, published in current.items()}
            kept = [passage for passage in passages if is_visible(passage, current, search.collection.owner)]
        is_stable = len(kept) == len(passages) and len(compared) == len(added)
        fitting, below = search.split(kept)
        return FoundChunks(_ranked(search, fitting, keywords.ranked, calibration), near.invisible, below), is_stable

    async def _both(self, search: CollectionSearch) -> tuple[_KeywordHits, FoundChunks, Calibration]:
        """Both rankings, and the calibration. If one of them fails, the others are cancelled.

        They are concurrent: words are searched for while the question is embedded, and what they find is read while the
        engine searches by the vector, although it may find some of it, too.
        """
        try:
            async with asyncio.TaskGroup() as group:
                keywords = group.create_task(self._by_keywords(search))
                near = group.create_task(self._by_vector(search))
                calibration = group.create_task(self._calibration(search))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return keywords.result(), near.result(), calibration.result()

    async def _calibration(self, search: CollectionSearch) -> Calibration:
        return await self.calibrations.of(search.collection.id, search.store, await search.embed())

    async def _by_keywords(self, search: CollectionSearch) -> _KeywordHits:
        base = search.base
        if base.retrieval == "vector" or (base.retrieval == "hybrid" and not base.keyword_weight):
            return _KeywordHits()
        with span("search keywords", attributes={"base": search.collection.base_id}):
            depth = max(search.pool, KEYWORD_DEPTH)
            ranked = await self._keywords.search(search.collection.id, search.question, depth)
        best = list(ranked.scores)[: max(search.pool, FILTERED_POOL) if search.where else search.pool]
        return _KeywordHits(ranked, best, await search.store.compare(await search.embed(), best) if best else ())

    async def _by_vector(self, search: CollectionSearch) -> FoundChunks:
        if search.base.retrieval == "keyword":
            return FoundChunks((), ())

        vector = await search.embed()

        async def fetch(limit: int, clause: Where | None) -> list[Passage]:
            return await search.store.search(vector, limit, where=narrowed(search.where, clause))

        with span("search vectors", "client", search.vector_attributes):
            return await self._visible.search(search.collection.base_id, fetch, search.pool, search.collection.owner)


async def _with_vectors(search: CollectionSearch, passages: Sequence[Passage]) -> list[Passage]:
    """The passages with their vectors, where the engine returns them."""
    compared = await search.store.compare(await search.embed(), [passage.id for passage in passages])
    vectors = {passage.id: passage.vector for passage in compared}
    return [replace(passage, vector=vectors.get(passage.id)) for passage in passages]


def _ranked(
    search: CollectionSearch, passages: Sequence[Passage], keywords: Ranked, calibration: Calibration
) -> list[Passage]:
    """The best passages by descending rank."""
    weight = 1.0 if search.base.retrieval == "keyword" else search.base.keyword_weight
    scale = _keyword_scale(keywords)
    by_vector = search.base.retrieval != "keyword" or search.base.is_linked

    def rank(passage: Passage) -> float:
        near = (passage.cosine - calibration.mean) / calibration.deviation if by_vector else 0.0
        return near + (weight * (keywords.scores.get(passage.id, 0.0) / scale) if scale else 0.0)

    ranked = (replace(passage, rank=rank(passage)) for passage in passages)
    return sorted(ranked, key=lambda passage: passage.place)[: search.max_results]


def _keyword_scale(keywords: Ranked) -> float:
    """The deviation of BM25, or more, so that the best chunk has at most the maximum of BM25 / deviation."""
    best = max(keywords.scores.values(), default=0.0)
    return max(keywords.deviation, best / MAX_KEYWORD_PART)
