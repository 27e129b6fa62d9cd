"""The contract's words: bodies of requests and responses as structs.

Their docstrings and field descriptions are the text of the OpenAPI document; `schema` holds what msgspec's own schema
generator cannot tell from a type.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from ragstore.kit.schema_marks import schema, whole
from ragstore.model.collections import Distance
from ragstore.model.metadata import CollectionMetadata, GivenValue, Scalar
from ragstore.model.names import NAME_PATTERN, NAME_RULES
from ragstore.model.numbers import MAX_WHOLE
from ragstore.model.queries import CollectionError, Match

MAX_TOP_K: Final = 1000
MAX_IDS: Final = 10_000
MAX_COLLECTIONS: Final = 256


Name: TypeAlias = Annotated[
    str,
    Meta(
        description=NAME_RULES + ".",
        examples=["handbook"],
        extra_json_schema={"pattern": NAME_PATTERN, "minLength": 3, "maxLength": 512},
    ),
]
DocumentId: TypeAlias = Annotated[
    str, Meta(min_length=1, description="Any non-empty text; it may hold `:` and `/`.", examples=["handbook:chunk:7"])
]


PageLimit: TypeAlias = Annotated[
    float, whole(1, MAX_WHOLE, "Most documents in the page; more than 1000 counts as 1000.")
]
PageOffset: TypeAlias = Annotated[float, whole(0, MAX_WHOLE, "Matches to pass over.")]
TopK: TypeAlias = Annotated[float, whole(1, MAX_TOP_K, "Most results.")]
GivenIds: TypeAlias = Annotated[list[DocumentId], Meta(min_length=1, max_length=MAX_IDS, description="Only these ids.")]
GivenEmbedding: TypeAlias = Annotated[list[float] | bytes, schema("Embedding")]
GivenMetadata: TypeAlias = Annotated[dict[str, GivenValue] | None, schema("DocumentMetadata", optional=True)]
GivenCollectionMetadata: TypeAlias = Annotated[
    dict[str, Scalar | None] | None, schema("CollectionMetadata", optional=True)
]
GivenWhere: TypeAlias = Annotated[object, schema("Where", optional=True)]
GivenWhereDocument: TypeAlias = Annotated[object, schema("WhereDocument", optional=True)]
Included: TypeAlias = Literal["embedding"]


# -- collections ------------------------------------------------------------------------------


class NewCollection(Struct, frozen=True):
    """A collection to create."""

    name: Name
    metadata: GivenCollectionMetadata = None
    embedding_provider: Annotated[
        str | None, Meta(description="Stored as metadata `embedding_provider`, whatever it says; wins over that key.")
    ] = None
    embedding_model: Annotated[
        str | None, Meta(description="Stored as metadata `embedding_model`, whatever it says; wins over that key.")
    ] = None
    distance: Annotated[
        Distance | None,
        Meta(
            description="How embeddings are compared, for good. `cosine` unless metadata `hnsw:space` says otherwise."
        ),
    ] = None
    get_or_create: Annotated[bool, Meta(description="Answer 200 instead of 409 when the collection exists.")] = False


class MetadataUpdate(Struct, frozen=True):
    """New metadata of a collection."""

    metadata: Annotated[dict[str, Scalar | None], schema("CollectionMetadata")]


class Collection(Struct, frozen=True):
    """A collection as it stands."""

    name: Annotated[str, Meta(description="Its name.")]
    metadata: Annotated[CollectionMetadata, Meta(description="Its metadata.")]
    count: Annotated[int, Meta(description="Documents in it.", ge=0)]
    dimension: Annotated[int | None, Meta(description="Of its embeddings; null until the first document came.")]
    distance: Annotated[Distance, Meta(description="How its embeddings are compared.")]


class CollectionCreated(Struct, frozen=True):
    """A collection was created, or was there already."""

    status: Annotated[Literal["created", "exists"], Meta(description="`exists` only with `get_or_create`.")]
    name: Annotated[str, Meta(description="Its name.")]
    metadata: Annotated[CollectionMetadata, Meta(description="Its metadata as stored.")]
    dimension: Annotated[int | None, Meta(description="Of its embeddings; null until the first document came.")]
    distance: Annotated[Distance, Meta(description="How its embeddings are compared.")]


class CollectionPage(Struct, frozen=True):
    """Collections, a page of them or all."""

    collections: Annotated[list[Collection], Meta(description="The page.")]
    count: Annotated[int, Meta(description="Collections in this page.", ge=0)]
    total: Annotated[int, Meta(description="Collections altogether.", ge=0)]


class MetadataUpdated(Struct, frozen=True):
    """A collection's metadata was updated."""

    status: Literal["updated"]
    name: Annotated[str, Meta(description="The collection.")]
    metadata: Annotated[CollectionMetadata, Meta(description="Its metadata as stored now.")]
    merge: Annotated[bool, Meta(description="Whether the old metadata was merged into.")]


class CollectionDeleted(Struct, frozen=True):
    """A collection was deleted."""

    status: Literal["deleted"]
    name: Annotated[str, Meta(description="The collection.")]


class MetadataValues(Struct, frozen=True):
    """Distinct values of a metadata field."""

    field: Annotated[str, Meta(description="The field.")]
    values: Annotated[list[str], Meta(description="Its values as text, sorted; members of lists count one by one.")]
    count: Annotated[int, Meta(description="Values in this answer.", ge=0)]


# -- documents --------------------------------------------------------------------------------


