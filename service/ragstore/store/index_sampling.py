"""Samples the share of documents that their own embedding does not find, while the service runs."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Sequence
from typing import Final

import structlog
from prometheus_client import Counter

from ragstore.kit.errors import ServiceError
from ragstore.model.index_check import PAGE, check_index
from ragstore.model.queries import CollectionMatches, Query
from ragstore.store.layer import StoreLayer
from ragstore.store.protocol import Store

_log = structlog.get_logger(__name__)

SAMPLES: Final = Counter(
    "ragstore_index_samples_total",
    "Documents that were looked for by their own embedding: whether Chroma's index found them.",
    ["result"],
)
_SAMPLES: Final = {result: SAMPLES.labels(result) for result in ("found", "lost")}


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
