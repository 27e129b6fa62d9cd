"""Measures the share of documents that their own embedding does not find, and samples it while the service runs.

Chroma's HNSW graph loses documents. Filters that few documents match do not suffer from it, since they are run exactly,
and short results are completed. Other queries of a large collection may miss what the index has lost.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import random
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import structlog
from prometheus_client import Counter

from ragstore.kit.errors import ServiceError
from ragstore.model.distances import distances_to
from ragstore.model.documents import EVERYTHING
from ragstore.model.queries import CollectionMatches, Matches, Query
from ragstore.store.layer import StoreLayer
from ragstore.store.protocol import Store

_log = structlog.get_logger(__name__)

TOP_K: Final = 10
"""Number of results in which a document must be, or be as far away as the last of them."""

PAGE: Final = 20
"""Documents that are read together, and looked for by one call."""

TOLERANCE: Final = 1e-5
"""Relative difference of distances that counts as none: Chroma computes in float32."""

SAMPLES: Final = Counter(
    "ragstore_index_samples_total",
    "Documents that were looked for by their own embedding: whether Chroma's index found them.",
    ["result"],
)
_SAMPLES: Final = {result: SAMPLES.labels(result) for result in ("found", "lost")}


class IndexCheck(NamedTuple):
    """The result of a check.

    Attributes:
        sampled: number of documents that were looked for.
        lost: number of these documents that were not found.
    """

    sampled: int
    lost: int


async def check_index(store: Store, name: str, sample: int) -> IndexCheck:
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


class IndexSamplingStore(StoreLayer):
    """A store that looks for some documents after every so many queries, in the background.

    Args:
        inner: the store that is wrapped.
        every: number of queries between two samples.

    Attributes:
        sampling: the latest sample, which may be running; None before the first one.
    """

    def __init__(self, inner: Store, every: int) -> None:
        super().__init__(inner)
        self._every = every
        self._queries = 0
        self.sampling: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Close the connection to Chroma."""
        if self.sampling is not None:
            self.sampling.cancel()
        await super().close()

    async def query(self, name: str, queries: Sequence[Query]) -> CollectionMatches:
        """Find the nearest documents."""
        found = await super().query(name, queries)
        self._queries += len(queries)
        if self._queries >= self._every and (self.sampling is None or self.sampling.done()):
            self._queries = 0
            # A context of its own: the sample belongs to no request, and has no deadline or trace of one.
            self.sampling = asyncio.create_task(self._sample(name), context=contextvars.Context())
        return found

    async def _sample(self, name: str) -> None:
        try:
            checked = await check_index(self._inner, name, PAGE)
        except ServiceError:
            return  # the collection is gone, or Chroma is unavailable, which other metrics report
        _SAMPLES["found"].inc(checked.sampled - checked.lost)
        _SAMPLES["lost"].inc(checked.lost)
        if checked.lost:
            _log.warning("index lost documents", collection=name, sampled=checked.sampled, lost=checked.lost)
