"""`FilterStats`: the statistics by which a filtered query is planned."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

FilterStrategy: TypeAlias = Literal["post_filter", "pre_filter"]
"""`post_filter`: query without the filter and apply it here. `pre_filter`: let Chroma apply it."""

INITIAL_OVERSAMPLING: Final = 4
"""Neighbours to request for each result, while the match rate of the filter is unknown."""

MAX_NEIGHBOURS: Final = 250
"""Maximum number of neighbours of a post-filtered query, unless `top_k` is larger. More cost more than Chroma's
filter."""

NOT_EXACT: Final = 3
"""The level of filters that many documents match."""

EXPLORE_EVERY: Final = 200
"""Each 200th query of a plan uses the strategy that seems slower, to learn whether it still is."""

EWMA_DECAY: Final = 0.8
"""Weight of the previous average in the exponentially weighted moving averages of times and match rates. The latest
value has the weight 0.2."""

OUTLIER_CAP: Final = 2.0
"""A time is capped at this multiple of the average before it is averaged: one stall of the machine is no property of
a strategy."""


@dataclass(slots=True)
class FilterStats:
    """Statistics of one filter on one collection.

    Attributes:
        collection_id: the collection's id. A new collection of the same name has another one.
        match_rate: fraction of the requested neighbours that match; None before the first post-filtered query.
        seconds: time per query, by strategy.
        queries: number of queries so far.
        exact_level: index of the limit of matches that an exact query is run with; `NOT_EXACT` if more match; None if
            it is unknown.
    """

    collection_id: str
    match_rate: float | None
    seconds: dict[FilterStrategy, float]
    queries: int = 0
    exact_level: int | None = None

    @property
    def next_exact_level(self) -> int | None:
        """The level of the next query; `NOT_EXACT` for none, None if it is to be found out. It is repeated."""
        is_due = (self.queries + EXPLORE_EVERY // 2) % EXPLORE_EVERY == 0
        return None if is_due else self.exact_level

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

    def is_enough(self, top_k: int) -> bool:
        """Whether enough of the neighbours that post-filtering requests are expected to match.

        Args:
            top_k: number of results.
        """
        return self.neighbours(top_k) < MAX_NEIGHBOURS

    def expect(self, match_rate: float, top_k: int) -> None:
        """Set a match rate before post-filtering was tried. It is not tried soon if it would yield too few results.

        Args:
            match_rate: fraction of the collection's documents that match.
            top_k: number of results.
        """
        self.match_rate = match_rate
        if not self.is_enough(top_k):
            self.seconds["post_filter"] = math.inf

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
