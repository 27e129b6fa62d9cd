"""`FilterPlanningStore`: a store that chooses how a filtered query is run.

There are three strategies. A filter that few documents match is run *exactly*: the embeddings of all matches are read
and compared. Chroma's index loses documents, and this finds them. It also takes less time than Chroma, which walks its
whole graph for such a filter.

For other filters, Chroma's time grows with the number of documents that match: with 60 % of 18,000 documents, a query
takes 15 to 30 times as long as without the filter. *Post-filtering* requests more neighbours without the filter and
applies the filter here; it is faster for a filter that many documents match. *Pre-filtering* lets Chroma apply the
filter; it is faster for a selective one. The faster strategy is learned for each collection and filter from the
measured times. The other one is tried again now and then, since collections change.

Results are as complete as with Chroma's filter. A post-filtered query counts only if it yields `top_k` results.
Otherwise it is repeated with more neighbours, and finally with Chroma's filter.

A collection that is so small that its embeddings are read as fast as Chroma searches is compared exactly, too.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Final

import numpy as np
from prometheus_client import Counter

from ragstore.kit.deferred_metrics import record
from ragstore.model.documents import Selection
from ragstore.model.filters import where as metadata_filter
from ragstore.model.filters.condition import NO_CONDITION
from ragstore.model.filters.where import Where
from ragstore.model.queries import CollectionMatches, FilterKey, Matches, Query, group_by_filter
from ragstore.store.filter_stats import MAX_NEIGHBOURS, NOT_EXACT, FilterStats
from ragstore.store.layer import StoreLayer
from ragstore.store.protocol import Store


class Plan(Enum):
    """How a filtered query was run. The values are those of the metric's label `plan`.

    Attributes:
        EXACT: a comparison with every match.
        POST_FILTER: one post-filtered query.
        WIDENED: a second post-filtered query, with more neighbours, because the first yielded too few results.
        FELL_BACK: Chroma's filter, because post-filtering yielded too few results.
        PRE_FILTER: Chroma's filter, as chosen.
        UNPLANNED: Chroma's filter, because this filter cannot be applied here.
    """

    EXACT = "exact"
    POST_FILTER = "fetch"
    WIDENED = "widened"
    FELL_BACK = "fell_back"
    PRE_FILTER = "filter"
    UNPLANNED = "unplanned"


MAX_EXACT_VALUES: Final = 76_800
"""Maximum numbers of the embeddings that an exact query reads: 200 matches with embeddings of 384.

Measured with 18,000 of these and Chroma 1.5.9 as a server, milliseconds by the number of matches:

| matches | 9 | 36 | 91 | 167 | 353 | 911 |
| --- | --- | --- | --- | --- | --- | --- |
| Chroma's filter | 15.5 | 15.5 | 15.3 | 14.8 | 13.6 | 12.9 |
| exact | 5.3 | 6.2 | 10.0 | 13.2 | 22.3 | 52.0 |