class NewDocument(Struct, frozen=True):
    """A document to store."""

    text: Annotated[str, Meta(description="The text.")]
    embedding: GivenEmbedding
    id: Annotated[DocumentId | None, Meta(description="Made up when absent.")] = None
    metadata: GivenMetadata = None


class NewDocuments(Struct, frozen=True):
    """Documents to store: all of them or, if anything is wrong, none."""

    documents: Annotated[
        list[NewDocument],
        Meta(min_length=1, description="At most 5,461 by default. Embeddings of one dimension, ids all different."),
    ]


class WriteResult(Struct, frozen=True):
    """Documents were written."""

    status: Annotated[Literal["added", "upserted"], Meta(description="What was done.")]
    collection: Annotated[str, Meta(description="The collection.")]
    count: Annotated[int, Meta(description="Documents written.", ge=1)]
    ids: Annotated[list[str], Meta(description="Their ids, in the order of the request.")]


class DocumentFilter(Struct, frozen=True):
    """Which documents to list; what is absent does not restrict."""

    where: GivenWhere = UNSET
    where_document: GivenWhereDocument = UNSET
    ids: GivenIds | None = None
    limit: PageLimit = 100
    offset: PageOffset = 0
    include: Annotated[list[Included], Meta(description="`embedding`: documents carry theirs.")] = []
    total: Annotated[bool, Meta(description="Whether to count all matches.")] = True


class DeleteRequest(Struct, frozen=True):
    """Which documents to delete: those with these ids that the filter selects. One of the two must be given."""

    ids: GivenIds | None = None
    where: GivenWhere = UNSET


class DeleteResult(Struct, frozen=True):
    """Documents were deleted."""

    status: Literal["deleted"]
    collection: Annotated[str, Meta(description="The collection.")]
    count: Annotated[int, Meta(description="Documents that were there and are no more.", ge=0)]


class DeleteAllResult(Struct, frozen=True):
    """All documents of a collection were deleted."""

    status: Literal["emptied"]
    collection: Annotated[str, Meta(description="The collection.")]
    count_deleted: Annotated[int, Meta(description="Documents that were there and are no more.", ge=0)]


# -- query ------------------------------------------------------------------------------------


class QueryBase(Struct, frozen=True, kw_only=True):
    """What a query asks, wherever it asks it."""

    query_embedding: GivenEmbedding
    top_k: TopK = 5
    where: GivenWhere = UNSET
    where_document: GivenWhereDocument = UNSET
    max_distance: Annotated[float | None, Meta(description="Leave out what is further away.")] = None
    min_score: Annotated[float | None, Meta(description="Leave out what scores less.")] = None
    include: Annotated[list[Included], Meta(description="`embedding`: results carry theirs.")] = []


class QueryRequest(QueryBase, frozen=True, kw_only=True):
    """A similarity query on one collection."""


class MultiQueryRequest(QueryBase, frozen=True, kw_only=True):
    """A similarity query on one `collection`, or on several `collections` at once."""

    collection: Annotated[str | None, Meta(description="The collection.")] = None
    collections: (
        Annotated[
            list[str],
            Meta(min_length=1, max_length=MAX_COLLECTIONS, description="The collections; a name twice counts once."),
        ]
        | None
    ) = None


class QueryResults(Struct, frozen=True):
    """What a query found, nearest first."""

    results: Annotated[list[Match], Meta(description="The hits.")]
    count: Annotated[int, Meta(description="How many.", ge=0)]
    collection_metadata: Annotated[CollectionMetadata, Meta(description="The collection's metadata.")]


class MultiQueryResults(Struct, frozen=True, omit_defaults=True):
    """What a query found in one or several collections, nearest first."""

    results: Annotated[list[Match], Meta(description="The hits, each naming its collection.")]
    count: Annotated[int, Meta(description="How many.", ge=0)]
    collection_metadata: Annotated[
        CollectionMetadata | UnsetType, Meta(description="The collection's metadata, when one `collection` was asked.")
    ] = UNSET
    errors: Annotated[
        list[CollectionError] | UnsetType,
        Meta(description="The collections that failed, when several were asked."),
    ] = UNSET


# -- service ----------------------------------------------------------------------------------


class ServiceInfo(Struct, frozen=True):
    """What this is and where to look."""

    name: Literal["ragstore"]
    version: Annotated[str, Meta(description="The service's version.")]
    links: Annotated[dict[str, str], Meta(description="Paths by what stands there.")]


class HealthDetails(Struct, frozen=True):
    """How Chroma is."""

    store: Annotated[Literal["embedded", "remote"], Meta(description="Which kind of Chroma is used.")]
    chroma_version: Annotated[str | None, Meta(description="Chroma's version; null when it did not answer.")]
    storage_bytes: Annotated[int | None, Meta(description="Bytes on disk, with embedded Chroma.")]


class Health(Struct, frozen=True, omit_defaults=True):
    """Whether the service can do its work."""

    status: Literal["healthy", "unhealthy"]
    timestamp: Annotated[str, Meta(description="When this was found, in UTC (RFC 3339).")]
    version: Annotated[str, Meta(description="The service's version.")]
    collections_count: Annotated[int | None, Meta(description="Collections; null when Chroma did not answer.")]
    details: Annotated[HealthDetails, Meta(description="How Chroma is.")]
    error: Annotated[str | UnsetType, Meta(description="Why it is unhealthy.")] = UNSET
