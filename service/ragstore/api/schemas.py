"""Request and response bodies of the contract, as structs.

Their docstrings and field descriptions are the texts of the OpenAPI document. `schema` adds what msgspec's schema
generator cannot derive from a type.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ragstore.filters.values import Scalar
from ragstore.kit.numbers import MAX_WHOLE, whole_number
from ragstore.kit.schema_marks import schema, whole
from ragstore.model import collections, rebuilds
from ragstore.model.collections import Distance
from ragstore.model.maps import MAX_POINTS
from ragstore.model.metadata import CollectionMetadata, NewMetadataValue
from ragstore.model.names import NAME_PATTERN, NAME_RULES
from ragstore.model.queries import CollectionError, Match
from ragstore.model.rebuilds import RebuildStatus

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
    str,
    Meta(min_length=1, description="Any non-empty text. It may contain `:` and `/`.", examples=["handbook:chunk:7"]),
]

PageLimit: TypeAlias = Annotated[
    float, whole(1, MAX_WHOLE, "Maximum number of documents on the page. Values above 1000 mean 1000.")
]
PageOffset: TypeAlias = Annotated[float, whole(0, MAX_WHOLE, "Number of matches to skip.")]
TopK: TypeAlias = Annotated[float, whole(1, MAX_TOP_K, "Maximum number of results.")]
IdsField: TypeAlias = Annotated[
    list[DocumentId], Meta(min_length=1, max_length=MAX_IDS, description="Restrict to these ids.")
]
EmbeddingField: TypeAlias = Annotated[list[float] | bytes, schema("Embedding")]
MetadataField: TypeAlias = Annotated[dict[str, NewMetadataValue] | None, schema("DocumentMetadata", optional=True)]
CollectionMetadataField: TypeAlias = Annotated[
    dict[str, Scalar | None] | None, schema("CollectionMetadata", optional=True)
]
WhereField: TypeAlias = Annotated[object, schema("Where", optional=True)]
WhereDocumentField: TypeAlias = Annotated[object, schema("WhereDocument", optional=True)]
Included: TypeAlias = Literal["embedding"]
Excluded: TypeAlias = Literal["text"]


# -- collections ------------------------------------------------------------------------------


class HnswParameters(Struct, frozen=True, omit_defaults=True):
    """Parameters of Chroma's index. Omitted parameters have Chroma's default."""

    ef_construction: (
        Annotated[
            float, whole(10, 2000, "Candidates that are compared for each new document. Chroma's default is 100.")
        ]
        | None
    ) = None
    max_neighbors: (
        Annotated[float, whole(2, 256, "Neighbours of each document in the graph. Chroma's default is 16.")] | None
    ) = None
    ef_search: (
        Annotated[float, whole(1, 10_000, "Candidates that are compared in a query. Chroma's default is 100.")] | None
    ) = None

    @classmethod
    def of(cls, parameters: collections.HnswParameters) -> HnswParameters | UnsetType:
        """The parameters of a collection; unset if all have Chroma's default."""
        return UNSET if parameters == collections.DEFAULT_HNSW else cls(**msgspec.to_builtins(parameters))

    def to_parameters(self) -> collections.HnswParameters:
        """The parameters as integers.

        Raises:
            InvalidRequest: one has a fraction.
        """
        given = {name: getattr(self, name) for name in self.__struct_fields__}
        return collections.HnswParameters(
            **{name: None if value is None else whole_number(value, f"$.hnsw.{name}") for name, value in given.items()}
        )


class NewCollection(Struct, frozen=True):
    """A collection to create."""

    name: Name
    metadata: CollectionMetadataField = None
    embedding_provider: Annotated[
        str | None, Meta(description="Stored as metadata `embedding_provider`, unvalidated; overrides that key.")
    ] = None
    embedding_model: Annotated[
        str | None, Meta(description="Stored as metadata `embedding_model`, unvalidated; overrides that key.")
    ] = None
    distance: Annotated[
        Distance | None,
        Meta(description="Immutable distance function. Defaults to metadata `hnsw:space`, or to `cosine` without it."),
    ] = None
    get_or_create: Annotated[bool, Meta(description="If the collection exists, return 200 instead of 409.")] = False
    hnsw: Annotated[
        HnswParameters | None,
        Meta(description="Parameters of Chroma's index. Only a rebuild of the index changes them."),
    ] = None


