"""`CollectionSearch`: queries of a collection, by Chroma's index and, where that returns too few results, exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import numpy as np
from msgspec import structs
from prometheus_client import Counter

from ragstore.chroma.backend import Backend
from ragstore.chroma.errors import RecordGone, wrong_dimension
from ragstore.chroma.exact_search import ExactSearch, FewMatches
from ragstore.chroma.operations import QueryRecords
from ragstore.chroma.query_groups import group_for_calls
from ragstore.chroma.records import MAX_FLOAT32, Column, QueryResult
from ragstore.errors import InvalidDocuments
from ragstore.filters import where as metadata_filter
from ragstore.kit.deferred_metrics import record
from ragstore.model.collections import Collection
from ragstore.model.filters.condition import Condition
from ragstore.model.queries import Matches, Query
from ragstore.model.vectors import LOST_NORM, has_lost_norm, squared_norms

COMPLETED: Final = Counter(
    "ragstore_completed_queries_total",
    "Query vectors for which Chroma's index found fewer documents than match, so that all matches were compared.",
)


class CollectionSearch:
    """Searches collections.

    Args:
        backend: Chroma.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._exact = ExactSearch(backend)

    async def query(self, collection: Collection, queries: Sequence[Query]) -> list[Matches]:
        """The nearest documents of each query; `min(top_k, matching documents)` of them.

        Queries with the same filter are one call.

        Raises:
            DimensionMismatch: a query has another dimension than the collection.
            InvalidDocuments: the norm of a query is beyond what Chroma can compute.
        """
        if _is_unwritten(collection, queries):
            return [Matches([], [], [], [], None) for _ in queries]
        hits: dict[int, Matches] = {}
        for indexes in group_for_calls(queries):
            first = queries[indexes[0]]
            operation = QueryRecords(
                collection.id,
                np.stack([queries[index].embedding for index in indexes]),
                max(queries[index].top_k for index in indexes),
                where=first.condition.chroma_where,
                where_document=first.condition.chroma_where_document,
                columns=_columns(first.with_embeddings),
                matching_ids=first.matching_ids,
            )
            results = await self._call(operation, first.condition)
            for index, result in zip(indexes, results, strict=True):
                hits[index] = _hits(result, queries[index].top_k)
            short = [index for index in indexes if _is_short(queries[index], hits[index])]
            if short:
                hits |= await self._complete(collection, {index: queries[index] for index in short}, hits)
        return [hits[index] for index in range(len(queries))]

    async def query_exact(
        self, collection: Collection, queries: Sequence[Query], max_matches: int, ids: list[str] | None = None
    ) -> FewMatches | None:
        """The nearest documents of each query, by comparison with every match.

        Args:
            queries: queries that have one filter.
            max_matches: maximum number of matches, if their ids are not known.
            ids: ids of all matches; None if they are not known.

        Returns:
            The results of each query; None if more documents match.

        Raises:
            DimensionMismatch: a query has another dimension than the collection.
            InvalidDocuments: the norm of a query is beyond what Chroma can compute.
        """
        if _is_unwritten(collection, queries):
            return FewMatches([Matches([], [], [], [], None) for _ in queries], 0)
        if ids is not None:
            return FewMatches(await self._exact.nearest(collection, queries, ids), len(ids))
        return await self._exact.nearest_of_few(collection, queries, max_matches)

    async def _call(self, operation: QueryRecords, condition: Condition) -> list[QueryResult]:
        """Query. If the ids of the matches turn out to be out of date, Chroma evaluates the filter again."""
        if operation.matching_ids is None:
            return await self._backend.call(operation)
        with suppress(RecordGone):
            results = await self._backend.call(operation)
            if all(metadata_filter.matches(condition.where, of) for found in results for of in found.metadatas or []):
                return results
        return await self._backend.call(structs.replace(operation, matching_ids=None))

    async def _complete(
        self, collection: Collection, queries: dict[int, Query], hits: dict[int, Matches]
    ) -> dict[int, Matches]:
        """The complete results of those queries whose results are fewer than `top_k` although more documents match."""
        first = next(iter(queries.values()))
        ids: list[str] | int | None = first.matching_ids
        if ids is None:
            ids = await self._exact.ids_or_count(collection, first.condition)
        total = ids if isinstance(ids, int) else len(ids)
        lacking = {index: query for index, query in queries.items() if len(hits[index].ids) < min(query.top_k, total)}
        if not lacking:
            return {}
        record(COMPLETED.inc, len(lacking))
        known = None if isinstance(ids, int) else ids
        complete = await self._exact.nearest(collection, list(lacking.values()), known)
        return dict(zip(lacking, complete, strict=True))


def _is_unwritten(collection: Collection, queries: Sequence[Query]) -> bool:
    """Whether a collection has had no document yet.

    Raises:
        DimensionMismatch: a query has another dimension than the collection.
        InvalidDocuments: Chroma cannot compute the cosine distance of a query.
    """
    if collection.dimension is None:
        return True
    for query in queries:
        if len(query.embedding) != collection.dimension:
            raise wrong_dimension(collection.dimension, len(query.embedding), "$.query_embedding")
        if collection.distance == "cosine" and has_lost_norm(squared_norms(query.embedding[np.newaxis]))[0]:
            raise InvalidDocuments.at("$.query_embedding", LOST_NORM)
    return False


def _is_short(query: Query, hits: Matches) -> bool:
    return len(hits.ids) < query.top_k and not query.may_be_short


def _columns(with_embeddings: bool) -> tuple[Column, ...]:
    return ("documents", "metadatas", "embeddings") if with_embeddings else ("documents", "metadatas")


def _hits(found: QueryResult, top_k: int) -> Matches:
    """The `top_k` nearest hits, with finite distances."""
    distances = [distance if math.isfinite(distance) else MAX_FLOAT32 for distance in found.distances]
    order = sorted(range(len(distances)), key=distances.__getitem__)[:top_k]
    texts, metadatas = found.texts or [], found.metadatas or []
    return Matches(
        ids=[found.ids[index] for index in order],
        texts=[texts[index] for index in order],
        metadatas=[metadatas[index] for index in order],
        distances=[distances[index] for index in order],
        embeddings=None if found.embeddings is None else found.embeddings[order],
    )
