"""Routes for similarity queries."""

from __future__ import annotations

from litestar import post
from litestar.params import JSONBody

from ragstore.api.media_types import Decoded
from ragstore.api.parameters import CollectionName, StoreDependency
from ragstore.api.parse_query import parse_query, resolve_collections
from ragstore.api.schemas import MultiQueryRequest, MultiQueryResults, QueryRequest, QueryResults
from ragstore.kit.auth.middleware import READER
from ragstore.operations.search import search, search_many


@post(
    "/collections/{collection_name:str}/query",
    status_code=200,
    dto=Decoded[QueryRequest],
    return_dto=None,
    opt=READER,
    operation_id="queryCollection",
    summary="Find the nearest documents of a collection",
    tags=["query"],
)
async def query_collection(
    store: StoreDependency, collection: CollectionName, data: JSONBody[QueryRequest]
) -> QueryResults:
    """Find the documents nearest to an embedding, nearest first. An empty collection gives an empty list."""
    found, hits = await search(store, collection, parse_query(data))
    return QueryResults(hits, len(hits), found.metadata)


@post(
    "/query",
    status_code=200,
    dto=Decoded[MultiQueryRequest],
    return_dto=None,
    opt=READER,
    operation_id="query",
    summary="Find the nearest documents of one collection or several",
    tags=["query"],
)
async def query(store: StoreDependency, data: JSONBody[MultiQueryRequest]) -> MultiQueryResults:
    """Find the documents nearest to an embedding in one `collection`, or in several `collections` at once.

    Several are searched at the same time and merged by distance. One that fails stands in `errors`; the others answer.
    """
    names = resolve_collections(data)
    if data.collection is not None:
        found, hits = await search(store, data.collection, parse_query(data), named=True)
        return MultiQueryResults(hits, len(hits), found.metadata)
    hits, errors = await search_many(store, names, parse_query(data))
    return MultiQueryResults(hits, len(hits), errors=errors)
