"""Routes on collections."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final
from urllib.parse import quote

from litestar import Controller, Response, delete, get, post, put
from litestar.params import JSONBody, QueryParameter

from ragstore.api.media_types import Decoded, NegotiatedResponse
from ragstore.api.parameters import MAX_OFFSET, CollectionName, Offset, StoreDependency, checked_query_string
from ragstore.api.schemas import (
    Collection,
    CollectionCreated,
    CollectionDeleted,
    CollectionPage,
    MetadataUpdate,
    MetadataUpdated,
    MetadataValues,
    NewCollection,
)
from ragstore.errors import CollectionExists, CollectionNotFound, InvalidMetadata
from ragstore.kit.auth.middleware import ADMIN, READER, WRITER
from ragstore.model import collections as model
from ragstore.model.metadata import Scalar, checked_collection_metadata, without_nulls
from ragstore.model.names import checked_new_name
from ragstore.model.numbers import MAX_WHOLE
from ragstore.operations.metadata_values import distinct_values
from ragstore.store.protocol import Store

COUNTING: Final = 8
"""Collections counted at a time."""


class CollectionsController(Controller):
    """Create, look up, list, change and delete collections."""

    path = "/collections"
    tags = ("collections",)
    opt = READER
    before_request = staticmethod(checked_query_string)

    @post(
        dto=Decoded[NewCollection],
        return_dto=None,
        opt=WRITER,
        operation_id="createCollection",
        summary="Create a collection",
        raises=[],
    )
    async def create(self, store: StoreDependency, data: JSONBody[NewCollection]) -> Response[CollectionCreated]:
        """Create a collection.

        `embedding_provider` and `embedding_model` are stored as metadata and win over the same keys in `metadata`; no
        provider is checked. With `get_or_create`, a collection that exists is answered with 200 and stays as it is.
        """
        name = checked_new_name(data.name)
        metadata, distance = new_collection(data)
        headers = {"Location": f"/collections/{quote(name)}"}
        try:
            created = await store.create_collection(name, metadata, distance)
        except CollectionExists:
            if not data.get_or_create:
                raise
            existing = await store.get_collection(name)
            return NegotiatedResponse(_created(existing, "exists"), status_code=200, headers=headers)
        return NegotiatedResponse(_created(created, "created"), headers=headers)

    @get(operation_id="listCollections", summary="List collections")
    async def list_all(
        self,
        store: StoreDependency,
        limit: Annotated[
            int, QueryParameter(ge=1, le=MAX_WHOLE, description="Most collections in the page; all when absent.")
        ] = MAX_WHOLE,
        offset: Offset = 0,
    ) -> CollectionPage:
        """List collections with their counts, by name."""
        window = (None if limit == MAX_WHOLE else min(limit, MAX_OFFSET), min(offset, MAX_OFFSET))
        found, total = await asyncio.gather(store.list_collections(*window), store.count_collections())
        gate = asyncio.Semaphore(COUNTING)
        described = await asyncio.gather(*(_counted(store, collection, gate) for collection in found))
        collections = [collection for collection in described if collection is not None]
        return CollectionPage(collections, len(collections), total)

    @get("/{collection_name:str}", operation_id="getCollection", summary="Look a collection up")
    async def look_up(self, store: StoreDependency, collection: CollectionName) -> Collection:
        """Tell a collection's metadata, count, dimension and distance."""
        found, count = await asyncio.gather(store.get_collection(collection), store.count(collection))
        return _described(found, count)

    @put(
        "/{collection_name:str}/metadata",
        dto=Decoded[MetadataUpdate],
        return_dto=None,
        opt=WRITER,
        operation_id="updateCollectionMetadata",
        summary="Change a collection's metadata",
    )
    async def update_metadata(
        self,
        store: StoreDependency,
        collection: CollectionName,
        data: JSONBody[MetadataUpdate],
        merge: Annotated[bool, QueryParameter(description="Merge by RFC 7396, where null removes a key.")] = False,
    ) -> MetadataUpdated:
        """Replace a collection's metadata or merge into it. The distance stays what it is."""
        metadata = checked_collection_metadata(data.metadata, "$.metadata")
        updated = await store.update_metadata(collection, metadata, merge=merge)
        return MetadataUpdated("updated", updated.name, updated.metadata, merge)

    @delete(
        "/{collection_name:str}",
        status_code=200,
        opt=ADMIN,
        operation_id="deleteCollection",
        summary="Delete a collection",
    )
    async def remove(self, store: StoreDependency, collection: CollectionName) -> CollectionDeleted:
        """Delete a collection and all its documents."""
        await store.delete_collection(collection)
        return CollectionDeleted("deleted", collection)

    @get(
        "/{collection_name:str}/metadata-values",
        operation_id="listMetadataValues",
        summary="List a metadata field's values",
    )
    async def metadata_values(
        self,
        store: StoreDependency,
        collection: CollectionName,
        field: Annotated[str, QueryParameter(description="The metadata field.", min_length=1)],
        limit: Annotated[
            int, QueryParameter(ge=1, le=MAX_WHOLE, description="Most values; all when absent.")
        ] = MAX_WHOLE,
    ) -> MetadataValues:
        """List the distinct values of a metadata field, as text, sorted."""
        values = (await distinct_values(store, collection, field))[:limit]
        return MetadataValues(field, values, len(values))


def new_collection(body: NewCollection) -> tuple[dict[str, Scalar], model.Distance]:
    """What a new collection is created with.

    Args:
        body: the request.

    Returns:
        Its metadata and its distance.

    Raises:
        InvalidMetadata: the metadata cannot be stored, or its `hnsw:space` is no distance or not the one asked for.
    """
    metadata = without_nulls(checked_collection_metadata(body.metadata, "$.metadata"))
    for key, value in (("embedding_provider", body.embedding_provider), ("embedding_model", body.embedding_model)):
        if value is not None:
            metadata[key] = value
    space = metadata.get(model.SPACE)
    if space is None:
        return metadata, body.distance or "cosine"
    if space not in model.DISTANCES:
        raise InvalidMetadata.at(f"$.metadata.{model.SPACE}", "A distance is 'cosine', 'l2' or 'ip'")
    if body.distance not in (None, space):
        raise InvalidMetadata.at(
            f"$.metadata.{model.SPACE}", "'distance' and metadata 'hnsw:space' name different distances"
        )
    return metadata, model.DISTANCES[space]


def _created(collection: model.Collection, status: str) -> CollectionCreated:
    return CollectionCreated(
        "created" if status == "created" else "exists",
        collection.name,
        collection.metadata,
        collection.dimension,
        collection.distance,
    )


def _described(collection: model.Collection, count: int) -> Collection:
    return Collection(collection.name, collection.metadata, count, collection.dimension, collection.distance)


async def _counted(store: Store, collection: model.Collection, gate: asyncio.Semaphore) -> Collection | None:
    """A collection with its count, or None when it was deleted meanwhile."""
    async with gate:
        try:
            return _described(collection, await store.count(collection.name))
        except CollectionNotFound:
            return None
