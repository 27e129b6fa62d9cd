"""Similarity queries: from the question of a request to hits, over one collection or several."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterator
from typing import Final

from msgspec import UNSET, UnsetType

from ragstore.kit.errors import ServiceError
from ragstore.model.collections import Collection, Distance
from ragstore.model.names import checked_name
from ragstore.model.queries import CollectionError, Hits, Match, Query
from ragstore.store.protocol import Store

SEARCHING: Final = 16
"""Collections searched at a time."""


async def search(store: Store, name: str, query: Query, *, named: bool = False) -> tuple[Collection, list[Match]]:
    """Search one collection.

    Args:
        store: where the collection is.
        name: its name.
        query: what to find.
        named: whether hits name the collection.

    Returns:
        The collection and its hits, nearest first.

    Raises:
        CollectionNotFound: there is no such collection.
        DimensionMismatch: its embeddings have another dimension.
    """
    found = await store.query(checked_name(name), [query])
    shown: str | UnsetType = name if named else UNSET
    return found.collection, list(_within(_hits(found.hits[0], found.collection.distance, shown), query))


async def search_many(store: Store, names: list[str], query: Query) -> tuple[list[Match], list[CollectionError]]:
    """Search several collections at once.

    Args:
        store: where the collections are.
        names: their names.
        query: what to find.

    Returns:
        The `top_k` nearest hits of all, and the collections that failed.
    """
    gate = asyncio.Semaphore(SEARCHING)

    async def one(name: str) -> list[Match] | CollectionError:
        async with gate:
            try:
                return (await search(store, name, query, named=True))[1]
            except ServiceError as error:
                return CollectionError(name, error.status, error.code, error.detail)

    answers = await asyncio.gather(*(one(name) for name in names))
    merged = heapq.merge(*(answer for answer in answers if isinstance(answer, list)), key=lambda hit: hit.distance)
    nearest = [hit for hit, _ in zip(merged, range(query.top_k), strict=False)]
    return nearest, [answer for answer in answers if isinstance(answer, CollectionError)]


def score_of(distance: float, kind: Distance) -> float:
    """A score for a distance: more is nearer.

    Args:
        distance: as Chroma gives it; for `ip` it is one minus the inner product.
        kind: the collection's distance.

    Returns:
        `1 - distance` for cosine and ip, `1 / (1 + distance)` for l2.
    """
    return 1.0 / (1.0 + distance) if kind == "l2" else 1.0 - distance


def _hits(found: Hits, kind: Distance, collection: str | UnsetType) -> Iterator[Match]:
    for place, document_id in enumerate(found.ids):
        distance = found.distances[place]
        yield Match(
            id=document_id,
            text=found.texts[place],
            metadata=found.metadatas[place],
            distance=distance,
            score=score_of(distance, kind),
            collection=collection,
            embedding=UNSET if found.embeddings is None else found.embeddings[place],
        )


def _within(hits: Iterator[Match], query: Query) -> Iterator[Match]:
    """Hits within the bounds that a request sets."""
    for hit in hits:
        too_far = query.max_distance is not None and hit.distance > query.max_distance
        too_low = query.min_score is not None and hit.score < query.min_score
        if not (too_far or too_low):
            yield hit
