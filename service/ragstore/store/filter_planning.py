"""`FilterPlanningStore`: a store that chooses how a filtered query is run.

Chroma's filter costs in proportion to the number of documents that match: with 60 % of 18,000 documents, a query takes
15 to 30 times as long as without the filter. There are two strategies. *Post-filtering* requests more neighbours
without the filter and applies the filter here; it is faster for a filter that many documents match. *Pre-filtering*
lets Chroma apply the filter; it is faster for a selective one. The faster strategy is learned for each collection and
filter from the measured times. The other one is tried again now and then, since collections change.

Results are as complete as with Chroma's filter. A post-filtered query counts only if it yields `top_k` results.
Otherwise it is repeated with more neighbours, and finally with Chroma's filter.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import numpy as np
from prometheus_client import Counter

from ragstore.kit.deferred_metrics import record
from ragstore.model.filters import where as metadata_filter
from ragstore.model.filters.condition import NO_CONDITION
from ragstore.model.filters.grammar import Combination
from ragstore.model.filters.where import Where
from ragstore.model.queries import CollectionMatches, FilterKey, Matches, Query, group_by_filter
from ragstore.store.layer import StoreLayer
from ragstore.store.protocol import Store

FilterStrategy: TypeAlias = Literal["post_filter", "pre_filter"]
"""`post_filter`: query without the filter and apply it here. `pre_filter`: let Chroma apply it."""


class Plan(Enum):
    """How a filtered query was run. The values are those of the metric's label `plan`.

    Attributes:
        POST_FILTER: one post-filtered query.
        WIDENED: a second post-filtered query, with more neighbours, because the first yielded too few results.
        FELL_BACK: Chroma's filter, because post-filtering yielded too few results.
        PRE_FILTER: Chroma's filter, as chosen.
        UNPLANNED: Chroma's filter, because this filter cannot be applied here.
    """

    POST_FILTER = "fetch"
    WIDENED = "widened"
    FELL_BACK = "fell_back"
    PRE_FILTER = "filter"
    UNPLANNED = "unplanned"


INITIAL_OVERSAMPLING: Final = 4
"""Neighbours to request for each result, while the match rate of the filter is unknown."""

MAX_NEIGHBOURS: Final = 250
"""Maximum number of neighbours of a post-filtered query, unless `top_k` is larger. More cost more than Chroma's
filter."""

EXPLORE_EVERY: Final = 200
"""Each 200th query of a plan uses the strategy that seems slower, to learn whether it still is."""

EWMA_DECAY: Final = 0.8
"""Weight of the previous average in the exponentially weighted moving averages of times and match rates. The latest
value has the weight 0.2."""

OUTLIER_CAP: Final = 2.0
"""A time is capped at this multiple of the average before it is averaged: one stall of the machine is no property of
a strategy."""

MAX_FILTERS: Final = 2000
"""Maximum number of filters that statistics are kept of. The least recently used one is dropped."""

MAX_EXACT_DIGITS: Final = 15
"""Maximum number of digits of a float that Chroma's server reads exactly from JSON (measured with 1.5.9)."""

PLANS: Final = Counter("ragstore_filtered_queries_total", "Filtered query vectors, by how they were run.", ["plan"])
_PLANS: Final = {plan: PLANS.labels(plan.value) for plan in Plan}


@dataclass(slots=True)
class FilterStats:
    """Statistics of one filter on one collection.

    Attributes:
        collection_id: the collection's id. A new collection of the same name has another one.
        match_rate: fraction of the requested neighbours that match; None before the first post-filtered query.
        seconds: time per query, by strategy.
        queries: number of queries so far.
    """

    collection_id: str
    match_rate: float | None
    seconds: dict[FilterStrategy, float]
    queries: int = 0

    def next_strategy(self) -> FilterStrategy:
        """Choose the strategy of the next query."""
        self.queries += 1
        if self.queries % EXPLORE_EVERY:
            return self.faster
        return "pre_filter" if self.faster == "post_filter" else "post_filter"

    @property
    def faster(self) -> FilterStrategy:
        """The faster strategy, as far as is known."""
        post_filter, pre_filter = self.seconds.get("post_filter"), self.seconds.get("pre_filter")
        is_post = post_filter is None or pre_filter is None or post_filter <= pre_filter
        return "post_filter" if is_post else "pre_filter"

    def neighbours(self, top_k: int) -> int:
        """The number of neighbours to request, so that enough of them match in most cases.

        Args:
            top_k: number of results.

        Returns:
            The expected number and two standard deviations more, at most `MAX_NEIGHBOURS`, but at least `top_k`.
        """
        if self.match_rate is None:
            wanted = top_k * INITIAL_OVERSAMPLING
        else:
            wanted = math.ceil((top_k + 2 * math.sqrt(top_k)) / max(self.match_rate, 1 / MAX_NEIGHBOURS))
        return max(top_k, min(wanted, MAX_NEIGHBOURS))

    def record_seconds(self, strategy: FilterStrategy, seconds: float) -> None:
        """Record the time of a query.

        The times of the faster strategy are averaged. Of the other one, which is tried rarely, only the latest time is
        kept: earlier ones may be out of date.
        """
        average = self.seconds.get(strategy)
        if average is not None and strategy == self.faster:
            seconds = EWMA_DECAY * average + (1 - EWMA_DECAY) * min(seconds, OUTLIER_CAP * average)
        self.seconds[strategy] = seconds

    def record_match_rate(self, rate: float) -> None:
        """Record the fraction of the requested neighbours that matched."""
        average = self.match_rate
        self.match_rate = rate if average is None else EWMA_DECAY * average + (1 - EWMA_DECAY) * rate


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
    """

    def __init__(self, inner: Store, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__(inner)
        self._clock = clock
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
            group = [queries[index] for index in indexes]
            found = await (self._query_planned(name, key, group) if _is_planned(group[0]) else self._pass(name, group))
            for index, group_hits in zip(indexes, found.matches, strict=True):
                hits[index] = group_hits
        if found is None:
            return await self._inner.query(name, queries)
        return CollectionMatches(found.collection, [query_hits for query_hits in hits if query_hits is not None])

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
            name, [replace(query, condition=NO_CONDITION, top_k=neighbours) for query in queries]
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


def _is_planned(query: Query) -> bool:
    """Whether there is a choice of strategies: the query has a filter, and it can be applied here."""
    condition = query.condition
    return condition.where is not None and condition.where_document is None and _is_exact(condition.where)


def _is_exact(where: Where) -> bool:
    """Whether a filter selects the same documents here and in Chroma.

    Chroma's server reads floats with many digits inexactly, in documents and in filters, so that two floats may be
    equal there and different here.
    """
    if isinstance(where, Combination):
        return all(_is_exact(clause) for clause in where.clauses)
    operands = where.operand if isinstance(where.operand, tuple) else (where.operand,)
    return all(len(_digits(operand)) <= MAX_EXACT_DIGITS for operand in operands if isinstance(operand, float))


def _digits(number: float) -> str:
    return repr(abs(number)).partition("e")[0].replace(".", "").strip("0")


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