class MetadataUpdate(Struct, frozen=True):
    """New metadata of a collection."""

    metadata: Annotated[dict[str, Scalar | None], schema("CollectionMetadata")]


class Collection(Struct, frozen=True):
    """A collection."""

    name: Annotated[str, Meta(description="Its name.")]
    metadata: Annotated[CollectionMetadata, Meta(description="Its metadata.")]
    count: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(
            description="Number of documents; null if Chroma fails to count them, as in a damaged collection, and in a "
            "list if `counts` is false or the time was not sufficient."
        ),
    ]
    dimension: Annotated[
        int | None, Meta(description="Dimension of its embeddings; null until the first document is stored.")
    ]
    distance: Annotated[Distance, Meta(description="Its distance function.")]
    hnsw: Annotated[
        HnswParameters | UnsetType,
        Meta(description="Parameters of Chroma's index; absent if all have Chroma's default."),
    ] = UNSET


class CollectionCreated(Struct, frozen=True):
    """A collection that was created, or existed already."""

    status: Annotated[Literal["created", "exists"], Meta(description="`exists` only with `get_or_create`.")]
    name: Annotated[str, Meta(description="Its name.")]
    metadata: Annotated[CollectionMetadata, Meta(description="Its metadata as stored.")]
    dimension: Annotated[
        int | None, Meta(description="Dimension of its embeddings; null until the first document is stored.")
    ]
    distance: Annotated[Distance, Meta(description="Its distance function.")]
    warnings: Annotated[
        list[str] | UnsetType,
        Meta(description="Reasons for incomplete results, with their remedies; for people."),
    ] = UNSET


class CollectionPage(Struct, frozen=True):
    """A page of collections."""

    collections: Annotated[list[Collection], Meta(description="The collections on this page.")]
    count: Annotated[int, Meta(description="Number of collections on this page.", ge=0)]
    total: Annotated[int, Meta(description="Number of all collections.", ge=0)]
    uncounted: Annotated[
        Annotated[int, Meta(ge=1)] | UnsetType,
        Meta(
            description="Number of collections on this page whose documents were not counted, because it would take "
            "more than 2 s; absent if there are none. `counts=false` spares the time."
        ),
    ] = UNSET


class MetadataUpdated(Struct, frozen=True):
    """The metadata of a collection after an update."""

    status: Literal["updated"]
    name: Annotated[str, Meta(description="The collection.")]
    metadata: Annotated[CollectionMetadata, Meta(description="All its metadata after the update.")]
    merge: Annotated[bool, Meta(description="Whether the update was merged into the previous metadata.")]


class CollectionDeleted(Struct, frozen=True):
    """A collection that was deleted."""

    status: Literal["deleted"]
    name: Annotated[str, Meta(description="The collection.")]


class IndexCheck(Struct, frozen=True):
    """The documents that were looked for in an index by their own embedding."""

    sampled: Annotated[int, Meta(description="Number of documents that were looked for, at random.", ge=0)]
    lost: Annotated[int, Meta(description="Number of these documents that the index did not find.", ge=0)]


class RebuildError(Struct, frozen=True):
    """Why a rebuild failed."""

    code: Annotated[str, Meta(description="The code of the problem, as in a problem document.")]
    detail: Annotated[str, Meta(description="The reason; for people.")]


class Rebuild(Struct, frozen=True):
    """A rebuild of a collection's index."""

    collection: Annotated[str, Meta(description="The collection.")]
    status: Annotated[RebuildStatus, Meta(description="Whether it runs, or how it ended.")]
    done: Annotated[int, Meta(description="Number of documents that the new index has.", ge=0)]
    total: Annotated[int, Meta(description="Number of documents when the rebuild began.", ge=0)]
    before: Annotated[IndexCheck | UnsetType, Meta(description="The old index; absent until it is checked.")] = UNSET
    after: Annotated[
        IndexCheck | UnsetType,
        Meta(description="The new index; absent until it is checked, or if Chroma failed to check it."),
    ] = UNSET
    error: Annotated[
        RebuildError | UnsetType, Meta(description="Why it failed, with the collection unchanged; otherwise absent.")
    ] = UNSET

    @classmethod
    def of(cls, rebuild: rebuilds.Rebuild) -> Rebuild:
        """The state of a rebuild at this moment."""
        before, after, error = rebuild.before, rebuild.after, rebuild.error
        return cls(
            rebuild.collection,
            rebuild.status,
            rebuild.done,
            rebuild.total,
            UNSET if before is None else IndexCheck(*before),
            UNSET if after is None else IndexCheck(*after),
            UNSET if error is None else RebuildError(error.code, error.detail),
        )


