"""The types of the contract, as structs.

Unknown fields of a response are ignored, so that a newer service can send more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

if TYPE_CHECKING:
    from typing_extensions import Buffer

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
"""Any JSON value."""

Where: TypeAlias = "Mapping[str, JSON]"
"""A filter: field names to values, operators (`$eq`, `$in`, ...) or, under `$and` and `$or`, further filters."""

Scalar: TypeAlias = str | int | float | bool
"""One metadata value."""

Metadata: TypeAlias = "Mapping[str, Scalar | Sequence[Scalar] | None]"
"""Metadata to store. None means "absent"; the items of a list are of one type."""

StoredMetadata: TypeAlias = dict[str, Scalar | list[Scalar]]
"""Metadata as stored."""


class ArrayLike(Protocol):
    """numpy's arrays, for type checkers, which recognise their buffer only from Python 3.12 on."""

    def tobytes(self) -> bytes:
        """The raw values."""
        ...

    def tolist(self) -> object:
        """The values as a list."""
        ...


Embedding: TypeAlias = "Sequence[float] | Buffer | ArrayLike | str"
"""A vector to send: a sequence of numbers, anything with a buffer of numbers (`array`, `memoryview`, numpy),
little-endian float32 as `bytes`, or those bytes in base64 as a string."""

Distance: TypeAlias = Literal["cosine", "l2", "ip"]


class NewDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document to store.

    Attributes:
        text: the text.
        embedding: the vector, of the collection's dimension.
        id: the id; the service generates one when it is None.
        metadata: values to filter by.
    """

    text: str
    embedding: Embedding
    id: str | None = None
    metadata: Metadata | None = None


class Document(msgspec.Struct, frozen=True):
    """A stored document.

    Attributes:
        id: its id.
        text: its text; empty when it has none.
        metadata: its metadata.
        embedding: its vector as float32 values, when requested.
    """

    id: str
    text: str
    metadata: StoredMetadata = {}
    embedding: list[float] | None = None


class Collection(msgspec.Struct, frozen=True):
    """A collection.

    Attributes:
        name: its name.
        metadata: its metadata.
        count: number of documents; None when Chroma fails to count them, as it does in a damaged collection.
        dimension: length of its vectors; None until the first document is stored.
        distance: the distance function: `cosine`, `l2` or `ip`.
    """

    name: str
    metadata: StoredMetadata = {}
    count: int | None = 0
    dimension: int | None = None
    distance: str = "cosine"


class HnswParameters(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Parameters of Chroma's index. Those that are None have Chroma's default.

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
        name: its name.
        metadata: its metadata as stored.
        dimension: length of its vectors; None until the first document is stored.
        distance: the distance function: `cosine`, `l2` or `ip`.
        warnings: what may lead to incomplete results, and what to do about it.
    """

    status: str
    name: str
    metadata: StoredMetadata = {}
    dimension: int | None = None
    distance: str = "cosine"
    warnings: list[str] = []


class CollectionPage(msgspec.Struct, frozen=True):
    """A page of collections.

    Attributes:
        collections: the collections of this page.
        count: number of collections on this page.
        total: number of all collections.
    """

    collections: list[Collection]
    count: int
    total: int


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


class MetadataValues(msgspec.Struct, frozen=True):
    """The distinct values of one metadata field.

    Attributes:
        field: the field.
        values: its values, sorted, as strings.
        count: number of values.
    """

    field: str
    values: list[str]
    count: int


class WriteResult(msgspec.Struct, frozen=True):
    """The result of storing documents, all of them.

    Attributes:
        status: `added` or `upserted`.
        collection: the collection.
        count: number of documents.
        ids: their ids, in the order of the request.
    """

    status: str
    collection: str
    count: int
    ids: list[str]


class DocumentPage(msgspec.Struct, frozen=True):
    """A page of matching documents, in insertion order.

    Attributes:
        documents: the documents of this page.
        count: number of documents on this page.
        total: number of all matching documents; None when not requested.
    """

    documents: list[Document]
    count: int
    total: int | None = None


class DeleteResult(msgspec.Struct, frozen=True):
    """The result of deleting documents.

    Attributes:
        status: `deleted`.
        collection: the collection.
        count: number of documents that existed and were deleted.
    """

    status: str
    collection: str
    count: int


class DeleteAllResult(msgspec.Struct, frozen=True):
    """The result of deleting all documents of a collection, which keeps its metadata and distance function.

    Attributes:
        status: `emptied`.
        collection: the collection.
        count_deleted: number of deleted documents.
    """

    status: str
    collection: str
    count_deleted: int


class Match(msgspec.Struct, frozen=True):
    """A document that a similarity search found.

    Attributes:
        id: its id.
        text: its text.
        metadata: its metadata.
        distance: its distance from the query; None when float32 cannot represent it.
        score: its similarity to the query; for cosine, 1 is the same direction.
        collection: its collection, in a query of several collections.
        embedding: its vector, when requested.
    """

    id: str
    text: str
    metadata: StoredMetadata = {}
    distance: float | None = None
    score: float | None = None
    collection: str | None = None
    embedding: list[float] | None = None


class CollectionError(msgspec.Struct, frozen=True):
    """A collection that failed in a query of several collections.

    Attributes:
        collection: the collection.
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
        version: its version.
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
    """

    store: str = ""
    chroma_version: str | None = None
    storage_bytes: int | None = None


class Health(msgspec.Struct, frozen=True):
    """The service's health.

    Attributes:
        status: `healthy` or `unhealthy`.
        timestamp: time of the check.
        version: its version.
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
