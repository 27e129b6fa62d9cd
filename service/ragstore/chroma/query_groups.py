"""Groups queries into calls to Chroma."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ragstore.model.queries import Query, group_by_filter

MAX_RESULTS: Final = 32_000
"""Maximum results of all query vectors of one call. Chroma reads their metadata in one SQL statement, and fails with
more than 32,766 of them (measured with 1.5.9)."""


def group_for_calls(queries: Sequence[Query]) -> Iterator[list[int]]:
    """Group queries with the same filter and columns, with at most `MAX_RESULTS` results in a group.

    Args:
        queries: queries on one collection.

    Yields:
        The indexes of the queries of one call.
    """
    for indexes in group_by_filter(queries).values():
        size = max(1, MAX_RESULTS // max(queries[index].top_k for index in indexes))
        for start in range(0, len(indexes), size):
            yield indexes[start : start + size]
