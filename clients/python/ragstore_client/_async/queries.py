"""The calls of `AsyncClient` that search by similarity."""

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
    """Search by similarity."""

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
        """Find the documents nearest to a vector.

        Args:
            collection: name of the collection.
            embedding: the query vector, of the collection's dimension.
            top_k: maximum number of matches, 1 to 1000.
            where: a filter on metadata.
            where_document: a filter on texts.
            max_distance: omit matches with a larger distance.
            min_score: omit matches with a lower score.
            include_embeddings: return the vectors as well.

        Returns:
            The matches, nearest first.

        Raises:
            BadRequest: the dimension or the filter is wrong.
            NotFound: the collection does not exist.
        """
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
        """Find the documents nearest to a vector in several collections, in one request.

        Args:
            collections: names of the collections; a single name, as a string, fails as `query` does.
            embedding: the query vector.
            top_k: maximum number of matches over all collections, 1 to 1000.
            where: a filter on metadata.
            where_document: a filter on texts.
            max_distance: omit matches with a larger distance.
            min_score: omit matches with a lower score.
            include_embeddings: return the vectors as well.

        Returns:
            The matches of all collections, nearest first, and an error for each collection that failed.

        Raises:
            BadRequest: the filter is invalid.
        """
        search = SimilaritySearch(embedding=embedding, top_k=top_k, max_distance=max_distance, min_score=min_score)
        filter_ = DocumentFilter(where=where, where_document=where_document, include_embeddings=include_embeddings)
        return await self._send(calls.query_collections(collections, search, filter_))
