"""Counts the documents of several collections, within a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ragstore.chroma.backend import Backend
from ragstore.chroma.errors import StaleCollectionId
from ragstore.chroma.operations import CountEach, CountRecords
from ragstore.errors import ChromaFailed
from ragstore.model.collections import CollectionCount

SHARE_OF_TIME: Final = 0.9
"""Share of the time for which an operation counts."""


async def count_each(backend: Backend, collection_ids: Sequence[str], max_seconds: float) -> list[CollectionCount]:
    """Count the documents of collections.

    Args:
        backend: Chroma.
        collection_ids: ids of the collections.
        max_seconds: time after which no further collection is counted.

    Returns:
        A number for each collection, or why there is none.
    """
    counts: dict[str, CollectionCount] = {}
    with suppress(TimeoutError):
        async with asyncio.timeout(max_seconds):
            # Ends before the timeout, which would discard all counts of the operation.
            counts |= await backend.call(CountEach(list(collection_ids), SHARE_OF_TIME * max_seconds))
            for each in collection_ids:
                if each not in counts:
                    counts[each] = await _count_one(backend, each)
    return [counts.get(each, "late") for each in collection_ids]


async def _count_one(backend: Backend, collection_id: str) -> CollectionCount:
    try:
        return await backend.call(CountRecords(collection_id))
    except StaleCollectionId:
        return "deleted"
    except ChromaFailed:
        return "failed"
