"""`FilterPlanningStore`: a store that decides how a filtered query is asked.

Chroma's filter costs in proportion to the documents that match: with 60 % of 18,000 it takes 15 to 30 times as long as
the same query without a filter. A filter that many documents match is answered faster by asking for more neighbours
without it, and applying it here; a selective one by Chroma's own. Which of the two ways pays is learned for each
collection and filter, from what each has cost, and tried anew now and then, since collections change.

Nothing is given up for it. What is filtered here counts only when it yields as many results as were asked for;
otherwise more is fetched, and at last Chroma's filter decides.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, get_args

import numpy as np
from prometheus_client import Counter

from ragstore.kit.deferred_metrics import record
from ragstore.model.filters import where as metadata_filter
from ragstore.model.filters.condition import NO_CONDITION
from ragstore.model.filters.grammar import Combination
from ragstore.model.filters.where import Where
from ragstore.model.queries import FilterKey, Found, Hits, Query, group_by_filter
from ragstore.store.layer import StoreLayer
from ragstore.store.protocol import Store

FilterStrategy: TypeAlias = Literal["fetch", "filter"]
"""`fetch`: ask without the filter and apply it here. `filter`: let Chroma apply it."""

Plan: TypeAlias = Literal["fetch", "widened", "fell_back", "filter", "unplanned"]
"""How a filtered query was answered: by one fetch; by a second, larger one; by Chroma's filter after fetching; by
Chroma's filter alone; by Chroma's filter because it cannot be applied here."""

INITIAL_OVERSAMPLING: Final = 4
"""QueryResult fetched for each result wanted, before the share that matches is known."""

MAX_FETCH: Final = 250
"""Most neighbours fetched for one query. More cost more than Chroma's filter."""

EXPLORE_EVERY: Final = 200
"""One query in so many is asked the other way, to learn whether it pays by now."""

EWMA_WEIGHT: Final = 0.8
"""Weight of what was learned before, against what was just seen."""

OUTLIER_CAP: Final = 2.0
"""A cost counts for so many times what was learned at most: one stall of the machine says nothing of a way."""

MAX_FILTERS: Final = 2000
"""Filters remembered. Beyond that the one not asked for longest is forgotten."""

EXACT_DIGITS: Final = 15
"""Digits of a float that Chroma's server reads exactly from JSON (measured with 1.5.9)."""

PLANS: Final = Counter(
    "ragstore_filtered_queries_total", "Filtered query vectors, by how they were answered.", ["plan"]
)
_PLANS: Final = {plan: PLANS.labels(plan) for plan in get_args(Plan)}


@dataclass(slots=True)
class FilterStats:
    """What is known of one filter on one collection.

    Attributes:
        collection_id: the collection; another one of the same name is another matter.
        share: part of the fetched neighbours that match; None before any was fetched.
        costs: seconds a query, by the way it was asked.
        asked: how many queries came.
    """

    collection_id: str
    share: float | None
    costs: dict[FilterStrategy, float]
    asked: int = 0

    def way(self) -> FilterStrategy:
        """Choose how to ask now."""
        self.asked += 1
        if self.asked % EXPLORE_EVERY:
            return self.best
        return "filter" if self.best == "fetch" else "fetch"

    @property
    def best(self) -> FilterStrategy:
        """The way that pays, as far as is known."""
        fetch, filtered = self.costs.get("fetch"), self.costs.get("filter")
        return "fetch" if fetch is None or filtered is None or fetch <= filtered else "filter"

    def neighbours(self, top_k: int) -> int:
        """How many neighbours to fetch, so that enough of them match, most of the time.

        Args:
            top_k: results wanted.

        Returns:
            The expected number and two standard deviations more, `MAX_FETCH` at most, but never less than `top_k`.
        """
        if self.share is None:
            wanted = top_k * INITIAL_OVERSAMPLING
        else:
            wanted = math.ceil((top_k + 2 * math.sqrt(top_k)) / max(self.share, 1 / MAX_FETCH))
        return max(top_k, min(wanted, MAX_FETCH))

    def cost(self, way: FilterStrategy, seconds: float) -> None:
        """Note what a query cost. Of the way that is not in use only the last is known to be true still."""
        before = self.costs.get(way)
        if before is not None and way == self.best:
            seconds = EWMA_WEIGHT * before + (1 - EWMA_WEIGHT) * min(seconds, OUTLIER_CAP * before)
        self.costs[way] = seconds

    def matched(self, share: float) -> None:
        """Note which part of the fetched neighbours matched."""
        self.share = share if self.share is None else EWMA_WEIGHT * self.share + (1 - EWMA_WEIGHT) * share


@dataclass(frozen=True, slots=True)
class Fetched:
    """What fetching came to.

    Attributes:
        found: the answers.
        share: part of the fetched neighbours that matched.
        filter_cost: seconds a query that Chroma's filter took, where it had to decide.
    """

    found: Found
    share: float
    filter_cost: float | None = None


