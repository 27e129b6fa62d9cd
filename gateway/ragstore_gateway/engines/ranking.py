"""The order of passages: by relevance, then by id, with one meaning of relevance for every engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

import numpy as np

from ragstore_gateway.engines.engine_collection import MAX_PASSAGES, Passage, Vector

DECIMALS: Final = 6
"""Decimals of a relevance. Engines compute with float32, in different orders: their results differ in the seventh."""

MAX_FETCHED: Final = 10_000
"""Maximum number of records that an engine returns for one search, however many are equally relevant."""


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


def ranked(passages: Iterable[Passage], limit: int, min_relevance: float) -> list[Passage]:
    """The best passages.

    Args:
        passages: passages in any order.
        limit: maximum number of passages.
        min_relevance: minimum relevance.
    """
    kept = (passage for passage in passages if passage.relevance >= min_relevance)
    return sorted(kept, key=lambda passage: (-passage.relevance, passage.id))[:limit]


async def search_ranked(
    fetch: Callable[[int], Awaitable[list[Passage]]], limit: int, min_relevance: float, max_fetched: int = MAX_FETCHED
) -> list[Passage]:
    """Search an engine that returns equally relevant records in any order.

    One record more than needed is fetched. While it is as relevant as the last passage, other records may be as
    relevant and have a smaller id, so more are fetched.

    Args:
        fetch: returns the given number of nearest records, or all if there are fewer.
        limit: maximum number of passages.
        min_relevance: minimum relevance.
        max_fetched: maximum number of records that the engine returns.
    """
    limit = min(limit, MAX_PASSAGES)
    if limit < 1:
        return []
    size = min(limit + 1, max_fetched)
    while True:
        found = await fetch(size)
        best = ranked(found, limit, min_relevance)
        worst = min((passage.relevance for passage in found), default=0.0)
        if len(found) < size or size >= max_fetched or worst < max(min_relevance, best[-1].relevance if best else 0.0):
            return best
        size = min(size * 2, max_fetched)
