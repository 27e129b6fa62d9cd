"""The words of the contract as structs: what goes in, and what comes out.

Answers ignore fields that this version does not know, so a newer service can say more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

if TYPE_CHECKING:
    from typing_extensions import Buffer

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
"""Anything that JSON can say."""

Where: TypeAlias = "Mapping[str, JSON]"
"""A filter: field names to values, operators (`$eq`, `$in`, ...) or, under `$and` and `$or`, further filters."""

Scalar: TypeAlias = str | int | float | bool
"""One metadata value."""

Metadata: TypeAlias = "Mapping[str, Scalar | Sequence[Scalar] | None]"
"""Metadata on its way in. None means "absent"; a list holds one type."""

StoredMetadata: TypeAlias = dict[str, Scalar | list[Scalar]]
"""Metadata as it comes back."""


class ArrayLike(Protocol):
    """numpy's arrays, for type checkers: to these they have a buffer from Python 3.12 on only."""

    def tobytes(self) -> bytes:
        """The raw values."""
        ...

    def tolist(self) -> object:
        """The values in a list."""
        ...


Embedding: TypeAlias = "Sequence[float] | Buffer | ArrayLike | str"
"""A vector on its way in: numbers, anything with a buffer of numbers (`array`, `memoryview`, numpy), raw little-endian
float32 `bytes`, or those bytes in base64 as a string."""

Distance: TypeAlias = Literal["cosine", "l2", "ip"]


class NewDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document to store.

    Attributes:
        text: the whole text of the segment.
        embedding: its vector, of the collection's dimension.
        id: the caller's id; the service makes one when it is None.
        metadata: what to filter by.
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
        embedding: its vector as float32 values, when it was asked for.
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
        count: how many documents it holds; None when Chroma fails to count them, as it does in a damaged collection.
        dimension: length of its vectors; None while it has never held one.
        distance: how it measures: `cosine`, `l2` or `ip`.
    """

    name: str
    metadata: StoredMetadata = {}
    count: int | None = 0
    dimension: int | None = None
    distance: str = "cosine"


class CollectionCreated(msgspec.Struct, frozen=True):
    """A collection that was created, or found by `get_or_create`.

    Attributes:
        status: `created`, or `exists`.
        name: its name.
        metadata: its metadata as stored.
        dimension: length of its vectors; None while it has never held one.
        distance: how it measures: `cosine`, `l2` or `ip`.
    """

    status: str
    name: str
    metadata: StoredMetadata = {}
    dimension: int | None = None
    distance: str = "cosine"


class CollectionPage(msgspec.Struct, frozen=True):
    """Some of the collections.

    Attributes:
        collections: this page.
        count: how many are on this page.
        total: how many there are.
    """

    collections: list[Collection]
    count: int
    total: int


class MetadataUpdated(msgspec.Struct, frozen=True):
    """A collection's metadata after an update.

    Attributes:
        status: `updated`.
        name: the collection.
        metadata: all of its metadata now.
        merge: whether the given metadata was merged into the old.
    """

    status: str
    name: str
    metadata: StoredMetadata
    merge: bool = False


class CollectionDeleted(msgspec.Struct, frozen=True):
    """A collection that is gone.

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
        count: how many there are.
    """

    field: str
    values: list[str]
    count: int


class DocumentsWritten(msgspec.Struct, frozen=True):
    """Documents that are stored now, all of them.

    Attributes:
        status: `added` or `upserted`.
        collection: where.
        count: how many.
        ids: their ids, in the order of the request.
    """

    status: str
    collection: str
    count: int
    ids: list[str]


class DocumentPage(msgspec.Struct, frozen=True):
    """Some of the matching documents, in insertion order.

    Attributes:
        documents: this page.
        count: how many are on this page.
        total: how many match in all; None when it was not asked for.
    """

    documents: list[Document]
    count: int
    total: int | None = None


class DocumentsDeleted(msgspec.Struct, frozen=True):
    """Documents that are gone.

    Attributes:
        status: `deleted`.
        collection: where.
        count: how many really were deleted.
    """

    status: str
    collection: str
    count: int


class CollectionEmptied(msgspec.Struct, frozen=True):
    """A collection without documents, its metadata and distance kept.

    Attributes:
        status: `emptied`.
        collection: which.
        count_deleted: how many documents it had.
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
        distance: how far it is, by the collection's measure; None when it is beyond what float32 can say.
        score: how near it is; 1 is the same direction for cosine.
        collection: where it was found, when several collections were asked.
        embedding: its vector, when it was asked for.
    """

    id: str
    text: str
    metadata: StoredMetadata = {}
    distance: float | None = None
    score: float | None = None
    collection: str | None = None
    embedding: list[float] | None = None


class CollectionError(msgspec.Struct, frozen=True):
    """A collection that could not be searched along with the others.

    Attributes:
        collection: which.
        status: the HTTP status that it would have got alone.
        detail: why.
    """

    collection: str
    status: int
    detail: str = ""


class QueryResults(msgspec.Struct, frozen=True):
    """What a similarity search in one collection found.

    Attributes:
        results: the matches, nearest first.
        count: how many.
        collection_metadata: the collection's metadata.
    """

    results: list[Match]
    count: int
    collection_metadata: StoredMetadata | None = None


class MultiQueryResults(msgspec.Struct, frozen=True):
    """What a similarity search in several collections found.

    Attributes:
        results: the matches of all, nearest first, each naming its collection.
        count: how many.
        errors: the collections that could not be searched.
    """

    results: list[Match]
    count: int
    errors: list[CollectionError] = []


class ServiceInfo(msgspec.Struct, frozen=True):
    """What the service says of itself.

    Attributes:
        name: its name.
        version: its version.
        links: where its documents are.
    """

    name: str
    version: str
    links: dict[str, str] = {}


class Probe(msgspec.Struct, frozen=True):
    """The answer of a liveness or readiness probe.

    Attributes:
        status: `alive`, `ready` or `unready`.
        error: why it is not ready.
    """

    status: str
    error: str | None = None


class HealthDetails(msgspec.Struct, frozen=True):
    """How Chroma is, behind the service.

    Attributes:
        store: `embedded` or `remote`.
        chroma_version: Chroma's version; None when it did not answer.
        storage_bytes: bytes on disk, with embedded Chroma.
    """

    store: str = ""
    chroma_version: str | None = None
    storage_bytes: int | None = None


class Health(msgspec.Struct, frozen=True):
    """How the service is.

    Attributes:
        status: `healthy` or `unhealthy`.
        timestamp: when it looked.
        version: its version.
        collections_count: how many collections there are; None when it could not tell.
        details: how Chroma is.
        error: why it is unhealthy.
    """

    status: Literal["healthy", "unhealthy"]
    timestamp: datetime
    version: str = ""
    collections_count: int | None = None
    details: HealthDetails = HealthDetails()
    error: str | None = None
