"""Post-filtering: more neighbours are requested without the filter, and the filter is applied here."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ragstore.filters import where as metadata_filter
from ragstore.filters.where import Where
from ragstore.model.filters.condition import NO_CONDITION
from ragstore.model.queries import CollectionMatches, Matches, Query
from ragstore.store.filter_stats import MAX_NEIGHBOURS, FilterStats
from ragstore.store.protocol import Store


@dataclass(frozen=True, slots=True)
class PostFiltered:
    """The results of post-filtered queries.

    Attributes:
        found: the hits; too few for some queries.
        short: indexes of these queries.
        widened: number of queries that needed a second query, with more neighbours, and then had enough results.
        match_rate: fraction of the requested neighbours that matched.
        seconds: time that the queries took.
    """

    found: CollectionMatches
    short: list[int]
    widened: int
    match_rate: float
    seconds: float


class PostFilter:
    """Runs queries without their filter, and applies it to the results.

    Args:
        inner: the store that runs them.
        clock: returns the time in seconds.
    """

    def __init__(self, inner: Store, clock: Callable[[], float] = time.perf_counter) -> None:
        self._inner = inner
        self._clock = clock

    async def query(self, name: str, queries: Sequence[Query], known: FilterStats | None) -> PostFiltered:
        """Run queries. Queries with too few results are repeated with more neighbours, once.

        Args:
            name: the collection.
            queries: queries that have one filter.
            known: the statistics of the filter, if there are any.
        """
        started = self._clock()
        top_k = max(query.top_k for query in queries)
        estimate = known or FilterStats("", None, {})
        neighbours = estimate.neighbours(top_k)
        found, match_rate = await self._query_and_filter(name, queries, neighbours)
        hits = found.matches
        short = _short(hits, queries)
        matched = sum(len(hits[index].ids) for index in short)
        wider = replace(estimate, match_rate=matched / (neighbours * max(1, len(short)))).neighbours(top_k)
        widened = 0
        if short and neighbours < wider < MAX_NEIGHBOURS:
            more, _ = await self._query_and_filter(name, [queries[index] for index in short], wider)
            for index, replacement in zip(short, more.matches, strict=True):
                hits[index] = replacement
            before = len(short)
            short = _short(hits, queries)
            widened = before - len(short)
        return PostFiltered(found, short, widened, match_rate, self._clock() - started)

    async def _query_and_filter(
        self, name: str, queries: Sequence[Query], neighbours: int
    ) -> tuple[CollectionMatches, float]:
        """Query without the filter, then apply it; return the hits and the match rate."""
        found = await self._inner.query(
            name,
            [replace(query, condition=NO_CONDITION, top_k=neighbours, may_be_short=True) for query in queries],
        )
        matching = [_matching(hits, query.condition.where) for hits, query in zip(found.matches, queries, strict=True)]
        returned = sum(len(hits.ids) for hits in found.matches)
        match_rate = sum(map(len, matching)) / returned if returned else 0.0
        trimmed = [
            _select(hits, indexes[: query.top_k])
            for hits, indexes, query in zip(found.matches, matching, queries, strict=True)
        ]
        return CollectionMatches(found.collection, trimmed), match_rate


def _matching(hits: Matches, where: Where | None) -> list[int]:
    """Indexes of the hits that a filter selects."""
    return [index for index, metadata in enumerate(hits.metadatas) if metadata_filter.matches(where, metadata)]


def _select(hits: Matches, indexes: list[int]) -> Matches:
    """Some of the hits, in their order."""
    return Matches(
        [hits.ids[index] for index in indexes],
        [hits.texts[index] for index in indexes],
        [hits.metadatas[index] for index in indexes],
        [hits.distances[index] for index in indexes],
        None if hits.embeddings is None else hits.embeddings[np.array(indexes, dtype=np.intp)],
    )


def _short(hits: list[Matches], queries: Sequence[Query]) -> list[int]:
    """Indexes of the queries with fewer than `top_k` results."""
    return [index for index, query in enumerate(queries) if len(hits[index].ids) < query.top_k]
