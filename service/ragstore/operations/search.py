"""Similarity search over one collection or several."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterator
from typing import Final

from msgspec import UNSET, UnsetType

from ragstore.kit.errors import ServiceError
from ragstore.model.collections import Collection, Distance
from ragstore.model.names import validate_name
from ragstore.model.queries import CollectionError, Match, Matches, Query
from ragstore.store.protocol import Store

MAX_CONCURRENT_SEARCHES: Final = 16
"""Maximum number of collections that one request searches concurrently."""


async def search(
    store: Store, name: str, query: Query, *, with_collection: bool = False
) -> tuple[Collection, list[Match]]:
    """Search one collection.

    Args:
        name: the collection's name.
        with_collection: whether each match names the collection.

    Returns:
        The collection and its matches, nearest first.

    Raises:
        CollectionNotFound: the collection does not exist.
        DimensionMismatch: its embeddings have another dimension.
    """
    results = await store.query(validate_name(name), [query])
    collection = results.collection
    matches = _matches(results.matches[0], collection.distance, name if with_collection else UNSET, query.with_texts)
    return collection, list(_within_bounds(matches, query))


async def search_many(store: Store, names: list[str], query: Query) -> tuple[list[Match], list[CollectionError]]:
    """Search several collections concurrently.

    Returns:
        The `top_k` nearest matches of all collections, and the collections that failed.
    """
    semaphore = asyncio.Semaphore(MAX_CONCURRENT_SEARCHES)

    async def search_one(name: str) -> list[Match] | CollectionError:
        async with semaphore:
            try:
                return (await search(store, name, query, with_collection=True))[1]
            except ServiceError as error:
                return CollectionError(name, error.status, error.code, error.detail)

    outcomes = await asyncio.gather(*(search_one(name) for name in names))
    merged = heapq.merge(
        *(outcome for outcome in outcomes if isinstance(outcome, list)), key=lambda match: match.distance
    )
    nearest = [match for match, _ in zip(merged, range(query.top_k), strict=False)]
    return nearest, [outcome for outcome in outcomes if isinstance(outcome, CollectionError)]


def score(distance: float, function: Distance) -> float:
    """The score of a distance: higher is nearer.

    Args:
        distance: the distance as Chroma returns it; for `ip`, one minus the inner product.
        function: the collection's distance function.

    Returns:
        `1 - distance` for cosine and ip, `1 / (1 + distance)` for l2.
    """
    return 1.0 / (1.0 + distance) if function == "l2" else 1.0 - distance


def _matches(columns: Matches, function: Distance, collection: str | UnsetType, with_texts: bool) -> Iterator[Match]:
    for index, document_id in enumerate(columns.ids):
        distance = columns.distances[index]
        yield Match(
            id=document_id,
            text=columns.texts[index] if with_texts else "",
            metadata=columns.metadatas[index],
            distance=distance,
            score=score(distance, function),
            collection=collection,
            embedding=UNSET if columns.embeddings is None else columns.embeddings[index],
        )


def _within_bounds(matches: Iterator[Match], query: Query) -> Iterator[Match]:
    """Matches within the query's maximum distance and minimum score."""
    for match in matches:
        too_far = query.max_distance is not None and match.distance > query.max_distance
        too_low = query.min_score is not None and match.score < query.min_score
        if not (too_far or too_low):
            yield match
