"""The order of hits: by score, then by id, with one meaning of score for every engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

import numpy as np

from ragstore_gateway.vector_stores.vector_store import MAX_HITS, Hit, Vector

DECIMALS: Final = 6
"""Decimals of a score. Engines compute with float32, in different orders: their results differ in the seventh."""

MAX_FETCHED: Final = 10_000
"""Maximum number of records that an engine returns for one search, however many have the same score."""


def relevance(cosine: float) -> float:
    """The relevance of a cosine: (1 + cosine) / 2, within 0 and 1."""
    return round(min(max((1.0 + cosine) / 2, 0.0), 1.0), DECIMALS)


def cosine_relevance(query: Vector, embedding: Sequence[float] | Vector) -> float:
    """The relevance of a record whose vector was read.

    Args:
        query: the vector of the question, of length 1 or zeros.
        embedding: the vector of the record, likewise.
    """
    return relevance(float(query @ np.asarray(embedding, dtype=np.float32)))


def ranked(hits: Iterable[Hit], limit: int, min_score: float) -> list[Hit]:
    """The best hits.

    Args:
        hits: hits in any order.
        limit: maximum number of hits.
        min_score: minimum relevance.
    """
    kept = (hit for hit in hits if hit.score >= min_score)
    return sorted(kept, key=lambda hit: (-hit.score, hit.id))[:limit]


async def search_ranked(
    fetch: Callable[[int], Awaitable[list[Hit]]], limit: int, min_score: float, max_fetched: int = MAX_FETCHED
) -> list[Hit]:
    """Search an engine that returns records of the same score in any order.

    One record more than needed is fetched. While its score equals the score of the last hit, other records may have
    the same score and a smaller id, so more are fetched.

    Args:
        fetch: returns the given number of nearest records, or all if there are fewer.
        limit: maximum number of hits.
        min_score: minimum relevance.
        max_fetched: maximum number of records that the engine returns.
    """
    limit = min(limit, MAX_HITS)
    if limit < 1:
        return []
    size = min(limit + 1, max_fetched)
    while True:
        found = await fetch(size)
        best = ranked(found, limit, min_score)
        worst = min((hit.score for hit in found), default=0.0)
        if len(found) < size or size >= max_fetched or worst < max(min_score, best[-1].score if best else 0.0):
            return best
        size = min(size * 2, max_fetched)
