"""The types of the contract, as structs.

Unknown fields of a response are ignored, so that a newer service can send more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from ragstore_client._types import JSON as JSON
from ragstore_client._types import ArrayLike as ArrayLike
from ragstore_client._types import Base64 as Base64
from ragstore_client._types import Distance as Distance
from ragstore_client._types import Embedding as Embedding
from ragstore_client._types import FloatOrNaN as FloatOrNaN
from ragstore_client._types import Metadata as Metadata
from ragstore_client._types import Scalar as Scalar
from ragstore_client._types import StoredMetadata as StoredMetadata
from ragstore_client._types import Strings as Strings
from ragstore_client._types import Where as Where


def none_if_nan(number: float) -> float | None:
    """None for NaN, where a program that takes "unknown" as None needs it."""
    return None if math.isnan(number) else number


class NewDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document to store.

    Attributes:
        embedding: the vector, of the collection's dimension: a sequence of numbers, anything with a buffer of numbers
            (`array`, `memoryview`, numpy), little-endian float32 as `bytes`, or `Base64`.
        id: the id; the service generates one when it is None.
        metadata: values to filter by.
    """

    text: str
    embedding: Embedding
    id: str | None = None
    metadata: Metadata | None = None

    def __repr__(self) -> str:
        """The document without its text and its vector, which would fill a screen."""
        return f"NewDocument(id={self.id!r}, text=<{len(self.text)} characters>, metadata={self.metadata!r})"


NewDocumentLike: TypeAlias = NewDocument | Mapping[str, object]
"""A document to store, as a struct or as a mapping with the struct's fields."""


class Document(msgspec.Struct, frozen=True):
    """A stored document.

    Attributes:
        text: its text; empty when it has none, or was not requested.
        embedding: its vector as float32 values, when requested.
    """

    id: str
    text: str = ""
    metadata: StoredMetadata = {}
    embedding: list[float] | None = None


class Collection(msgspec.Struct, frozen=True):
    """A collection.

    Attributes:
        count: number of documents; None when Chroma fails to count them, as it does in a damaged collection.
        dimension: length of its vectors; None until the first document is stored.
        distance: the distance function: `cosine`, `l2` or `ip`.
        hnsw: parameters of Chroma's index; None if all have Chroma's default.
    """

    name: str
    metadata: StoredMetadata = {}
    count: int | None = 0
    dimension: int | None = None
    distance: Distance = "cosine"
    hnsw: HnswParameters | None = None