class FilterPlanningStore(StoreLayer):
    """A store that plans filtered queries; see `Store` for what each method promises.

    Args:
        inner: the store that is wrapped.
        clock: tells the time in seconds.
    """

    def __init__(self, inner: Store, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__(inner)
        self._clock = clock
        self._learned: OrderedDict[tuple[str, FilterKey], FilterStats] = OrderedDict()

    async def query(self, name: str, queries: Sequence[Query]) -> Found:
        """Find the nearest documents."""
        groups = group_by_filter(queries)
        hits: list[Hits | None] = [None] * len(queries)
        found: Found | None = None
        for key, places in groups.items():
            group = [queries[place] for place in places]
            found = await (self._planned(name, key, group) if _is_planned(group[0]) else self._passed_on(name, group))
            for place, answer in zip(places, found.hits, strict=True):
                hits[place] = answer
        if found is None:
            return await self._inner.query(name, queries)
        return Found(found.collection, [answer for answer in hits if answer is not None])

    async def _passed_on(self, name: str, queries: list[Query]) -> Found:
        """Ask queries whose filter, if any, is none to plan with."""
        found = await self._inner.query(name, queries)
        record(_PLANS["unplanned"].inc, sum(not query.condition.is_none for query in queries))
        return found

    async def _planned(self, name: str, key: FilterKey, queries: list[Query]) -> Found:
        """Ask queries with one filter, in the way that pays."""
        known = self._learned.get((name, key))
        way = "fetch" if known is None else known.way()
        started = self._clock()
        fetched: Fetched | None = None
        if way == "filter":
            found = await self._inner.query(name, queries)
            record(_PLANS["filter"].inc, len(queries))
        else:
            fetched = await self._fetched(name, queries, known)
            found = fetched.found
        learned = self._remembered(name, key, found.collection.id)
        learned.cost(way, (self._clock() - started) / len(queries))
        if fetched is not None:
            learned.matched(fetched.share)
            if fetched.filter_cost is not None:
                learned.cost("filter", fetched.filter_cost)
        return found

    async def _fetched(self, name: str, queries: list[Query], known: FilterStats | None) -> Fetched:
        """Ask without the filter and apply it here; then again for more, then with it, where too few came.

        Args:
            name: the collection.
            queries: queries with one filter.
            known: what was learned of the filter.

        Returns:
            What was found, and what it taught.
        """
        top_k = max(query.top_k for query in queries)
        estimate = known or FilterStats("", None, {})
        neighbours = estimate.neighbours(top_k)
        found, share = await self._fetch(name, queries, neighbours)
        hits = found.hits
        short = _short(hits, queries)
        record(_PLANS["fetch"].inc, len(queries) - len(short))
        came = sum(len(hits[place].ids) for place in short)
        wider = replace(estimate, share=came / (neighbours * max(1, len(short)))).neighbours(top_k)
        if short and neighbours < wider < MAX_FETCH:
            more, _ = await self._fetch(name, [queries[place] for place in short], wider)
            _fill(hits, short, more.hits)
            before = len(short)
            short = _short(hits, queries)
            record(_PLANS["widened"].inc, before - len(short))
        if not short:
            return Fetched(found, share)
        started = self._clock()
        decided = await self._inner.query(name, [queries[place] for place in short])
        _fill(hits, short, decided.hits)
        record(_PLANS["fell_back"].inc, len(short))
        return Fetched(found, share, (self._clock() - started) / len(short))

    async def _fetch(self, name: str, queries: list[Query], neighbours: int) -> tuple[Found, float]:
        """Ask for neighbours without the filter, and keep what it selects."""
        found = await self._inner.query(
            name, [replace(query, condition=NO_CONDITION, top_k=neighbours) for query in queries]
        )
        kept = [_kept(hits, query.condition.where) for hits, query in zip(found.hits, queries, strict=True)]
        fetched = sum(len(hits.ids) for hits in found.hits)
        share = sum(map(len, kept)) / fetched if fetched else 0.0
        trimmed = [
            _taken(hits, places[: query.top_k]) for hits, places, query in zip(found.hits, kept, queries, strict=True)
        ]
        return Found(found.collection, trimmed), share

    def _remembered(self, name: str, key: FilterKey, collection_id: str) -> FilterStats:
        """What is known of a filter, from now on."""
        learned = self._learned.get((name, key))
        if learned is None or learned.collection_id != collection_id:
            learned = FilterStats(collection_id, None, {})
        self._learned[(name, key)] = learned
        self._learned.move_to_end((name, key))
        if len(self._learned) > MAX_FILTERS:
            self._learned.popitem(last=False)
        return learned


def _is_planned(query: Query) -> bool:
    """Whether there is a choice: a filter that can be applied here."""
    condition = query.condition
    return condition.where is not None and condition.where_document is None and _is_exact(condition.where)


def _is_exact(where: Where) -> bool:
    """Whether a filter means the same here and there.

    Chroma's server reads floats of many digits inexactly, those of documents and those of filters alike, so that they
    are equal there and need not be equal here.
    """
    if isinstance(where, Combination):
        return all(_is_exact(clause) for clause in where.clauses)
    operands = where.operand if isinstance(where.operand, tuple) else (where.operand,)
    return all(len(_digits(operand)) <= EXACT_DIGITS for operand in operands if isinstance(operand, float))


def _digits(number: float) -> str:
    return repr(abs(number)).partition("e")[0].replace(".", "").strip("0")


def _kept(hits: Hits, where: Where | None) -> list[int]:
    """Places of the hits that a filter selects."""
    return [place for place, metadata in enumerate(hits.metadatas) if metadata_filter.matches(where, metadata)]


def _taken(hits: Hits, places: list[int]) -> Hits:
    """Some of the hits, in their order."""
    return Hits(
        [hits.ids[place] for place in places],
        [hits.texts[place] for place in places],
        [hits.metadatas[place] for place in places],
        [hits.distances[place] for place in places],
        None if hits.embeddings is None else hits.embeddings[np.array(places, dtype=np.intp)],
    )


def _short(hits: list[Hits], queries: list[Query]) -> list[int]:
    """Places of the queries that got less than they asked for."""
    return [place for place, query in enumerate(queries) if len(hits[place].ids) < query.top_k]


def _fill(hits: list[Hits], places: list[int], answers: list[Hits]) -> None:
    for place, answer in zip(places, answers, strict=True):
        hits[place] = answer