class MetadataValues(Struct, frozen=True):
    """Distinct values of a metadata field."""

    field: Annotated[str, Meta(description="The field.")]
    values: Annotated[list[str], Meta(description="Its values as text, sorted. Items of lists count one by one.")]
    count: Annotated[int, Meta(description="Number of values in this response.", ge=0)]
    typed_values: Annotated[
        list[Scalar] | UnsetType,
        Meta(
            description="The same values with their types, for filters, if the request has `typed`: booleans, numbers, "
            "strings, each sorted. The number 1 and the text 1 are two values here."
        ),
    ] = UNSET


# -- documents --------------------------------------------------------------------------------


class NewDocument(Struct, frozen=True):
    """A document to store."""

    text: Annotated[str, Meta(description="The text.")]
    embedding: EmbeddingField
    id: Annotated[DocumentId | None, Meta(description="Generated if absent.")] = None
    metadata: MetadataField = None


class NewDocuments(Struct, frozen=True):
    """Documents to store. If one is invalid, none is stored."""

    documents: Annotated[
        list[NewDocument],
        Meta(min_length=1, description="At most 5,461 by default, with embeddings of one dimension and distinct ids."),
    ]


class WriteResult(Struct, frozen=True):
    """The result of storing documents."""

    status: Annotated[Literal["added", "upserted"], Meta(description="The operation.")]
    collection: Annotated[str, Meta(description="The collection.")]
    count: Annotated[int, Meta(description="Number of stored documents.", ge=1)]
    ids: Annotated[list[str], Meta(description="Their ids, in the order of the request.")]


class DocumentUpdate(Struct, frozen=True, forbid_unknown_fields=True):
    """New metadata of a stored document. Its text and its embedding stay as they are."""

    id: DocumentId
    metadata: Annotated[dict[str, NewMetadataValue], schema("DocumentMetadata")]


class DocumentUpdates(Struct, frozen=True, forbid_unknown_fields=True):
    """New metadata of documents. If one is invalid or does not exist, none is changed."""

    documents: Annotated[
        list[DocumentUpdate], Meta(min_length=1, description="At most 5,461 by default, with distinct ids.")
    ]
    mode: Annotated[
        Literal["merge", "replace"],
        Meta(
            description="`merge`: keys that are not named stay, and null removes a key (RFC 7396). "
            "`replace`: keys that are not named are removed, and null means absent."
        ),
    ]


class DocumentsUpdated(Struct, frozen=True):
    """The result of changing the metadata of documents."""

    status: Literal["updated"]
    collection: Annotated[str, Meta(description="The collection.")]
    count: Annotated[int, Meta(description="Number of documents.", ge=1)]
    mode: Annotated[Literal["merge", "replace"], Meta(description="As in the request.")]


class DocumentFilter(Struct, frozen=True):
    """The documents to list. An absent field does not restrict them."""

    where: WhereField = UNSET
    where_document: WhereDocumentField = UNSET
    ids: IdsField | None = None
    limit: PageLimit = 100
    offset: PageOffset = 0
    include: Annotated[list[Included], Meta(description="`embedding`: return the documents' embeddings.")] = []
    exclude: Annotated[list[Excluded], Meta(description="`text`: return empty texts.")] = []
    total: Annotated[bool, Meta(description="Whether to count all matches.")] = True
    after: Annotated[
        str | None,
        Meta(description="`next` of the previous page: list the page that follows. Without `offset`."),
    ] = None


class DeleteRequest(Struct, frozen=True):
    """Deletes the documents with these ids that the filter selects. One of the two is required."""

    ids: IdsField | None = None
    where: WhereField = UNSET


class DeleteResult(Struct, frozen=True):
    """The result of deleting documents."""

    status: Literal["deleted"]
    collection: Annotated[str, Meta(description="The collection.")]
    count: Annotated[int, Meta(description="Number of documents that existed and were deleted.", ge=0)]


class DeleteAllResult(Struct, frozen=True):
    """The result of deleting all documents of a collection."""

    status: Literal["emptied"]
    collection: Annotated[str, Meta(description="The collection.")]
    count_deleted: Annotated[int, Meta(description="Number of documents that existed and were deleted.", ge=0)]


