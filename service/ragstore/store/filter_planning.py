"""`FilterPlanningStore`: a store that chooses how a filtered query is run.

There are three strategies. A filter that few documents match is run *exactly*: the embeddings of all matches are read
and compared. Chroma's index loses documents, and this finds them. In collections of more than 10,000 documents it also
takes less time than Chroma, which walks its whole graph for such a filter.

For other filters, Chroma's time grows with the number of documents that match: with 60 % of 18,000 documents, a query
takes 15 to 30 times as long as without the filter. *Post-filtering* requests more neighbours without the filter and
applies the filter here; it is faster for a filter that many documents match. *Pre-filtering* lets Chroma apply the
filter; it is faster for a selective one. The faster strategy is learned for each collection and filter from the
measured times. The other one is tried again now and then, since collections change.

Results are as complete as with Chroma's filter. A post-filtered query counts only if it yields `top_k` results.
Otherwise it is repeated with more neighbours, and finally with Chroma's filter.

Evaluating a filter is most of the time of a filtered query: Chroma looks at all documents of the collection. For a new
filter this is done once, for the ids of the matches. Few matches are read by their ids. Of more, Chroma searches the
nearest by their ids, which is what it does itself after it has evaluated the filter. Their share of all documents shows
whether post-filtering is worth a try for the next query.

A collection that is so small that its embeddings are read as fast as Chroma searches is compared exactly, too.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from types import MappingProxyType
from typing import Final

from prometheus_client import Counter

from ragstore.kit.deferred_metrics import record
from ragstore.model.documents import Selection
from ragstore.model.queries import CollectionMatches, FilterKey, Matches, Query, group_by_filter
from ragstore.store.filter_stats import NOT_EXACT, FilterStats, FilterStrategy
from ragstore.store.layer import StoreLayer
from ragstore.store.new_filters import Matching, NewFilter, NewFilters
from ragstore.store.post_filter import PostFilter, PostFiltered
from ragstore.store.protocol import Store


class Plan(Enum):
    """How a filtered query was run. The metric's label `plan` has these values.

    Attributes:
        EXACT: a comparison with every match.
        POST_FILTER: one post-filtered query.
        WIDENED: a second post-filtered query, with more neighbours, because the first yielded too few results.
        FELL_BACK: Chroma's filter, or a search by the matches' ids, because post-filtering yielded too few results.
        PRE_FILTER: Chroma's filter, or a search by the matches' ids, as chosen.
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

MEDIUM_VALUES: Final = MAX_EXACT_VALUES // 4
"""Numbers of the embeddings of an exact query whose filter matched fewer documents before: 50 with embeddings of 384.
The texts of so many matches are more often short enough to be read with their embeddings, in one call."""

MAX_SHARED_READS: Final = 4
"""The maximum of an exact query grows with the number of queries that share it, up to this factor."""

SMALL_COLLECTION_VALUES: Final = 6_144
"""Maximum numbers of the embeddings of a collection that is searched exactly without a filter: 16 documents with
embeddings of 384. With these, both ways take 1.5 to 2 ms; with 50, Chroma takes 1.8 ms and reading them 4.2 ms. So few
matches of a filter are read by one call with their texts, unless these are long."""

MAX_SMALL_COLLECTION: Final = 32
"""Maximum number of documents of such a collection, whatever their dimension."""

MAX_MATCHING_IDS: Final = 10_000
"""Maximum number of matches of a new filter that are searched by their ids. Chroma takes 2.5 microseconds for each id,
also where it turns out that more documents match. It takes 45 ms to evaluate a filter over 200,000 documents, and 13 ms
to search 3,000 of them by their ids (1.5.9)."""

MAX_FILTERS: Final = 2000
"""Maximum number of filters that statistics are kept of. The least recently used one is dropped."""

PLANS: Final = Counter("ragstore_filtered_queries_total", "Filtered query vectors, by how they were run.", ["plan"])
_PLANS: Final = {plan: PLANS.labels(plan.value) for plan in Plan}


