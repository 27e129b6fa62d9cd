"""The calls of `Client` that search by similarity, and those that concern the service itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragstore_client import _calls as calls
from ragstore_client._calls import DocumentFilter, SimilaritySearch
from ragstore_client._sync.base import CallSender

if TYPE_CHECKING:
    from ragstore_client import _models as models
    from ragstore_client._models import Embedding, Where


class QueryCalls(CallSender):
    """Find what is near to a vector."""

    def query(
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
        """Find the documents that are nearest to a vector.

        Args:
            collection: where.
            embedding: the vector, of the collection's dimension.
            top_k: most matches, 1 to 1000.
            where: a filter on metadata.
            where_document: a filter on texts.
            max_distance: leave out what is farther.
            min_score: leave out what scores lower.
            include_embeddings: return the vectors too.

        Returns:
            The matches, nearest first.

        Raises:
            BadRequest: the dimension or the filter is wrong.
            NotFound: there is no such collection.
        """
        search = SimilaritySearch(embedding=embedding, top_k=top_k, max_distance=max_distance, min_score=min_score)
        filter_ = DocumentFilter(where=where, where_document=where_document, include_embeddings=include_embeddings)
        return self._send(calls.query(collection, search, filter_))

    def query_collections(
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
        """Find the documents that are nearest to a vector, in several collections at once.

        Args:
            collections: where; a single name fails as `query` does.
            embedding: the vector.
            top_k: most matches of all together, 1 to 1000.
            where: a filter on metadata.
            where_document: a filter on texts.
            max_distance: leave out what is farther.
            min_score: leave out what scores lower.
            include_embeddings: return the vectors too.

        Returns:
            The matches of all, nearest first, and the collections that could not be searched.

        Raises:
            BadRequest: the filter is wrong.
        """
        search = SimilaritySearch(embedding=embedding, top_k=top_k, max_distance=max_distance, min_score=min_score)
        filter_ = DocumentFilter(where=where, where_document=where_document, include_embeddings=include_embeddings)
        return self._send(calls.query_collections(collections, search, filter_))


class ServiceCalls(CallSender):
    """Ask the service about itself."""

    def info(self) -> models.ServiceInfo:
        """Ask the service who it is."""
        return self._send(calls.info())

    def health(self) -> models.Health:
        """Ask the service how it is. An unhealthy one is an answer, not an error."""
        return self._send(calls.health())

    def live(self) -> models.Probe:
        """Ask whether the process answers at all."""
        return self._send(calls.probe("live"))

    def ready(self) -> models.Probe:
        """Ask whether the service can work. One that is not ready is an answer, not an error."""
        return self._send(calls.probe("ready"))

    def metrics(self) -> str:
        """Fetch the metrics, in Prometheus' text format."""
        return self._send(calls.page("/metrics"))

    def openapi(self) -> str:
        """Fetch the service's OpenAPI document, as JSON."""
        return self._send(calls.page("/openapi.json"))

    def docs(self) -> str:
        """Fetch the page that shows the API to people, as HTML."""
        return self._send(calls.page("/docs"))
