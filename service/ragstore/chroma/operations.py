"""The calls to Chroma, as values.

An `Operation[T]` holds the arguments of one call; `T` is its result. A backend has one method, `call(operation)`, a
layer is one method around it, and embedded Chroma's process receives the operation itself. The class of an
operation states what layers need to know of it.

A collection is addressed by id, except where it is looked up, created or deleted.
"""

from __future__ import annotations

from typing import ClassVar, Final, Generic, TypeVar

import msgspec

from ragstore.chroma.records import ChromaFilter, Column, QueryResult, RecordBatch, Records, UpsertMetadata
from ragstore.model.collections import DEFAULT_HNSW, Collection, Distance, HnswParameters, StoreStatus
from ragstore.model.metadata import CollectionMetadata
from ragstore.model.vectors import Matrix

T_co = TypeVar("T_co", covariant=True)


class Operation(msgspec.Struct, Generic[T_co], frozen=True, eq=False):
    """A call to Chroma; `T_co` is the type of its result."""

    name: ClassVar[str]
    """Its name in metrics and traces. These names are public."""

    retryable: ClassVar[bool] = True
    """Whether repeating it has the same effect and the same result as one call."""

    done_if_gone: ClassVar[bool] = False
    """Whether a repetition that finds the collection gone has succeeded, because an earlier attempt deleted it. Such an
    operation is repeated only when the connection was lost, so that the earlier attempt may have been applied."""

    is_probe: ClassVar[bool] = False
    """Whether it reports the state of Chroma at this moment: it is always sent, and sent once."""

    is_cached: ClassVar[bool] = False
    """Whether backends cache its result, so that it is usually no call to Chroma."""

    @property
    def collection(self) -> str:
        """Name or id of the collection; empty where it concerns none."""
        return ""

    @property
    def collection_name(self) -> str:
        """Name of the collection; empty where it is addressed by id, or concerns none."""
        return ""

    @property
    def size(self) -> int | None:
        """Number of the records, ids or query vectors it names; None where it names none."""
        return None

    @property
    def is_two_step_read(self) -> bool:
        """Whether Chroma's server reads in two steps, so that a concurrent write may fail the read or tear it."""
        return False


class _NamedCollection(Operation[T_co], Generic[T_co], frozen=True, eq=False):
    """An operation on a collection that is addressed by name."""

    collection_name: str

    @property
    def collection(self) -> str:
        """Name of the collection."""
        return self.collection_name


class _CollectionById(Operation[T_co], Generic[T_co], frozen=True, eq=False):
    """An operation on a collection that is addressed by id."""

    collection_id: str

    @property
    def collection(self) -> str:
        """Id of the collection."""
        return self.collection_id


class _RecordsById(_CollectionById[T_co], Generic[T_co], frozen=True, eq=False):
    """An operation on records with ids."""

    ids: list[str]

    @property
    def size(self) -> int:
        """Number of ids."""
        return len(self.ids)


# -- Chroma and its collections ---------------------------------------------------------------


class GetStatus(Operation[StoreStatus], frozen=True, eq=False):
    """Get Chroma's version and what it holds.

    Attributes:
        with_count: whether to count the collections, which takes a Chroma server 0.2 s for 2,000.
    """

    name = "status"
    is_probe = True

    with_count: bool = True


class GetMaxBatchSize(Operation[int], frozen=True, eq=False):
    """Get the maximum number of records in one write."""

    name = "max_batch_size"
    is_cached = True


class CreateCollection(_NamedCollection[Collection], frozen=True, eq=False):
    """Create a collection. CollectionExists when the name is taken."""

    name = "create_collection"
    retryable = False

    metadata: CollectionMetadata
    distance: Distance
    hnsw: HnswParameters = DEFAULT_HNSW


class GetCollection(_NamedCollection[Collection], frozen=True, eq=False):
    """Look a collection up. CollectionNotFound when it does not exist."""

    name = "get_collection"


class ListCollections(Operation[list[Collection]], frozen=True, eq=False):
    """List all collections, in Chroma's order."""

    name = "list_collections"


class CountCollections(Operation[int], frozen=True, eq=False):
    """Count the collections."""

    name = "count_collections"


class CountEach(Operation[dict[str, int]], frozen=True, eq=False):
    """Count the records of several collections.

    Returns the counts by collection id. A collection is left out if it is gone, if it must be counted by itself, or if
    there was no time left.

    Attributes:
        max_seconds: time after which no further collection is counted.
    """

    name = "count_each"

    collection_ids: list[str]
    max_seconds: float

    @property
    def size(self) -> int:
        """Number of collections."""
        return len(self.collection_ids)


class ReplaceMetadata(_CollectionById[None], frozen=True, eq=False):
    """Replace a collection's metadata, which may be empty."""

    name = "replace_metadata"

    metadata: CollectionMetadata