class FilterPlanningStore(StoreLayer):
    """A store that plans filtered queries; see `Store` for the contract of each method.

    Args:
        inner: the store that is wrapped.
        clock: returns the time in seconds.
        is_exact: whether filters that few documents match, and small collections, are searched exactly.
        max_ids: returns the maximum number of ids of one call to Chroma.
    """

    def __init__(
        self,
        inner: Store,
        clock: Callable[[], float] = time.perf_counter,
        *,
        is_exact: bool = True,
        max_ids: Callable[[], int] = lambda: MAX_MATCHING_IDS,
    ) -> None:
        super().__init__(inner)
        self._max_ids = max_ids
        self._clock = clock
        self._is_exact = is_exact
        self._post_filter = PostFilter(inner, clock)
        self._stats: OrderedDict[tuple[str, FilterKey], FilterStats] = OrderedDict()
        self._new_filters: dict[str, NewFilters] = {}

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
        is_planned = _is_planned(queries[0])
        new: NewFilter | None = None
        if self._is_exact and not queries[0].may_be_short:
            limits = _exact_limits(queries)
            level = _level(queries[0], known)
            if level is not None and level < NOT_EXACT and limits[level]:
                found = await self._inner.query_exact(name, queries, limits[level])
                if found is not None:
                    return self._note_exact(name, key, queries, found, level)
            if level is not None and level < NOT_EXACT - 1 and not queries[0].condition.is_none:
                level = None
            if level is None:
                found = await self._expecting_few(name, queries, known, limits[-1])
                if found is None:
                    new = await self._look(name, queries, known, limits[-1])
                    if new.ids is not None and len(new.ids) <= limits[-1]:
                        found = await self._inner.query_exact(name, queries, limits[-1], new.ids)
                if found is not None:
                    return self._note_exact(name, key, queries, found, bisect_left(limits, found.compared))
        found = await (self._query_planned(name, key, queries, new) if is_planned else self._pass(name, queries))
        stats = self._stats_of(name, key, found.collection.id)
        if self._is_exact:
            stats.exact_level = NOT_EXACT
        if not is_planned:
            stats.queries += 1
        return found

    async def _expecting_few(
        self, name: str, queries: list[Query], known: FilterStats | None, max_exact_matches: int
    ) -> CollectionMatches | None:
        """Run queries with a new filter exactly, without the ids of its matches.

        Returns:
            The results; None if few matches are not to be expected, or more documents match.
        """
        earlier = self._new_filters.get(name)
        if earlier is None or known is not None or not _is_planned(queries[0]) or not earlier.expects_few:
            return None
        found = await self._inner.query_exact(name, queries, max_exact_matches)
        if found is not None:
            self._remember(name, earlier.with_next("few", None, earlier.documents))
        return found

    async def _look(
        self, name: str, queries: list[Query], known: FilterStats | None, max_exact_matches: int
    ) -> NewFilter:
        """Read the ids of all matches of a filter, unless there are too many.

        Chroma evaluates a filter over all documents, whatever the limit, so this is done once. If post-filtering
        sufficed for the collection's last new filter, it is tried meanwhile, and no more ids are read than show that
        there are too many matches for an exact query.
        """
        is_planned = _is_planned(queries[0])
        earlier = self._new_filters.get(name, NewFilters())
        expects_many = is_planned and earlier.latest == "many"
        limit = max_exact_matches
        if is_planned and not expects_many:
            limit = max(limit, min(MAX_MATCHING_IDS, self._max_ids()))
        selection = Selection(condition=queries[0].condition)
        top_k = max(query.top_k for query in queries)
        started = self._clock()

        async def read() -> tuple[list[str], float]:
            ids = await self._inner.get_ids(name, selection, limit=limit + 1)
            return ids, self._clock() - started

        post_filtered: PostFiltered | None = None
        documents = earlier.documents
        if expects_many and known is None:
            (ids, seconds), post_filtered = await asyncio.gather(
                read(), self._post_filter.query(name, queries, earlier.stats(top_k))
            )
        elif is_planned and earlier.is_count_due:
            (ids, seconds), documents = await asyncio.gather(read(), self._inner.count(name))
        else:
            ids, seconds = await read()
        is_whole = len(ids) <= limit
        match_rate = len(ids) / max(documents, len(ids), 1) if is_whole else None
        if is_planned:
            if post_filtered is not None:
                is_enough, match_rate = not post_filtered.short, post_filtered.match_rate
            else:
                is_enough = match_rate is None or FilterStats("", match_rate, {}).is_enough(top_k)
            matching: Matching = "few" if len(ids) <= max_exact_matches else "many" if is_enough else "some"
            self._remember(name, earlier.with_next(matching, match_rate, documents))
        return NewFilter(ids if is_whole else None, seconds, match_rate, post_filtered)

    def _remember(self, name: str, filters: NewFilters) -> None:
        """Remember the new filters of a collection."""
        if len(self._new_filters) >= MAX_FILTERS:
            self._new_filters.clear()
        self._new_filters[name] = filters

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

    async def _query_planned(
        self, name: str, key: FilterKey, queries: list[Query], new: NewFilter | None
    ) -> CollectionMatches:
        """Run queries that have one filter, with the strategy that is faster."""
        known = self._stats.get((name, key))
        tried = None if new is None else new.post_filtered
        strategy: FilterStrategy = "post_filter" if known is None else known.next_strategy()
        if known is None and tried is None and new is not None and new.ids is not None:
            strategy = "pre_filter"  # the greater part of it is done
        if strategy == "pre_filter":
            found, seconds = await self._pre_filter(name, queries, new)
            record(_PLANS[Plan.PRE_FILTER].inc, len(queries))
            stats = self._stats_of(name, key, found.collection.id)
            stats.record_seconds(strategy, seconds / len(queries))
            if known is None and new is not None and new.match_rate is not None:
                stats.expect(new.match_rate, max(query.top_k for query in queries))
            return found
        if tried is None:
            tried = await self._post_filter.query(name, queries, known)
        found, seconds, short = tried.found, tried.seconds, tried.short
        pre_filter_seconds = 0.0
        if short:
            pre_filtered, pre_filter_seconds = await self._pre_filter(name, [queries[index] for index in short], new)
            for index, hits in zip(short, pre_filtered.matches, strict=True):
                found.matches[index] = hits
        record(_PLANS[Plan.POST_FILTER].inc, len(queries) - len(short) - tried.widened)
        record(_PLANS[Plan.WIDENED].inc, tried.widened)
        record(_PLANS[Plan.FELL_BACK].inc, len(short))
        stats = self._stats_of(name, key, found.collection.id)
        stats.record_seconds(strategy, (seconds + pre_filter_seconds) / len(queries))
        stats.record_match_rate(tried.match_rate)
        if short:
            stats.record_seconds("pre_filter", pre_filter_seconds / len(short))
        return found

    async def _pre_filter(
        self, name: str, queries: list[Query], new: NewFilter | None
    ) -> tuple[CollectionMatches, float]:
        """Let Chroma apply the filter, or search the matches if their ids are known.

        Returns:
            The hits, and the time that it takes Chroma, with the evaluation of the filter.
        """
        started = self._clock()
        seconds = 0.0
        if new is not None and new.ids is not None:
            queries = [replace(query, matching_ids=new.ids) for query in queries]
            seconds = new.seconds
        found = await self._inner.query(name, queries)
        return found, self._clock() - started + seconds

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


def _exact_limits(queries: Sequence[Query]) -> tuple[int, int, int]:
    """Maximum numbers of matches of exact queries, by level, in ascending order.

    Args:
        queries: queries that have one filter, or none.
    """
    dimension = len(queries[0].embedding)
    small = min(MAX_SMALL_COLLECTION, SMALL_COLLECTION_VALUES // dimension)
    medium = min(MAX_EXACT_MATCHES, MEDIUM_VALUES // dimension)
    return small, medium, min(MAX_EXACT_MATCHES, min(len(queries), MAX_SHARED_READS) * MAX_EXACT_VALUES // dimension)


def _level(query: Query, known: FilterStats | None) -> int | None:
    """The level of an exact query; `NOT_EXACT` for none, None if it is to be found out."""
    level = known.next_exact_level if known else None
    if level == NOT_EXACT:
        return level
    if query.condition.is_none:
        return 0
    # One call does everything: a text filter is expensive.
    return level if query.condition.where_document is None else NOT_EXACT - 1


def _is_planned(query: Query) -> bool:
    """Whether there is a choice of strategies: the query has a filter, and it can be applied here."""
    return query.condition.where is not None and query.condition.is_exact_here
