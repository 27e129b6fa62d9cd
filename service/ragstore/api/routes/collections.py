"""Routes on collections."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final, TypeAlias
from urllib.parse import quote

from litestar import Controller, Response, delete, get, post, put
from litestar.datastructures import ResponseHeader
from litestar.openapi import ResponseSpec
from litestar.params import JSONBody, QueryParameter
from msgspec import UNSET

from ragstore.api.media_types import Decoded, NegotiatedResponse
from ragstore.api.parameters import CollectionName, Offset, StoreDependency
from ragstore.api.roles import ADMIN, READER, WRITER
from ragstore.api.route_options import store_errors
from ragstore.api.schemas import (
    Collection,
    CollectionCreated,
    CollectionDeleted,
    CollectionPage,
    HnswParameters,
    MetadataUpdate,
    MetadataUpdated,
    MetadataValues,
    NewCollection,
    Rebuild,
)
from ragstore.errors import (
    ChromaFailed,
    CollectionExists,
    CollectionNotFound,
    InvalidMetadata,
    RebuildNotFound,
    RebuildRunning,
    RebuildUnsupported,
)
from ragstore.filters.values import Scalar
from ragstore.kit.numbers import MAX_WHOLE
from ragstore.model import collections as model
from ragstore.model.metadata import (
    MAX_COLLECTION_KEYS,
    scalars_of,
    texts_of,
    too_many_collection_keys,
    validate_collection_metadata,
    without_nulls,
)
from ragstore.model.names import validate_new_name
from ragstore.store.protocol import Store

NOT_NORMALISED: Final = (
    "With the distances 'l2' and 'ip', Chroma's index loses documents whose embeddings differ in length. Normalise the "
    "embeddings, or use the distance 'cosine' if their length has no meaning"
)
"""Warning in the response to a new collection."""

MAX_COUNT_SECONDS: Final = 2.0
"""Maximum time for which the documents of a list's collections are counted."""

MAX_SAMPLE: Final = 10_000
"""Maximum number of documents that a rebuild looks for in an index."""

MaxNeighbors: TypeAlias = Annotated[
    int | None, QueryParameter(ge=2, le=256, description="Neighbours of each document in the new index.")
]
EfConstruction: TypeAlias = Annotated[
    int | None,
    QueryParameter(ge=10, le=2000, description="Candidates that the new index compares for each new document."),
]
EfSearch: TypeAlias = Annotated[
    int | None, QueryParameter(ge=1, le=10_000, description="Candidates that the new index compares in a query.")
]


