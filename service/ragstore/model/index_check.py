"""Measures the share of documents that their own embedding does not find.

Chroma's HNSW graph loses documents. Filters that few documents match do not suffer from it, since they are run exactly,
and short results are completed. Other queries of a large collection may miss what the index has lost.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np

from ragstore.model.collections import Collection
from ragstore.model.distances import distances_to
from ragstore.model.documents import EVERYTHING, Documents, Selection
from ragstore.model.queries import CollectionMatches, Matches, Query

TOP_K: Final = 10
"""Number of results in which a document must be, or be as far away as the last of them."""

PAGE: Final = 20
"""Documents that are read together, and looked for by one call."""

TOLERANCE: Final = 1e-5
"""Relative difference of distances that counts as none: Chroma computes in float32."""


class IndexCheck(NamedTuple):
    """The result of a check.

    Attributes:
        sampled: number of documents that were looked for.
        lost: number of these documents that were not found.
    """

    sampled: int
    lost: int


class CheckedStore(Protocol):
    """The part of a store that a check calls; see `Store` for the contract of each method."""

    async def get_collection(self, name: str) -> Collection:
        """Get a collection."""

    async def count(self, name: str) -> int:
        """The number of documents."""

    async def get(
        self, name: str, selection: Selection, *, limit: int | None, offset: int, with_embeddings: bool
    ) -> Documents:
        """Read documents in insertion order."""

    async def query(self, name: str, queries: Sequence[Query]) -> CollectionMatches:
        """Find the nearest documents of each query."""


async def check_index(store: CheckedStore, name: str, sample: int) -> IndexCheck:
    """Look for documents by their own embedding, without a filter.

    Args:
        name: the collection.
        sample: number of documents to look for, at random; all if the collection has no more.

    Raises:
        CollectionNotFound: the collection does not exist.
    """
    collection = await store.get_collection(name)
    total = await store.count(name)
    pages = range(0, total, PAGE)
    wanted = min(len(pages), math.ceil(sample / PAGE))
    sampled = lost = 0
    for offset in sorted(random.sample(pages, wanted)):
        documents = await store.get(name, EVERYTHING, limit=PAGE, offset=offset, with_embeddings=True)
        if documents.embeddings is None or not documents.ids:
            continue
        queries = [Query(embedding, TOP_K, may_be_short=True) for embedding in documents.embeddings]
        found = await store.query(name, queries)
        sampled += len(documents.ids)
        for key, query, hits in zip(documents.ids, queries, found.matches, strict=True):
            (own_distance,) = distances_to(query.embedding[np.newaxis], query.embedding, collection.distance)
            lost += not _is_found(key, query, hits, float(own_distance))
    return IndexCheck(sampled, lost)


def _is_found(key: str, query: Query, hits: Matches, own_distance: float) -> bool:
    """Whether a document is in the results, or all of them are as near as it is."""
    if key in hits.ids:
        return True
    bound = own_distance + TOLERANCE * max(1.0, abs(own_distance))
    return len(hits.ids) == query.top_k and hits.distances[-1] <= bound
