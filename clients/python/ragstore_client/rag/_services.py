"""Routes searches to the provider for an archive's URL, within a deadline, and detects a change of the backend."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import httpx

from ragstore_client._endpoint import parse_endpoint
from ragstore_client._exceptions import ProblemError, TransportError, UnexpectedResponse
from ragstore_client._models import Document, MultiQueryResults, Where
from ragstore_client._types import FloatArray
from ragstore_client.rag._detection import Backend, BackendDetector
from ragstore_client.rag._providers import NO_OPTIONS, SearchOptions
from ragstore_client.rag._ragstore_provider import RagstoreProvider

if TYPE_CHECKING:
    from ragstore_client.rag.chroma._provider import ChromaProvider

_MIN_CALL_SECONDS = 0.05
"""Minimum time limit of a call, even if the detection of the backend took nearly all of the time."""


class ServiceRouter:
    """Searches and reads collections of whichever service a URL belongs to.

    Args:
        detector: detects the backend behind a URL.
        timeout: time limit of one search, in seconds, detection included.
        api_key: key for ragstore services: one for all, or by base URL. It is never sent to a plain Chroma server.
        http: the httpx client; the event loop's pool when None.
        chroma: token, tenant and database for plain Chroma servers, as fields of a `ChromaConnection`.
    """

    def __init__(
        self,
        detector: BackendDetector,
        *,
        timeout: float,
        api_key: str | Mapping[str, str] | None = None,
        http: httpx.AsyncClient | None = None,
        chroma: Mapping[str, str] | None = None,
    ) -> None:
        self._detector = detector
        self._chroma = dict(chroma or {})
        self._timeout = timeout
        self._api_key = api_key
        self._http = http

    async def search(
        self,
        url: str,
        collections: Sequence[str],
        vector: FloatArray,
        *,
        top_k: int,
        where: Where | None,
        timeout_seconds: float | None = None,
        options: SearchOptions = NO_OPTIONS,
    ) -> MultiQueryResults:
        """Search collections of one service.

        Args:
            url: URL of the service.
            collections: names of the collections.
            vector: the query vector.
            top_k: maximum number of matches per collection.
            where: a filter on metadata.
            timeout_seconds: time limit of this search, at most the time limit of all searches.
            options: options of this search.

        Returns:
            The matches, each with its collection, and an error for each collection that failed.

        Raises:
            RagstoreError: no collection could be searched, for one reason.
        """
        limit = self._timeout if timeout_seconds is None else min(timeout_seconds, self._timeout)
        deadline = time.monotonic() + limit
        cached = self._detector.cached(url)
        try:
            provider = await self._provider(url, deadline)
            results = await provider.search(collections, vector, top_k=top_k, where=where, options=options)
        except TransportError:
            self._detector.invalidate(url)
            raise
        except (ProblemError, UnexpectedResponse):
            if not await self._backend_changed(url, cached, deadline):
                raise
        else:
            all_failed = bool(results.errors) and not results.results
            if not (all_failed and await self._backend_changed(url, cached, deadline)):
                return results
        provider = await self._provider(url, deadline)
        return await provider.search(collections, vector, top_k=top_k, where=where, options=options)

    async def documents(self, url: str, collection: str, *, where: Where, limit: int) -> list[Document]:
        """Read documents of one collection by their metadata.

        Args:
            url: URL of the service.
            collection: name of the collection.
            where: a filter on metadata.
            limit: maximum number of documents.

        Returns:
            The documents.

        Raises:
            RagstoreError: the documents could not be read.
        """
        deadline = time.monotonic() + self._timeout
        cached = self._detector.cached(url)
        try:
            provider = await self._provider(url, deadline)
            return await provider.documents(collection, where=where, limit=limit)
        except (ProblemError, UnexpectedResponse):
            if not await self._backend_changed(url, cached, deadline):
                raise
        provider = await self._provider(url, deadline)
        return await provider.documents(collection, where=where, limit=limit)

    async def _provider(self, url: str, deadline: float) -> RagstoreProvider | ChromaProvider:
        backend = await self._detector.detect(url, timeout_seconds=_remaining(deadline), http=self._http)
        configuration: dict[str, object] = {"url": url, "timeout": _remaining(deadline)}
        if backend == "chroma":
            from ragstore_client.rag.chroma._provider import ChromaProvider

            return ChromaProvider.connect({**configuration, **self._chroma}, http=self._http)
        key = self._api_key if self._api_key is None or isinstance(self._api_key, str) else self._key_for(url)
        if key:
            configuration["api_key"] = key
        return RagstoreProvider.connect(configuration, http=self._http)

    async def _backend_changed(self, url: str, cached: Backend | None, deadline: float) -> bool:
        """Whether a URL belongs to another backend than the cached one now."""
        if cached is None:
            return False
        self._detector.invalidate(url)
        return await self._detector.detect(url, timeout_seconds=_remaining(deadline), http=self._http) != cached

    def _key_for(self, url: str) -> str | None:
        keys = self._api_key if isinstance(self._api_key, Mapping) else {}
        bare = parse_endpoint(url).url
        return next((key for known, key in keys.items() if parse_endpoint(known).url == bare), None)


def _remaining(deadline: float) -> float:
    return max(deadline - time.monotonic(), _MIN_CALL_SECONDS)