Several queries with one filter read the embeddings once, and Chroma takes 11 ms for each: with four of them, four times
as many are read."""

MAX_EXACT_MATCHES: Final = 1000
"""Maximum number of matches of an exact query, whatever their dimension."""

MAX_SHARED_READS: Final = 4
"""The maximum of an exact query grows with the number of queries that share it, up to this factor."""

SMALL_COLLECTION_VALUES: Final = 6_144
"""Maximum numbers of the embeddings of a collection that is searched exactly without a filter: 16 documents with
embeddings of 384. With these, both ways take 1.5 to 2 ms; with 50, Chroma takes 1.8 ms and reading them 4.2 ms. So few
matches of a filter are read by one call, with their texts."""

MAX_SMALL_COLLECTION: Final = 32
"""Maximum number of documents of such a collection, whatever their dimension."""

MAX_FILTERS: Final = 2000
"""Maximum number of filters that statistics are kept of. The least recently used one is dropped."""

PLANS: Final = Counter("ragstore_filtered_queries_total", "Filtered query vectors, by how they were run.", ["plan"])
_PLANS: Final = {plan: PLANS.labels(plan.value) for plan in Plan}


@dataclass(frozen=True, slots=True)
class PostFiltered:
    """The result of post-filtered queries.

    Attributes:
        found: the hits.
        match_rate: fraction of the requested neighbours that matched.
        pre_filter_seconds: time per query of those that fell back to Chroma's filter; None if there were none.
    """

    found: CollectionMatches
    match_rate: float
    pre_filter_seconds: float | None = None


class FilterPlanningStore(StoreLayer):
    """A store that plans filtered queries; see `Store` for the contract of each method.

    Args:
        inner: the store that is wrapped.
        clock: returns the time in seconds.
        is_exact: whether filters that few documents match, and small collections, are searched exactly.
    """

    def __init__(self, inner: Store, clock: Callable[[], float] = time.perf_counter, *, is_exact: bool = True) -> None:
        super().__init__(inner)
        self._clock = clock
        self._is_exact = is_exact
        self._stats: OrderedDict[tuple[str, FilterKey], FilterStats] = OrderedDict()

    @property
    def stats(self) -> Mapping[tuple[str, FilterKey], FilterStats]:
        """The statistics by collection name and plan key, the least recently used first."""
        return MappingProxyType(self._stats)

    async def query(self, name: str, queries: Sequence[Query]) -> CollectionMatches:
        """Find the nearest documents."""
        groups = group_by_filter(queries)
        hits: list[Matches | None] = [None] * len(queries)
        found: CollectionMatches | None = None
        for key, indexes in groups.items():
            found = await self._query_group(name, key, [queries[index] for index in indexes])
            for index, group_hits in zip(indexes, found.matches, strict=True):
                hits[index] = group_hits
        if found is None:
            return await self._inner.query(name, queries)
        return CollectionMatches(found.collection, [query_hits for query_hits in hits if query_hits is not None])

    async def delete(self, name: str, selection: Selection) -> int:
        """Delete documents. A filter that many documents matched may be one that few match afterwards."""
        deleted = await super().delete(name, selection)
        if deleted:
            for (collection, _), stats in self._stats.items():
                if collection == name:
                    stats.exact_level = None
        return deleted

    async def _query_group(self, name: str, key: FilterKey, queries: list[Query]) -> CollectionMatches:
        """Run queries that have one filter, or none."""
        known = self._stats.get((name, key))
        found = await self._query_exact(name, key, queries, known)
        if found is not None:
            return found
        is_planned = _is_planned(queries[0])
        found = await (self._query_planned(name, key, queries) if is_planned else self._pass(name, queries))
        stats = self._stats_of(name, key, found.collection.id)
        if self._is_exact:
            stats.exact_level = NOT_EXACT
        if not is_planned:
            stats.queries += 1
        return found

    async def _query_exact(
        self, name: str, key: FilterKey, queries: list[Query], known: FilterStats | None
    ) -> CollectionMatches | None:
        """Run queries exactly, if few documents match."""
        if not self._is_exact or queries[0].may_be_short:
            return None
        limits = _exact_limits(queries)
        level = known.next_exact_level if known else None
        if level == NOT_EXACT:
            return None
        condition = queries[0].condition
        if condition.is_none:
            level = 0
        elif condition.where_document is not None:
            level = 1  # One call does everything: a text filter is expensive.
        if level is not None:
            found = await self._inner.query_exact(name, queries, limits[level]) if limits[level] else None
            if found is not None:
                return self._note_exact(name, key, queries, found, level)
            if level == 1 or condition.is_none:
                return None
        # Chroma evaluates a filter over all documents, whatever the limit. So it does it once, for the ids.
        ids = await self._inner.get_ids(name, Selection(condition=condition), limit=limits[1] + 1)
        if len(ids) > limits[1]:
            return None
        found = await self._inner.query_exact(name, queries, limits[1], ids)
        level = 0 if len(ids) <= limits[0] else 1
        return None if found is None else self._note_exact(name, key, queries, found, level)

    def _note_exact(
        self, name: str, key: FilterKey, queries: list[Query], found: CollectionMatches, level: int
    ) -> CollectionMatches:
        self._stats_of(name, key, found.collection.id).exact_level = level
        record(_PLANS[Plan.EXACT].inc, 0 if queries[0].condition.is_none else len(queries))
        return found

    async def _pass(self, name: str, queries: list[Query]) -> CollectionMatches:
        """Pass queries on that have no filter, or one that cannot be applied here."""
        found = await self._inner.query(name, queries)
        record(_PLANS[Plan.UNPLANNED].inc, sum(not query.condition.is_none for query in queries))
        return found

    async def _query_planned(self, name: str, key: FilterKey, queries: list[Query]) -> CollectionMatches:
        """Run queries that have one filter, with the strategy that is faster."""
        known = self._stats.get((name, key))
        strategy = "post_filter" if known is None else known.next_strategy()
        started = self._clock()
        post_filtered: PostFiltered | None = None
        if strategy == "pre_filter":
            found = await self._inner.query(name, queries)
            record(_PLANS[Plan.PRE_FILTER].inc, len(queries))
        else:
            post_filtered = await self._post_filter(name, queries, known)
            found = post_filtered.found
        stats = self._stats_of(name, key, found.collection.id)
        stats.record_seconds(strategy, (self._clock() - started) / len(queries))
        if post_filtered is not None:
            stats.record_match_rate(post_filtered.match_rate)
            if post_filtered.pre_filter_seconds is not None:
                stats.record_seconds("pre_filter", post_filtered.pre_filter_seconds)
        return found

    async def _post_filter(self, name: str, queries: list[Query], known: FilterStats | None) -> PostFiltered:
        """Post-filter queries. Those with too few results are repeated with more neighbours, then with Chroma's filter.

        Args:
            name: the collection.
            queries: queries that have one filter.
            known: the statistics of the filter, if there are any.
        """
        top_k = max(query.top_k for query in queries)
        estimate = known or FilterStats("", None, {})
        neighbours = estimate.neighbours(top_k)
        found, match_rate = await self._query_and_filter(name, queries, neighbours)
        hits = found.matches
        short = _short(hits, queries)
        record(_PLANS[Plan.POST_FILTER].inc, len(queries) - len(short))
        matched = sum(len(hits[index].ids) for index in short)
        wider = replace(estimate, match_rate=matched / (neighbours * max(1, len(short)))).neighbours(top_k)
        if short and neighbours < wider < MAX_NEIGHBOURS:
            more, _ = await self._query_and_filter(name, [queries[index] for index in short], wider)
            _replace(hits, short, more.matches)
            before = len(short)
            short = _short(hits, queries)
            record(_PLANS[Plan.WIDENED].inc, before - len(short))
        if not short:
            return PostFiltered(found, match_rate)
        started = self._clock()
        pre_filtered = await self._inner.query(name, [queries[index] for index in short])
        _replace(hits, short, pre_filtered.matches)
        record(_PLANS[Plan.FELL_BACK].inc, len(short))
        return PostFiltered(found, match_rate, (self._clock() - started) / len(short))

    async def _query_and_filter(
        self, name: str, queries: list[Query], neighbours: int
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

    def _stats_of(self, name: str, key: FilterKey, collection_id: str) -> FilterStats:
        """The statistics of a filter, new ones if there are none, marked as the most recently used."""
        stats = self._stats.get((name, key))
        if stats is None or stats.collection_id != collection_id:
            stats = FilterStats(collection_id, None, {})
        self._stats[(name, key)] = stats
        self._stats.move_to_end((name, key))
        if len(self._stats) > MAX_FILTERS:
            self._stats.popitem(last=False)
        return stats


def _exact_limits(queries: Sequence[Query]) -> tuple[int, int]:
    """Maximum numbers of matches of exact queries, the one to try first at the index 0.

    Args:
        queries: queries that have one filter, or none.
    """
    dimension = len(queries[0].embedding)
    small = min(MAX_SMALL_COLLECTION, SMALL_COLLECTION_VALUES // dimension)
    return small, min(MAX_EXACT_MATCHES, min(len(queries), MAX_SHARED_READS) * MAX_EXACT_VALUES // dimension)


def _is_planned(query: Query) -> bool:
    """Whether there is a choice of strategies: the query has a filter, and it can be applied here."""
    return query.condition.where is not None and query.condition.is_exact_here


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


def _short(hits: list[Matches], queries: list[Query]) -> list[int]:
    """Indexes of the queries with fewer than `top_k` results."""
    return [index for index, query in enumerate(queries) if len(hits[index].ids) < query.top_k]


def _replace(hits: list[Matches], indexes: list[int], replacements: list[Matches]) -> None:
    for index, replacement in zip(indexes, replacements, strict=True):
        hits[index] = replacement
