"""The calls of `AsyncClient` that search by similarity or concern the service itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragstore_client import _calls as calls
from ragstore_client._async.base import CallSender
from ragstore_client._calls import DocumentFilter, SimilaritySearch

if TYPE_CHECKING:
    from ragstore_client import _models as models
    from ragstore_client._models import Embedding, Where


class QueryCalls(CallSender):
    """Find what is near to a vector."""

    async def query(
        self,
        collection: str,
        embedding: Embedding,
        *,
        top_k: int = 5,
        where: Where | None = None,
        where_document: Where | None = None,
        max_distance: float | None = None,
        min_score: float | None = None,
        include_embeddings: bool = False,
    ) -> models.QueryResults:
        """Find the documents that are nearest to a vector. See `Client.query`."""
        search = SimilaritySearch(embedding=embedding, top_k=top_k, max_distance=max_distance, min_score=min_score)
        filter_ = DocumentFilter(where=where, where_document=where_document, include_embeddings=include_embeddings)
        return await self._send(calls.query(collection, search, filter_))

    async def query_collections(
        self,
        collections: str | Sequence[str],
        embedding: Embedding,
        *,
        top_k: int = 5,
        where: Where | None = None,
        where_document: Where | None = None,
        max_distance: float | None = None,
        min_score: float | None = None,
        include_embeddings: bool = False,
    ) -> models.MultiQueryResults:
        """Find the documents that are nearest to a vector, in several collections. See `Client.query_collections`."""
        search = SimilaritySearch(embedding=embedding, top_k=top_k, max_distance=max_distance, min_score=min_score)
        filter_ = DocumentFilter(where=where, where_document=where_document, include_embeddings=include_embeddings)
        return await self._send(calls.query_collections(collections, search, filter_))


class ServiceCalls(CallSender):
    """Ask the service about itself."""

    async def info(self) -> models.ServiceInfo:
        """Ask the service who it is. See `Client.info`."""
        return await self._send(calls.info())

    async def health(self) -> models.Health:
        """Ask the service how it is. An unhealthy one is an answer, not an error. See `Client.health`."""
        return await self._send(calls.health())

    async def live(self) -> models.Probe:
        """Ask whether the process answers at all. See `Client.live`."""
        return await self._send(calls.probe("live"))

    async def ready(self) -> models.Probe:
        """Ask whether the service can work. See `Client.ready`."""
        return await self._send(calls.probe("ready"))

    async def metrics(self) -> str:
        """Fetch the metrics, in Prometheus' text format. See `Client.metrics`."""
        return await self._send(calls.page("/metrics"))

    async def openapi(self) -> str:
        """Fetch the service's OpenAPI document, as JSON. See `Client.openapi`."""
        return await self._send(calls.page("/openapi.json"))

    async def docs(self) -> str:
        """Fetch the page that shows the API to people, as HTML. See `Client.docs`."""
        return await self._send(calls.page("/docs"))
