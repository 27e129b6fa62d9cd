"""The code that runs in embedded Chroma's own process.

Chroma's Rust code holds Python's interpreter lock while it writes: 1,000 records stop every thread of a process for
half a second (measured with 1.5.9). So embedded Chroma gets a process to itself, and the service's event
loop keeps running.

Only this process imports `chromadb`. Operations and their results cross the process boundary; whatever Chroma raises
becomes a `ChromaProcessError`.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, ParamSpec, TypeVar, cast
from uuid import UUID

from chroma_repair.data_lock import DATABASE
from ragstore.chroma.collection_config import EMPTY_METADATA, index_configuration
from ragstore.chroma.embedded import collection_table
from ragstore.chroma.embedded.chroma_data import ChromaData
from ragstore.chroma.embedded.name_exchange import exchange_names, restore_names
from ragstore.chroma.operations import (
    AddRecords,
    CountCollections,
    CountEach,
    CountRecords,
    CreateCollection,
    DeleteCollection,
    DeleteRecords,
    ExchangeNames,
    GetCollection,
    GetMaxBatchSize,
    GetRecords,
    GetStatus,
    GetWriteTokens,
    ListCollections,
    Operation,
    QueryRecords,
    ReplaceMetadata,
    RestoreNames,
    UndoAdd,
    UpdateMetadatas,
    UpsertRecords,
)
from ragstore.chroma.records import QueryResult, RecordBatch, Records, query_results, to_matrix, to_metadatas, to_texts
from ragstore.kit.data_folder import usable_bytes
from ragstore.kit.file_limit import raise_file_limit
from ragstore.model.collections import Collection, StoreStatus

if TYPE_CHECKING:
    from chroma_repair.index_repair import RepairResult

P = ParamSpec("P")
T = TypeVar("T")

INDEX_EVICTED: Final = "Nothing found on disk"
"""Chroma's message for a collection whose index it has evicted and had never saved. Its maximum number of indexes in
memory is a fifth of the open files that its process may have. Only reopening helps (measured with 1.5.9)."""


class ChromaProcessError(Exception):
    """An operation failed in Chroma's process.

    Args:
        kind: name of the type of Chroma's error.
        text: its message.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)
        self.kind = kind
        self.text = text


class OpenedData(NamedTuple):
    """The state in which data was when it was opened.

    Attributes:
        repaired: the collections that were damaged.
        was_unclean: whether the process that had the data open before did not close it.
    """

    repaired: list[RepairResult]
    was_unclean: bool


_chroma: ChromaData | None = None


# -- called by the parent ---------------------------------------------------------------------


def prepare() -> None:
    """Set the process up: leave signals to the parent, and end when the parent ends, however it ends.

    The limit of open files is raised as far as the system permits: Chroma has a fifth as many indexes in memory, and
    has to be reopened for collections whose index it has evicted and never saved.
    """
    raise_file_limit()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True, name="end-with-parent").start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)


