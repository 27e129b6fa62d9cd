"""Routes for similarity queries."""

from __future__ import annotations

from litestar import post
from litestar.params import JSONBody

from ragstore.api.media_types import Decoded
from ragstore.api.parameters import CollectionName, StoreDependency
from ragstore.api.parse_query import parse_query, resolve_collections
from ragstore.api.roles import READER
from ragstore.api.route_options import store_errors
from ragstore.api.schemas import MultiQueryRequest, MultiQueryResults, QueryRequest, QueryResults
from ragstore.errors import CollectionNotFound
from ragstore.operations.search import search, search_many


@post(
    "/collections/{collection_name:str}/query",
    status_code=200,
    dto=Decoded[QueryRequest],
    return_dto=None,
    opt={**READER, **store_errors(CollectionNotFound)},
    operation_id="queryCollection",
    summary="Query a collection",
    tags=["query"],
)
async def query_collection(
    store: StoreDependency, collection: CollectionName, data: JSONBody[QueryRequest]
) -> QueryResults:
    """Find the documents nearest to an embedding, nearest first. An empty collection returns an empty list."""
    queried, matches = await search(store, collection, parse_query(data))
    return QueryResults(matches, len(matches), queried.metadata)


@post(
    "/query",
    status_code=200,
    dto=Decoded[MultiQueryRequest],
    return_dto=None,
    opt={**READER, **store_errors(CollectionNotFound)},
    operation_id="query",
    summary="Query one or several collections",
    tags=["query"],
)
async def query(store: StoreDependency, data: JSONBody[MultiQueryRequest]) -> MultiQueryResults:
    """Find the documents nearest to an embedding in one `collection`, or in several `collections`.

    Several collections are queried concurrently, and their matches are merged by distance. A collection that fails is
    reported in `errors`; the others still return their matches.
    """
    names = resolve_collections(data)
    if data.collection is not None:
        queried, matches = await search(store, data.collection, parse_query(data), with_collection=True)
        return MultiQueryResults(matches, len(matches), queried.metadata)
    matches, errors = await search_many(store, names, parse_query(data))
    return MultiQueryResults(matches, len(matches), errors=errors)
