"""The services behind the archives' URLs: found out, asked within a time, and found out again when they changed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ragstore_client._endpoint import parse_endpoint
from ragstore_client._exceptions import ProblemError, TransportError, UnexpectedResponse
from ragstore_client.rag._detection import Backend, BackendDetector, shared_detector
from ragstore_client.rag._providers import RetrievalProvider
from ragstore_client.rag._registry import registry

if TYPE_CHECKING:
    from array import array

    from ragstore_client._models import Document, MultiQueryResults, Where

_MIN_CALL_SECONDS = 0.05
"""Seconds that a call gets even if finding out what to call took nearly all of the time."""


class ServiceRouter:
    """Asks whatever is behind a URL.

    Args:
        timeout: seconds for one search, whatever it takes.
        api_key: key for ragstore services: one for all, or by base URL. A plain Chroma server never gets it.
        detector: what knows which URL is which.
    """

    def __init__(
        self,
        *,
        timeout: float,
        api_key: str | Mapping[str, str] | None = None,
        detector: BackendDetector = shared_detector,
    ) -> None:
        self._timeout = timeout
        self._api_key = api_key
        self._detector = detector

    async def search(
        self, url: str, collections: Sequence[str], vector: array[float], *, top_k: int, where: Where | None
    ) -> MultiQueryResults:
        """Search some collections of one service.

        Args:
            url: the service.
            collections: where.
            vector: the query's vector.
            top_k: most matches of each collection.
            where: a filter on metadata.

        Returns:
            The matches, each naming its collection, and an error for each collection that failed.

        Raises:
            RagstoreError: none could be searched, for one reason.
        """
        deadline = time.monotonic() + self._timeout
        known = self._detector.known(url)
        try:
            provider = await self._provider(url, deadline)
            answer = await provider.search(collections, vector, top_k=top_k, where=where)
        except TransportError:
            self._detector.forget(url)
            raise
        except (ProblemError, UnexpectedResponse):
            if not await self._changed(url, known, deadline):
                raise
        else:
            all_failed = bool(answer.errors) and not answer.results
            if not (all_failed and await self._changed(url, known, deadline)):
                return answer
        provider = await self._provider(url, deadline)
        return await provider.search(collections, vector, top_k=top_k, where=where)

    async def documents(self, url: str, collection: str, *, where: Where, limit: int) -> list[Document]:
        """Read documents of one collection by their metadata.

        Args:
            url: the service.
            collection: where.
            where: a filter on metadata.
            limit: most documents.

        Returns:
            The documents.

        Raises:
            RagstoreError: they could not be read.
        """
        deadline = time.monotonic() + self._timeout
        known = self._detector.known(url)
        try:
            provider = await self._provider(url, deadline)
            return await provider.documents(collection, where=where, limit=limit)
        except (ProblemError, UnexpectedResponse):
            if not await self._changed(url, known, deadline):
                raise
        provider = await self._provider(url, deadline)
        return await provider.documents(collection, where=where, limit=limit)

    async def _provider(self, url: str, deadline: float) -> RetrievalProvider:
        backend = await self._detector.detect(url, within=_remaining(deadline))
        configuration: dict[str, object] = {"url": url, "timeout": _remaining(deadline)}
        key = self._api_key if self._api_key is None or isinstance(self._api_key, str) else self._key_for(url)
        if key and backend == "ragstore":
            configuration["api_key"] = key
        return registry.select(backend, configuration)

    async def _changed(self, url: str, known: Backend | None, deadline: float) -> bool:
        """Whether something else than what was remembered is behind a URL now."""
        if known is None:
            return False
        self._detector.forget(url)
        return await self._detector.detect(url, within=_remaining(deadline)) != known

    def _key_for(self, url: str) -> str | None:
        keys = self._api_key if isinstance(self._api_key, Mapping) else {}
        bare = parse_endpoint(url).url
        return next((key for known, key in keys.items() if parse_endpoint(known).url == bare), None)


def _remaining(deadline: float) -> float:
    return max(deadline - time.monotonic(), _MIN_CALL_SECONDS)