# -- query ------------------------------------------------------------------------------------


class QueryBase(Struct, frozen=True, kw_only=True):
    """The fields of every similarity query."""

    query_embedding: EmbeddingField
    top_k: TopK = 5
    where: WhereField = UNSET
    where_document: WhereDocumentField = UNSET
    max_distance: Annotated[float | None, Meta(description="Exclude matches with a greater distance.")] = None
    min_score: Annotated[float | None, Meta(description="Exclude matches with a lower score.")] = None
    include: Annotated[list[Included], Meta(description="`embedding`: return the matches' embeddings.")] = []
    exclude: Annotated[list[Excluded], Meta(description="`text`: return empty texts.")] = []


class QueryRequest(QueryBase, frozen=True, kw_only=True):
    """A similarity query on one collection."""


class MultiQueryRequest(QueryBase, frozen=True, kw_only=True):
    """A similarity query on one `collection` or on several `collections`."""

    collection: Annotated[str | None, Meta(description="The collection.")] = None
    collections: (
        Annotated[
            list[str],
            Meta(min_length=1, max_length=MAX_COLLECTIONS, description="The collections. Duplicates count once."),
        ]
        | None
    ) = None


class QueryResults(Struct, frozen=True):
    """The matches of a query, nearest first."""

    results: Annotated[list[Match], Meta(description="The matches.")]
    count: Annotated[int, Meta(description="Number of matches.", ge=0)]
    collection_metadata: Annotated[CollectionMetadata, Meta(description="The collection's metadata.")]


class MultiQueryResults(Struct, frozen=True, omit_defaults=True):
    """The matches of a query on one or several collections, nearest first."""

    results: Annotated[list[Match], Meta(description="The matches, each with its collection.")]
    count: Annotated[int, Meta(description="Number of matches.", ge=0)]
    collection_metadata: Annotated[
        CollectionMetadata | UnsetType, Meta(description="The collection's metadata, in a query with `collection`.")
    ] = UNSET
    errors: Annotated[
        list[CollectionError] | UnsetType,
        Meta(description="The collections that failed, in a query with `collections`."),
    ] = UNSET


class MapRequest(Struct, frozen=True):
    """A map of a collection to make."""

    points: Annotated[
        float,
        whole(
            1,
            MAX_POINTS,
            "Maximum number of documents on the map. There are fewer if the collection has fewer, or if their "
            "embeddings had more than 8,000,000 numbers together.",
        ),
    ] = 2000
    where: WhereField = UNSET
    color: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(description="The metadata field whose values the map has for each document."),
    ] = None


# -- service ----------------------------------------------------------------------------------


class ServiceInfo(Struct, frozen=True):
    """Name, version and links of the service."""

    name: Literal["ragstore"]
    version: Annotated[str, Meta(description="The service's version.")]
    links: Annotated[dict[str, str], Meta(description="Paths by name.")]


class HealthDetails(Struct, frozen=True):
    """The state of Chroma."""

    store: Annotated[Literal["embedded", "remote"], Meta(description="The kind of Chroma in use.")]
    chroma_version: Annotated[str | None, Meta(description="Chroma's version; null if it did not respond.")]
    storage_bytes: Annotated[
        int | None,
        Meta(
            description="Size of embedded Chroma's database in bytes, without its index files. Null over a Chroma "
            "server, which does not report its size, if Chroma did not respond, and for keys that do not see all "
            "collections."
        ),
    ]
    reserved_prefixes: Annotated[
        dict[str, bool],
        Meta(description="The reserved prefixes of collections, and whether the caller may write such collections."),
    ] = {}


class Health(Struct, frozen=True, omit_defaults=True):
    """The health of the service."""

    status: Literal["healthy", "unhealthy"]
    timestamp: Annotated[str, Meta(description="Time of the check in UTC (RFC 3339).")]
    version: Annotated[str, Meta(description="The service's version.")]
    collections_count: Annotated[int | None, Meta(description="Number of collections; null if Chroma did not respond.")]
    details: Annotated[HealthDetails, Meta(description="The state of Chroma.")]
    error: Annotated[str | UnsetType, Meta(description="Why the service is unhealthy.")] = UNSET
    cause: Annotated[
        str | UnsetType,
        Meta(description="Why Chroma cannot be used, such as a refused connection; for an unrestricted admin."),
    ] = UNSET