def _translates_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Turn whatever a function raises into an error that can cross to the parent."""

    @functools.wraps(function)
    def translating(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except ChromaProcessError:
            raise
        # Chroma's Rust code panics on some input, and the panic is a BaseException.
        except BaseException as error:  # noqa: BLE001
            raise ChromaProcessError(type(error).__name__, str(error)) from None

    return translating


@_translates_errors
def open_chroma(path: str, tenant: str, database: str, sync_threshold: int) -> OpenedData:
    """Open the data, once, and repair what a kill has damaged.

    Args:
        path: folder of the data.
        tenant: Chroma tenant.
        database: Chroma database.
        sync_threshold: writes to a new collection after which Chroma saves its index.

    Returns:
        The damage that was found.

    Raises:
        ChromaProcessError: the folder cannot be used; its kind is `DataInUse` when another process has locked it.
    """
    global _chroma
    if _chroma is None:
        _chroma = ChromaData(path, tenant, database, sync_threshold)
    return OpenedData(_chroma.repaired, _chroma.was_unclean)


@_translates_errors
def execute(operation: Operation[T]) -> T:
    """Execute an operation.

    Raises:
        ChromaProcessError: it failed.
    """
    if _chroma is None:
        raise ChromaProcessError("NotOpen", "Chroma is not open")
    _chroma.reopen_if_needed()
    try:
        return cast("T", _execute(operation, _chroma))
    except Exception as error:
        _chroma.note_failure(str(error))
        if INDEX_EVICTED not in str(error) or not operation.retryable:
            raise
        _chroma.reopen()
        return cast("T", _execute(operation, _chroma))


@functools.singledispatch
def _execute(operation: Operation[object], chroma: ChromaData) -> object:
    """Execute an operation. There is one function for each."""
    raise NotImplementedError(type(operation).__name__)


# -- Chroma and its collections ---------------------------------------------------------------


@_execute.register(GetStatus)
def _get_status(operation: GetStatus, chroma: ChromaData) -> StoreStatus:
    """The folder is not walked: it may have tens of thousands of entries, and other calls wait."""
    size = usable_bytes(Path(chroma.path) / DATABASE)
    return StoreStatus("embedded", chroma.api.get_version(), _count_collections(CountCollections(), chroma), size)


@_execute.register(GetMaxBatchSize)
def _get_max_batch_size(operation: GetMaxBatchSize, chroma: ChromaData) -> int:
    return chroma.api.get_max_batch_size()


@_execute.register(CreateCollection)
def _create_collection(operation: CreateCollection, chroma: ChromaData) -> Collection:
    configuration = index_configuration(operation.distance, chroma.sync_threshold, operation.hnsw)
    created = chroma.api.create_collection(
        operation.collection_name,
        configuration=configuration,
        metadata=operation.metadata or None,
        **chroma.scope,
    )
    return chroma.collection_of(created)


@_execute.register(GetCollection)
def _get_collection(operation: GetCollection, chroma: ChromaData) -> Collection:
    return chroma.collection_of(chroma.api.get_collection(operation.collection_name, **chroma.scope))


@_execute.register(ListCollections)
def _list_collections(operation: ListCollections, chroma: ChromaData) -> list[Collection]:
    return chroma.collections()


@_execute.register(CountCollections)
def _count_collections(operation: CountCollections, chroma: ChromaData) -> int:
    count = collection_table.count_collections(Path(chroma.path), chroma.scope["tenant"], chroma.scope["database"])
    return chroma.api.count_collections(**chroma.scope) if count is None else count


@_execute.register(CountEach)
def _count_each(operation: CountEach, chroma: ChromaData) -> dict[str, int]:
    return chroma.record_counts.count(operation.collection_ids, operation.max_seconds)


@_execute.register(ReplaceMetadata)
def _replace_metadata(operation: ReplaceMetadata, chroma: ChromaData) -> None:
    metadata = dict(operation.metadata or EMPTY_METADATA)
    chroma.api._modify(UUID(operation.collection_id), new_metadata=metadata, **chroma.scope)


@_execute.register(ExchangeNames)
def _exchange_names(operation: ExchangeNames, chroma: ChromaData) -> None:
    exchange_names(chroma.api, chroma.scope, operation)


@_execute.register(RestoreNames)
def _restore_names(operation: RestoreNames, chroma: ChromaData) -> None:
    restore_names(chroma.api, chroma.scope, chroma.collections())


@_execute.register(DeleteCollection)
def _delete_collection(operation: DeleteCollection, chroma: ChromaData) -> None:
    chroma.api.delete_collection(operation.collection_name, **chroma.scope)


# -- records ----------------------------------------------------------------------------------


def _write(chroma: ChromaData, collection_id: str, records: RecordBatch, uris: list[str] | None) -> None:
    chroma.api._upsert(
        UUID(collection_id),
        ids=records.ids,
        embeddings=list(records.embeddings),
        metadatas=list(records.metadatas),
        documents=[str(text) for text in records.texts],
        uris=uris,
        **chroma.scope,
    )


@_execute.register(AddRecords)
def _add_records(operation: AddRecords, chroma: ChromaData) -> None:
    """Write records that were looked up. No other process has this data, so their ids are still free.

    They get write tokens nevertheless, in their `uris`, which nothing else here uses: Chroma may report a write as
    failed that it has applied, when there is no room for its next step, and the token shows a second attempt that the
    first one wrote the records.
    """
    _write(chroma, operation.collection_id, operation.records, operation.write_tokens)


@_execute.register(GetWriteTokens)
def _get_write_tokens(operation: GetWriteTokens, chroma: ChromaData) -> dict[str, str | None]:
    found = chroma.read(operation.collection_id, ("uris",), ids=operation.ids)
    return dict(zip(found["ids"], found["uris"] or [], strict=True))


@_execute.register(UpsertRecords)
def _upsert_records(operation: UpsertRecords, chroma: ChromaData) -> Records | None:
    if operation.only_new:
        look_up = GetRecords(operation.collection_id, operation.records.ids, columns=("metadatas",))
        if (present := _get_records(look_up, chroma)).ids:
            return present
    _write(chroma, operation.collection_id, operation.records, None)
    return None


@_execute.register(UpdateMetadatas)
def _update_metadatas(operation: UpdateMetadatas, chroma: ChromaData) -> None:
    chroma.api._update(UUID(operation.collection_id), ids=operation.ids, metadatas=operation.metadatas, **chroma.scope)


@_execute.register(DeleteRecords)
@_execute.register(UndoAdd)
def _delete_records(operation: DeleteRecords | UndoAdd, chroma: ChromaData) -> None:
    """An add that is undone was the only write of its records, as no other process has this data."""
    chroma.api._delete(UUID(operation.collection_id), ids=operation.ids, **chroma.scope)


@_execute.register(GetRecords)
def _get_records(operation: GetRecords, chroma: ChromaData) -> Records:
    found = chroma.read(
        operation.collection_id,
        operation.columns,
        ids=operation.ids,
        where=operation.where,
        where_document=operation.where_document,
        limit=operation.limit,
        offset=operation.offset,
    )
    return Records(
        found["ids"],
        to_texts(found["documents"]),
        to_metadatas(found["metadatas"]),
        to_matrix(found["embeddings"]) if "embeddings" in operation.columns else None,
    )


@_execute.register(CountRecords)
def _count_records(operation: CountRecords, chroma: ChromaData) -> int:
    return chroma.api._count(UUID(operation.collection_id), **chroma.scope)


@_execute.register(QueryRecords)
def _query_records(operation: QueryRecords, chroma: ChromaData) -> list[QueryResult]:
    is_known = operation.matching_ids is not None
    found = chroma.api._query(
        UUID(operation.collection_id),
        query_embeddings=list(operation.embeddings),
        n_results=operation.n_results,
        ids=operation.matching_ids,
        where=None if is_known else operation.where,
        where_document=None if is_known else operation.where_document,
        include=[*operation.columns, "distances"],
        **chroma.scope,
    )
    return query_results(found["ids"], found["documents"], found["metadatas"], found["embeddings"], found["distances"])