class CollectionsController(Controller):
    """Create, read, list, change and delete collections."""

    path = "/collections"
    tags = ("collections",)
    opt = {**READER, **store_errors(CollectionNotFound)}

    @post(
        dto=Decoded[NewCollection],
        return_dto=None,
        opt={**WRITER, **store_errors(CollectionExists)},
        operation_id="createCollection",
        summary="Create a collection",
        response_headers=[
            ResponseHeader(name="Location", description="The collection's path.", documentation_only=True)
        ],
        responses={
            200: ResponseSpec(
                CollectionCreated,
                description="The collection exists, and `get_or_create` is true.",
                generate_examples=False,
            )
        },
        raises=[],
    )
    async def create(self, store: StoreDependency, data: JSONBody[NewCollection]) -> Response[CollectionCreated]:
        """Create a collection.

        `embedding_provider` and `embedding_model` are stored as metadata and override the same keys in `metadata`.
        Their values are not validated. With `get_or_create`, an existing collection is returned unchanged, with 200.
        """
        name = validate_new_name(data.name)
        metadata, distance = metadata_and_distance(data)
        headers = {"Location": f"/collections/{quote(name)}"}
        try:
            created = await store.create_collection(
                name, metadata, distance, model.DEFAULT_HNSW if data.hnsw is None else data.hnsw.to_parameters()
            )
        except CollectionExists:
            if not data.get_or_create:
                raise
            existing = await store.get_collection(name)
            return NegotiatedResponse(_created(existing, "exists"), status_code=200, headers=headers)
        return NegotiatedResponse(_created(created, "created"), headers=headers)

    @get(opt=store_errors(), operation_id="listCollections", summary="List collections")
    async def list_all(
        self,
        store: StoreDependency,
        limit: Annotated[
            int,
            QueryParameter(ge=1, le=MAX_WHOLE, description="Maximum number of collections on the page; all if absent."),
        ] = MAX_WHOLE,
        offset: Offset = 0,
        counts: Annotated[
            bool, QueryParameter(description="Whether to count the documents of each collection.")
        ] = True,
    ) -> CollectionPage:
        """List collections by name, with their number of documents unless `counts` is false.

        Documents are counted for 2 s at most. Collections that were not counted in time have the count null, and
        `uncounted` is their number.
        """
        everything = await store.list_collections(None, 0)
        page, total = everything[offset : offset + limit], len(everything)
        if not counts:
            return CollectionPage([_with_count(collection, None) for collection in page], len(page), total)
        numbers = await store.count_each(page, MAX_COUNT_SECONDS)
        collections = [
            _with_count(collection, number if isinstance(number, int) else None)
            for collection, number in zip(page, numbers, strict=True)
            if number != "deleted"
        ]
        return CollectionPage(collections, len(collections), total, numbers.count("late") or UNSET)

    @get("/{collection_name:str}", operation_id="getCollection", summary="Get a collection")
    async def read(self, store: StoreDependency, collection: CollectionName) -> Collection:
        """Get a collection's metadata, number of documents, dimension and distance function."""
        found, count = await asyncio.gather(store.get_collection(collection), _count(store, collection))
        return _with_count(found, count)

    @put(
        "/{collection_name:str}/metadata",
        dto=Decoded[MetadataUpdate],
        return_dto=None,
        opt=WRITER,
        operation_id="updateCollectionMetadata",
        summary="Update a collection's metadata",
    )
    async def update_metadata(
        self,
        store: StoreDependency,
        collection: CollectionName,
        data: JSONBody[MetadataUpdate],
        merge: Annotated[bool, QueryParameter(description="Merge by RFC 7396: null removes a key.")] = False,
    ) -> MetadataUpdated:
        """Replace a collection's metadata, or merge into it. The distance function never changes."""
        metadata = validate_collection_metadata(data.metadata, "$.metadata")
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

    @post(
        "/{collection_name:str}/rebuild",
        status_code=202,
        opt={**ADMIN, **store_errors(CollectionNotFound, RebuildRunning, RebuildUnsupported)},
        operation_id="startRebuild",
        summary="Rebuild a collection's index",
    )
    async def start_rebuild(
        self,
        store: StoreDependency,
        collection: CollectionName,
        max_neighbors: MaxNeighbors = None,
        ef_construction: EfConstruction = None,
        ef_search: EfSearch = None,
        sample: Annotated[
            int,
            QueryParameter(ge=0, le=MAX_SAMPLE, description="Documents to look for in the old and in the new index."),
        ] = 500,
    ) -> Rebuild:
        """Rebuild the index of a collection in the background, with embedded Chroma.

        The new index finds documents that the old one has lost. Meanwhile the collection is read and written as usual.
        Afterwards it has the same documents in the same order. The parameters of the index stay as they are, unless the
        request changes them. `GET` returns the state.
        """
        hnsw = model.HnswParameters(max_neighbors=max_neighbors, ef_construction=ef_construction, ef_search=ef_search)
        return Rebuild.of(await store.start_rebuild(collection, hnsw, sample))

    @get(
        "/{collection_name:str}/rebuild",
        opt=store_errors(CollectionNotFound, RebuildNotFound),
        operation_id="getRebuild",
        summary="Get the state of a rebuild",
    )
    async def get_rebuild(self, store: StoreDependency, collection: CollectionName) -> Rebuild:
        """Get the state of the latest rebuild of a collection's index since the service started."""
        return Rebuild.of(await store.get_rebuild(collection))

    @get(
        "/{collection_name:str}/metadata-values",
        operation_id="listMetadataValues",
        summary="List the values of a metadata field",
    )
    async def metadata_values(
        self,
        store: StoreDependency,
        collection: CollectionName,
        field: Annotated[str, QueryParameter(description="The metadata field.", min_length=1)],
        limit: Annotated[
            int, QueryParameter(ge=1, le=MAX_WHOLE, description="Maximum number of values; all if absent.")
        ] = MAX_WHOLE,
        typed: Annotated[bool, QueryParameter(description="Whether to return `typed_values`, too.")] = False,
    ) -> MetadataValues:
        """List the distinct values of a metadata field as text, sorted."""
        found = await store.get_metadata_values(collection, field)
        values = texts_of(found)[:limit]
        return MetadataValues(field, values, len(values), scalars_of(found)[:limit] if typed else UNSET)


def metadata_and_distance(request: NewCollection) -> tuple[dict[str, Scalar], model.Distance]:
    """The metadata and the distance function of a new collection.

    Raises:
        InvalidMetadata: the metadata cannot be stored or has too many keys, or its `hnsw:space` is not a distance
            function or contradicts `distance`.
    """
    metadata = without_nulls(validate_collection_metadata(request.metadata, "$.metadata"))
    fields = (("embedding_provider", request.embedding_provider), ("embedding_model", request.embedding_model))
    metadata |= {key: value for key, value in fields if value is not None}
    if len(metadata) > MAX_COLLECTION_KEYS:
        raise too_many_collection_keys(len(metadata), "$.metadata")
    space = metadata.get(model.SPACE)
    if space is None:
        return metadata, request.distance or "cosine"
    path = f"$.metadata.{model.SPACE}"
    if space not in model.DISTANCES:
        raise InvalidMetadata.at(path, "A distance is 'cosine', 'l2' or 'ip'")
    if request.distance not in (None, space):
        raise InvalidMetadata.at(path, "'distance' and metadata 'hnsw:space' name different distances")
    return metadata, model.DISTANCES[space]


def _created(collection: model.Collection, status: str) -> CollectionCreated:
    return CollectionCreated(
        "created" if status == "created" else "exists",
        collection.name,
        collection.metadata,
        collection.dimension,
        collection.distance,
        UNSET if collection.distance == "cosine" else [NOT_NORMALISED],
    )


async def _count(store: Store, name: str) -> int | None:
    """The number of documents in a collection; None if Chroma fails to count them.

    A collection that Chroma cannot read must not make a list of collections fail, and must remain visible to clients
    that want to delete it.
    """
    try:
        return await store.count(name)
    except ChromaFailed:
        return None


def _with_count(collection: model.Collection, count: int | None) -> Collection:
    return Collection(
        collection.name,
        collection.metadata,
        count,
        collection.dimension,
        collection.distance,
        HnswParameters.of(collection.hnsw),
    )
