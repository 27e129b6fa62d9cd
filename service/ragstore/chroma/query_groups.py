"""Which queries leave for Chroma in one call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ragstore.model.queries import Query

MAX_RESULTS: Final = 32_000
"""Results of all query vectors of one call. Chroma reads their metadata in one SQL statement, and fails with more than
32,766 of them (measured with 1.5.9)."""


def in_calls(queries: Sequence[Query]) -> Iterator[list[int]]:
    """Group queries with the same filters and columns, with no more than `MAX_RESULTS` in a group.

    Args:
        queries: queries on one collection.

    Yields:
        The positions of the queries of one call.
    """
    groups: dict[tuple[bytes, bool], list[int]] = {}
    for position, query in enumerate(queries):
        groups.setdefault((query.condition.key, query.with_embeddings), []).append(position)
    for positions in groups.values():
        size = max(1, MAX_RESULTS // max(queries[position].top_k for position in positions))
        for start in range(0, len(positions), size):
            yield positions[start : start + size]
