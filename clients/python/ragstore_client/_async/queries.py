"""The calls of `AsyncClient` that search by similarity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from ragstore_client import _calls as calls
from ragstore_client import _models as models
from ragstore_client._async.base import CallSender
from ragstore_client._async.runtime import run_all
from ragstore_client._calls import DocumentFilter, SimilaritySearch
from ragstore_client._exceptions import InvalidInput
from ragstore_client._models import Embedding, Strings, Where
from ragstore_client._options import CallOptions


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
        include_texts: bool = True,
        **options: Unpack[CallOptions],
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
            include_texts: return the texts; they are empty otherwise.
            **options: see `CallOptions`.

        Returns:
            The matches, nearest first.

        Raises:
            BadRequest: the dimension or the filter is wrong.
            NotFound: the collection does not exist.
        """
        search = SimilaritySearch(embedding=embedding, top_k=top_k, max_distance=max_distance, min_score=min_score)
        filter_ = DocumentFilter(where, where_document, include_embeddings, include_texts)
        return await self._send(calls.query(collection, search, filter_), options)

    async def query_batch(
        self,
        collection: str,
        embeddings: Sequence[Embedding],
        *,
        top_k: int = 5,
        where: Where | None = None,
        where_document: Where | None = None,
        max_distance: float | None = None,
        min_score: float | None = None,
        include_embeddings: bool = False,
        include_texts: bool = True,
        concurrency: int = 8,
        **options: Unpack[CallOptions],
    ) -> list[models.QueryResults]:
        """Find the documents nearest to each of several vectors.

        One request is sent for each vector, several of them concurrently: the service puts concurrent queries into one
        call of Chroma.

        Args:
            collection: name of the collection.
            embeddings: the query vectors, of the collection's dimension.
            top_k: maximum number of matches of each, 1 to 1000.
            where: a filter on metadata.
            where_document: a filter on texts.
            max_distance: omit matches with a larger distance.
            min_score: omit matches with a lower score.
            include_embeddings: return the vectors as well.
            include_texts: return the texts; they are empty otherwise.
            concurrency: maximum number of requests in flight.
            **options: see `CallOptions`; they apply to each request.

        Returns:
            The matches of each vector, in the order of the vectors.

        Raises:
            BadRequest: the dimension or the filter is wrong. The other queries are cancelled.
            NotFound: the collection does not exist.
        """
        if isinstance(embeddings, str | bytes) or concurrency < 1:
            raise InvalidInput("embeddings must be a list of vectors, and concurrency at least 1")
        filter_ = DocumentFilter(where, where_document, include_embeddings, include_texts)
        searches = [
            SimilaritySearch(embedding=embedding, top_k=top_k, max_distance=max_distance, min_score=min_score)
            for embedding in embeddings
        ]
        found = [calls.query(collection, search, filter_) for search in searches]
        return await run_all(lambda call: self._send(call, options), found, concurrency)

    async def query_collections(
        self,
        collections: str | Strings,
        embedding: Embedding,
        *,
        top_k: int = 5,
        where: Where | None = None,
        where_document: Where | None = None,
        max_distance: float | None = None,
        min_score: float | None = None,
        include_embeddings: bool = False,
        include_texts: bool = True,
        **options: Unpack[CallOptions],
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
            include_texts: return the texts; they are empty otherwise.
            **options: see `CallOptions`.

        Returns:
            The matches of all collections, nearest first, and an error for each collection that failed.

        Raises:
            BadRequest: the filter is invalid.
        """
        search = SimilaritySearch(embedding=embedding, top_k=top_k, max_distance=max_distance, min_score=min_score)
        filter_ = DocumentFilter(where, where_document, include_embeddings, include_texts)
        return await self._send(calls.query_collections(collections, search, filter_), options)

    async def map_collection(
        self,
        collection: str,
        *,
        points: int = 2000,
        where: Where | None = None,
        color: str | None = None,
        **options: Unpack[CallOptions],
    ) -> models.CollectionMap:
        """Make a map of a sample of the documents, with the exact nearest neighbours of each.

        The service makes one map at a time. While it makes another one, the call is retried as `retries` allow.

        Args:
            collection: name of the collection.
            points: maximum number of documents on the map, 1 to 10,000.
            where: a filter on metadata.
            color: a metadata field whose values the map has.
            **options: see `CallOptions`.

        Returns:
            The map.

        Raises:
            BadRequest: the filter is invalid, or `points` is out of range.
            NotFound: the collection does not exist.
            Unavailable: the service was making another map.
        """
        return await self._send(calls.map_collection(collection, points=points, where=where, color=color), options)
