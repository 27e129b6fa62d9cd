"""The route for maps of collections."""

from __future__ import annotations

from typing import Any

from litestar import Request, post
from litestar.params import JSONBody

from ragstore.api.media_types import Decoded
from ragstore.api.parameters import CollectionName, StoreDependency
from ragstore.api.roles import READER
from ragstore.api.route_options import store_errors
from ragstore.api.schemas import MapRequest
from ragstore.errors import CollectionNotFound
from ragstore.kit.disconnect import CallerWatch
from ragstore.kit.numbers import whole_number
from ragstore.model.filters.condition import Condition
from ragstore.model.maps import CollectionMap, MapParameters


@post(
    "/collections/{collection_name:str}/map",
    status_code=200,
    dto=Decoded[MapRequest],
    return_dto=None,
    opt={**READER, **store_errors(CollectionNotFound)},
    operation_id="mapCollection",
    summary="Make a map of a collection",
    tags=["query"],
)
async def map_collection(
    request: Request[Any, Any, Any], store: StoreDependency, collection: CollectionName, data: JSONBody[MapRequest]
) -> CollectionMap:
    """Place a sample of the documents by their embeddings, with the exact nearest neighbours of each.

    The documents are chosen evenly over the collection, or over the documents that match `where`. A process makes one
    map at a time; during that time other requests get 503. A map is cached for ten minutes, until the collection
    changes; over a Chroma server for 30 seconds.
    """
    parameters = MapParameters(whole_number(data.points, "$.points"), Condition.parse(data.where), data.color)
    async with CallerWatch(request.receive):
        return await store.map_collection(collection, parameters)