class ExchangeNames(_CollectionById[None], frozen=True, eq=False):
    """Give a copy the name of a collection, which gets a hidden name; see `rebuild_names`. For embedded Chroma only.

    Readers see either both changes or none.

    Attributes:
        copy_id: id of the copy.
        new_name: the name that the collection has.
        metadata: the metadata that the copy gets.
    """

    name = "exchange_names"
    retryable = False

    copy_id: str
    new_name: str
    metadata: CollectionMetadata


class RestoreNames(Operation[None], frozen=True, eq=False):
    """Undo an exchange of names that ended after its first step. For embedded Chroma only."""

    name = "restore_names"


class DeleteCollection(_NamedCollection[None], frozen=True, eq=False):
    """Delete a collection. CollectionNotFound when it does not exist."""

    name = "delete_collection"
    done_if_gone = True


# -- records ----------------------------------------------------------------------------------


class AddRecords(_CollectionById[None], frozen=True, eq=False):
    """Write records in one transaction; see `Backend.has_conditional_add` for ids that exist.

    The write tokens show afterwards which records this add wrote, which makes it retryable.

    Attributes:
        records: n records.
        write_tokens: n tokens: the same for records of one add, and used by no other add.
        may_split: whether a backend may use several transactions if one request to Chroma cannot hold the records.
    """

    name = "add"

    records: RecordBatch
    write_tokens: list[str]
    may_split: bool = False

    @property
    def size(self) -> int:
        """Number of records."""
        return len(self.write_tokens)


class GetWriteTokens(_RecordsById[dict[str, str | None]], frozen=True, eq=False):
    """Get which of some ids exist, with the token of the add that wrote them, if any."""

    name = "marks"


class UndoAdd(_RecordsById[None], frozen=True, eq=False):
    """Delete the records with these ids that the add with this token wrote."""

    name = "withdraw"

    write_token: str


class UpsertRecords(_CollectionById[Records | None], frozen=True, eq=False):
    """Write records in one transaction.

    Returns None if they were written; with `only_new`, the ids and metadata of the records that exist otherwise.

    Attributes:
        may_split: whether a backend may use several transactions if one request to Chroma cannot hold the records.
        only_new: whether nothing is written if one of the records exists. For embedded Chroma only.
    """

    name = "upsert"

    records: RecordBatch
    may_split: bool = False
    only_new: bool = False

    @property
    def size(self) -> int:
        """Number of records."""
        return len(self.records.ids)


class UpdateMetadatas(_RecordsById[None], frozen=True, eq=False):
    """Change the metadata of records in one transaction, and nothing else. Ids that do not exist are ignored.

    Attributes:
        ids: n ids.
        metadatas: n metadatas, which Chroma merges: null removes a key.
    """

    name = "update"

    metadatas: list[UpsertMetadata]


class GetRecords(_CollectionById[Records], frozen=True, eq=False):
    """Read records in insertion order, with the columns that are requested.

    Attributes:
        in_order: whether the order matters. Chroma returns one call's records in order, so it costs something only
            where one call cannot read them all.
    """

    name = "get"

    ids: list[str] | None = None
    where: ChromaFilter = None
    where_document: ChromaFilter = None
    limit: int | None = None
    offset: int = 0
    columns: tuple[Column, ...] = ()
    in_order: bool = True

    @property
    def size(self) -> int | None:
        """Number of ids; None where it names none."""
        return None if self.ids is None else len(self.ids)

    @property
    def is_two_step_read(self) -> bool:
        """Embeddings are read after the other columns."""
        return "embeddings" in self.columns


class CountRecords(_CollectionById[int], frozen=True, eq=False):
    """Count a collection's records."""

    name = "count"


class DeleteRecords(_RecordsById[None], frozen=True, eq=False):
    """Delete records. Ids that do not exist are ignored."""

    name = "delete"


class QueryRecords(_CollectionById[list[QueryResult]], frozen=True, eq=False):
    """Find the nearest records for each row of a matrix. Distances are always included.

    Attributes:
        matching_ids: ids of the records that the filters select, if they are known. Chroma then searches these, and
            does not evaluate the filters. RecordGone when one of them was deleted.
    """

    name = "query"

    embeddings: Matrix
    n_results: int
    where: ChromaFilter = None
    where_document: ChromaFilter = None
    columns: tuple[Column, ...] = ()
    matching_ids: list[str] | None = None

    @property
    def size(self) -> int:
        """Number of query vectors."""
        return len(self.embeddings)

    @property
    def is_two_step_read(self) -> bool:
        """Texts and metadata are read after the index was searched."""
        return True


OPERATIONS: Final[tuple[type[Operation[object]], ...]] = (
    GetStatus,
    GetMaxBatchSize,
    CreateCollection,
    GetCollection,
    ListCollections,
    CountCollections,
    CountEach,
    ReplaceMetadata,
    ExchangeNames,
    RestoreNames,
    DeleteCollection,
    AddRecords,
    GetWriteTokens,
    UndoAdd,
    UpsertRecords,
    UpdateMetadatas,
    GetRecords,
    CountRecords,
    DeleteRecords,
    QueryRecords,
)
"""All operations. The chain of layers is built for each of them."""
