"""`NewFilters`: what the latest new filters of a collection show about the next one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ragstore.store.filter_stats import FilterStats
from ragstore.store.post_filter import PostFiltered

COUNT_EVERY: Final = 100
"""New filters of a collection after which its documents are counted again. Chroma counts 200,000 in 20 ms."""

MAX_DOCUMENTS: Final = 10_000
"""Maximum number of documents of a collection whose new filters are expected to be like the latest ones, so that the
embeddings of the matches are read without reading their ids before. In larger collections, that call is a small part of
the time, and Chroma would evaluate a filter that many documents match once more."""

EXPECT_FEW_AFTER: Final = 4
"""Number of new filters in a row that few documents match, after which few are expected to match the next one. If more
do, up to 201 embeddings were read in vain: of 384, that takes 9 ms, where reading the ids takes 1 to 4."""

Matching: TypeAlias = Literal["few", "some", "many"]
"""How many documents match a filter: few enough for an exact query, too few for post-filtering, or enough for it."""


@dataclass(frozen=True, slots=True)
class NewFilters:
    """The new filters of a collection. The next one is expected to be like them.

    Attributes:
        latest: how many documents matched the latest one.
        few_in_a_row: number of the latest ones, in a row, that few documents matched.
        match_rate: fraction of the documents that matched, averaged over the filters that many documents matched, with
            half the weight for the latest one; None if there was none.
        documents: number of documents of the collection, as of one of the last `COUNT_EVERY` new filters.
        count: number of new filters.
    """

    latest: Matching = "few"
    few_in_a_row: int = 0
    match_rate: float | None = None
    documents: int = 0
    count: int = 0

    @property
    def is_count_due(self) -> bool:
        """Whether the documents of the collection are to be counted."""
        return self.count % COUNT_EVERY == 0

    @property
    def expects_few(self) -> bool:
        """Whether few documents are expected to match the next one, in a collection that is small."""
        is_known_small = 0 < self.documents <= MAX_DOCUMENTS
        return is_known_small and self.few_in_a_row >= EXPECT_FEW_AFTER and not self.is_count_due

    def stats(self, top_k: int) -> FilterStats | None:
        """Statistics for the next one; None if too few of its neighbours are expected to match."""
        expected = FilterStats("", self.match_rate, {})
        return expected if expected.is_enough(top_k) else None

    def with_next(self, matching: Matching, match_rate: float | None, documents: int) -> NewFilters:
        """These and a further one."""
        if matching != "many" or match_rate is None:
            match_rate = self.match_rate
        elif self.match_rate is not None:
            match_rate = (self.match_rate + match_rate) / 2
        few_in_a_row = self.few_in_a_row + 1 if matching == "few" else 0
        return NewFilters(matching, few_in_a_row, match_rate, documents, self.count + 1)


@dataclass(frozen=True, slots=True)
class NewFilter:
    """The matches of a new filter.

    Attributes:
        ids: ids of all matches; None if there are too many.
        seconds: time that it took Chroma to evaluate the filter for them.
        match_rate: fraction of the documents that match; None if it is unknown.
        post_filtered: the results of post-filtering, if it was tried meanwhile.
    """

    ids: list[str] | None
    seconds: float
    match_rate: float | None
    post_filtered: PostFiltered | None