class HnswParameters(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Parameters of Chroma's index. Parameters that are None have Chroma's default.

    Attributes:
        ef_construction: candidates that are compared for each new document.
        max_neighbors: neighbours of each document in the graph.
        ef_search: candidates that are compared in a query.
    """

    ef_construction: int | None = None
    max_neighbors: int | None = None
    ef_search: int | None = None


class CollectionCreated(msgspec.Struct, frozen=True):
    """A collection that was created, or that existed with `get_or_create`.

    Attributes:
        status: `created`, or `exists`.
        metadata: its metadata as stored.
        dimension: length of its vectors; None until the first document is stored.
        distance: the distance function: `cosine`, `l2` or `ip`.
        warnings: reasons for incomplete results, with their remedies.
    """

    status: str
    name: str
    metadata: StoredMetadata = {}
    dimension: int | None = None
    distance: Distance = "cosine"
    warnings: list[str] = []


class CollectionPage(msgspec.Struct, frozen=True):
    """A page of collections.

    Attributes:
        collections: the collections of this page.
        count: number of collections on this page.
        total: number of all collections.
        uncounted: number of collections on this page whose `count` is None because counting would have taken more than
            2 seconds.
    """

    collections: list[Collection]
    count: int
    total: int
    uncounted: int = 0


class MetadataUpdated(msgspec.Struct, frozen=True):
    """A collection's metadata after an update.

    Attributes:
        status: `updated`.
        name: the collection.
        metadata: all metadata after the update.
        merge: whether the update was merged into the previous metadata.
    """

    status: str
    name: str
    metadata: StoredMetadata
    merge: bool = False


class CollectionDeleted(msgspec.Struct, frozen=True):
    """A deleted collection.

    Attributes:
        status: `deleted`.
        name: the collection.
    """

    status: str
    name: str


class IndexCheck(msgspec.Struct, frozen=True):
    """The documents that were looked for in an index by their own embedding.

    Attributes:
        sampled: number of documents that were looked for, at random.
        lost: number of these documents that the index did not find.
    """

    sampled: int
    lost: int


class RebuildError(msgspec.Struct, frozen=True):
    """Why a rebuild failed.

    Attributes:
        code: code of the problem.
        detail: the reason; for people.
    """

    code: str
    detail: str


class Rebuild(msgspec.Struct, frozen=True):
    """A rebuild of a collection's index.

    Attributes:
        collection: name of the collection.
        status: `running`, `completed` or `failed`.
        done: number of documents that the new index has.
        total: number of documents when the rebuild began.
        before: the check of the old index; None until it is complete.
        after: the check of the new index; None until it is complete.
        error: why the rebuild failed; the collection is unchanged then.
    """

    collection: str
    status: str
    done: int
    total: int
    before: IndexCheck | None = None
    after: IndexCheck | None = None
    error: RebuildError | None = None


class MetadataValues(msgspec.Struct, frozen=True):
    """The distinct values of one metadata field.

    Attributes:
        values: its values, sorted, as strings.
        count: number of values.
        typed_values: the values with their types, for filters, if they were requested with `typed=True`; None
            otherwise. Booleans come first, then numbers, then strings, each sorted.
    """

    field: str
    values: list[str]
    count: int
    typed_values: list[Scalar] | None = None


class CollectionMap(msgspec.Struct, frozen=True):
    """A map: a sample of the documents of a collection, placed by their embeddings.

    Attributes:
        ids: the ids of the documents, in insertion order: n points.
        x: the first principal component of each.
        y: the second principal component of each.
        neighbours: for each point, the indexes of its 15 nearest other points, nearest first; of all if there are
            fewer.
        distances: for each point, the distances of these neighbours.
        color: for each point, the value of the requested metadata field, None if the document does not have it; None
            without a field. Texts end after 200 characters, lists after 20 items.
        total: number of the documents that the map was sampled from.
        as_of: time in UTC at which the documents were read (RFC 3339).
    """

    ids: list[str]
    x: list[float]
    y: list[float]
    neighbours: list[list[int]]
    distances: list[list[float]]
    color: list[Scalar | list[Scalar] | None] | None
    total: int
    as_of: str


class WriteResult(msgspec.Struct, frozen=True):
    """The result of storing documents, all of them.

    Attributes:
        status: `added` or `upserted`.
        count: number of documents.
        ids: their ids, in the order of the request.
    """

    status: str
    collection: str
    count: int
    ids: list[str]


class DocumentsUpdated(msgspec.Struct, frozen=True):
    """The result of changing the metadata of documents, all of them.

    Attributes:
        status: `updated`.
        count: number of documents.
        mode: `merge` or `replace`.
    """

    status: str
    collection: str
    count: int
    mode: str = "merge"


class DocumentPage(msgspec.Struct, frozen=True):
    """A page of matching documents, in insertion order.

    Attributes:
        documents: the documents of this page.
        count: number of documents on this page.
        total: number of all matching documents; None when not requested.
        next: the cursor that lists the next page; None on the last one.
    """

    documents: list[Document]
    count: int
    total: int | None = None
    next: str | None = None


class DeleteResult(msgspec.Struct, frozen=True):
    """The result of deleting documents.

    Attributes:
        status: `deleted`.
        count: number of documents that existed and were deleted.
    """

    status: str
    collection: str
    count: int


class DeleteAllResult(msgspec.Struct, frozen=True):
    """The result of deleting all documents of a collection, which keeps its metadata and distance function.

    Attributes:
        status: `emptied`.
        count_deleted: number of deleted documents.
    """

    status: str
    collection: str
    count_deleted: int


class Match(msgspec.Struct, frozen=True):
    """A document that a similarity search found.

    Attributes:
        text: its text; empty when it was not requested.
        distance: its distance from the query; NaN, which no comparison finds, when float32 cannot represent it.
        score: its similarity to the query; for cosine, 1 is the same direction. NaN as above.
        collection: its collection, in a query of several collections.
        embedding: its vector, when requested.
    """

    id: str
    text: str = ""
    metadata: StoredMetadata = {}
    distance: FloatOrNaN = math.nan
    score: FloatOrNaN = math.nan
    collection: str | None = None
    embedding: list[float] | None = None

    def __post_init__(self) -> None:
        """Replace the contract's null by NaN, so that a distance can be compared without a check."""
        if self.distance is None:
            msgspec.structs.force_setattr(self, "distance", math.nan)
        if self.score is None:
            msgspec.structs.force_setattr(self, "score", math.nan)


class CollectionError(msgspec.Struct, frozen=True):
    """A collection that failed in a query of several collections.

    Attributes:
        status: the HTTP status that a query of this collection alone would return.
        detail: the explanation, for people to read.
        code: the machine-readable kind of problem, as `ProblemError.code`.
    """

    collection: str
    status: int
    detail: str = ""
    code: str | None = None


class QueryResults(msgspec.Struct, frozen=True):
    """The result of a similarity search in one collection.

    Attributes:
        results: the matches, nearest first.
        count: number of matches.
        collection_metadata: the collection's metadata.
    """

    results: list[Match]
    count: int
    collection_metadata: StoredMetadata | None = None


class MultiQueryResults(msgspec.Struct, frozen=True):
    """The result of a similarity search in several collections.

    Attributes:
        results: the matches of all collections, nearest first, each with its collection.
        count: number of matches.
        errors: the collections that failed.
    """

    results: list[Match]
    count: int
    errors: list[CollectionError] = []


class ServiceInfo(msgspec.Struct, frozen=True):
    """Service info.

    Attributes:
        name: name of the service.
        links: paths of its documentation.
    """

    name: str
    version: str
    links: dict[str, str] = {}


class Probe(msgspec.Struct, frozen=True):
    """The result of a liveness or readiness probe.

    Attributes:
        status: `alive`, `ready` or `unready`.
        error: why the service is not ready.
    """

    status: str
    error: str | None = None


class HealthDetails(msgspec.Struct, frozen=True):
    """The state of Chroma behind the service.

    Attributes:
        store: `embedded` or `remote`.
        chroma_version: Chroma's version; None when it did not respond.
        storage_bytes: size on disk, with embedded Chroma.
        reserved_prefixes: the reserved prefixes of collections, and whether this caller may write such collections. A
            service before 0.2 has none.
    """

    store: str = ""
    chroma_version: str | None = None
    storage_bytes: int | None = None
    reserved_prefixes: dict[str, bool] = {}


class Health(msgspec.Struct, frozen=True):
    """The service's health.

    Attributes:
        status: `healthy` or `unhealthy`.
        timestamp: time of the check.
        collections_count: number of collections; None when unknown.
        details: the state of Chroma.
        error: why the service is unhealthy.
    """

    status: Literal["healthy", "unhealthy"]
    timestamp: datetime
    version: str = ""
    collections_count: int | None = None
    details: HealthDetails = HealthDetails()
    error: str | None = None
