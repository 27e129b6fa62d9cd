"""The code that runs in embedded Chroma's own process.

Chroma's Rust code holds Python's interpreter lock while it writes: 1,000 records stop every thread of a process for
half a second (measured with 1.5.9). So embedded Chroma gets a process to itself, and the service's event
loop keeps running.

Only this process imports `chromadb`. Operations and their results cross the process boundary; whatever Chroma raises
becomes a `ChromaProcessError`.
"""

from __future__ import annotations

import atexit
import functools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, ParamSpec, TypeVar, cast
from uuid import UUID

from chroma_repair.data_lock import DATABASE, lock_data
from chroma_repair.orphans import remove_orphans
from chroma_repair.unclean_shutdown import DirtyMarker
from ragstore.chroma.collection_config import EMPTY_METADATA, distance_of, hnsw_of, index_configuration
from ragstore.chroma.embedded import collection_table, legacy_collections
from ragstore.chroma.embedded.api import ChromaApi, ChromaCollection, GetResult, Scope, open_api
from ragstore.chroma.embedded.name_exchange import exchange_names, restore_names
from ragstore.chroma.embedded.process_files import FileWatch
from ragstore.chroma.errors import DISK_FULL
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


DATABASE_FAILED: Final = (*DISK_FULL, "disk I/O error", "Failed to apply logs to the metadata segment")
"""Parts of Chroma's messages when SQLite could not write. SQLite has then ended the transaction itself
(https://www.sqlite.org/lang_transaction.html#response_to_errors_within_a_transaction), and Chroma uses the
connection again: it acknowledges writes that it never commits, and then hangs (measured with 1.5.9). Only reopening
helps."""


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
    """Open data.

    Attributes:
        repaired: the collections that were damaged.
        was_unclean: whether the process that had the data open before did not close it.
    """

    repaired: list[RepairResult]
    was_unclean: bool


class _Chroma:
    """Open data.

    Args:
        path: its folder.
        tenant: Chroma tenant; created when it does not exist.
        database: Chroma database; created when it does not exist.
        sync_threshold: writes to a new collection after which Chroma saves its index.
    """

    def __init__(self, path: str, tenant: str, database: str, sync_threshold: int) -> None:
        self.lock = lock_data(Path(path))
        self.path = path
        self.scope: Scope = {"tenant": tenant, "database": database}
        self.sync_threshold = sync_threshold
        marker = DirtyMarker(Path(path))
        self.was_unclean = marker.found
        self.repaired = marker.repair()
        marker.write()
        remove_orphans(Path(path))
        self._files = FileWatch()
        self._must_reopen = False
        self.api: ChromaApi = open_api(path)
        self.record_counts = collection_table.RecordCounts(Path(path))
        self.legacy_distances = legacy_collections.distances(Path(path))
        _ensure(lambda: self.api.get_tenant(tenant), lambda: self.api.create_tenant(tenant))
        _ensure(lambda: self.api.get_database(database, tenant), lambda: self.api.create_database(database, tenant))
        _restore_names(RestoreNames(), self)
        if marker.found:
            self._try_collections(marker)
        atexit.register(marker.remove)

    def reopen(self) -> None:
        """Close all indexes and the database, and open the data again. It takes 25 ms (1.5.9)."""
        self._must_reopen = True
        # A reopening that failed has closed the data.
        with suppress(AttributeError):
            self.api.stop()
        self.api.start()
        self._must_reopen = False

    def reopen_if_needed(self) -> None:
        """Reopen the data if its database failed, or if the next call might not be able to open a file."""
        if self._must_reopen or self._files.is_exceeded():
            self.reopen()

    def note_failure(self, text: str) -> None:
        """Have the data reopened before the next call, if its database failed.

        Args:
            text: Chroma's message.
        """
        if any(sign in text for sign in DATABASE_FAILED):
            self._must_reopen = True

    def _try_collections(self, marker: DirtyMarker) -> None:
        """After an unclean shutdown, have Chroma open every index.

        It rebuilds the repaired ones, which would take longer than the timeout of a call. Some indexes are damaged in a
        way that their files do not show, and Chroma fails or crashes on them: this process then ends, and the next one
        rebuilds the index that the marker names.
        """
        from chromadb.errors import ChromaError

        for collection in self.api.list_collections(None, 0, **self.scope):
            was_suspected = collection.name in marker.suspect_collections
            marker.write("" if was_suspected else collection.name)
            self.reopen_if_needed()
            try:
                _read(self, str(collection.id), ("embeddings",), limit=1)
            except ChromaError:
                if not was_suspected:
                    os._exit(1)
        marker.write()


def _ensure(look_up: Callable[[], object], create: Callable[[], object]) -> None:
    from chromadb.errors import NotFoundError

    try:
        look_up()
    except NotFoundError:
        create()


_chroma: _Chroma | None = None


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
        _chroma = _Chroma(path, tenant, database, sync_threshold)
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
def _execute(operation: Operation[object], chroma: _Chroma) -> object:
    """Execute an operation. There is one function for each."""
    raise NotImplementedError(type(operation).__name__)


# -- Chroma and its collections ---------------------------------------------------------------


def _collection(found: ChromaCollection, chroma: _Chroma) -> Collection:
    legacy = chroma.legacy_distances.get(str(found.id))
    distance = legacy or distance_of(found.configuration_json)
    hnsw = hnsw_of(found.configuration_json)
    metadata = found.metadata or {}
    return Collection(str(found.id), found.name, metadata, found.dimension, distance, legacy is not None, hnsw)


@_execute.register(GetStatus)
def _get_status(operation: GetStatus, chroma: _Chroma) -> StoreStatus:
    """The folder is not walked: it may have tens of thousands of entries, and other calls wait."""
    size = usable_bytes(Path(chroma.path) / DATABASE)
    return StoreStatus("embedded", chroma.api.get_version(), _count_collections(CountCollections(), chroma), size)


@_execute.register(GetMaxBatchSize)
def _get_max_batch_size(operation: GetMaxBatchSize, chroma: _Chroma) -> int:
    return chroma.api.get_max_batch_size()


@_execute.register(CreateCollection)
def _create_collection(operation: CreateCollection, chroma: _Chroma) -> Collection:
    configuration = index_configuration(operation.distance, chroma.sync_threshold, operation.hnsw)
    created = chroma.api.create_collection(
        operation.collection_name,
        configuration=configuration,
        metadata=operation.metadata or None,
        **chroma.scope,
    )
    return _collection(created, chroma)


@_execute.register(GetCollection)
def _get_collection(operation: GetCollection, chroma: _Chroma) -> Collection:
    return _collection(chroma.api.get_collection(operation.collection_name, **chroma.scope), chroma)


@_execute.register(ListCollections)
def _list_collections(operation: ListCollections, chroma: _Chroma) -> list[Collection]:
    tenant, database = chroma.scope["tenant"], chroma.scope["database"]
    listed = collection_table.list_collections(Path(chroma.path), tenant, database, chroma.legacy_distances)
    if listed is not None:
        return listed
    return [_collection(found, chroma) for found in chroma.api.list_collections(None, 0, **chroma.scope)]


@_execute.register(CountCollections)
def _count_collections(operation: CountCollections, chroma: _Chroma) -> int:
    count = collection_table.count_collections(Path(chroma.path), chroma.scope["tenant"], chroma.scope["database"])
    return chroma.api.count_collections(**chroma.scope) if count is None else count


@_execute.register(CountEach)
def _count_each(operation: CountEach, chroma: _Chroma) -> dict[str, int]:
    return chroma.record_counts.count(operation.collection_ids, operation.max_seconds)


@_execute.register(ReplaceMetadata)
def _replace_metadata(operation: ReplaceMetadata, chroma: _Chroma) -> None:
    metadata = dict(operation.metadata or EMPTY_METADATA)
    chroma.api._modify(UUID(operation.collection_id), new_metadata=metadata, **chroma.scope)


@_execute.register(ExchangeNames)
def _exchange_names(operation: ExchangeNames, chroma: _Chroma) -> None:
    exchange_names(chroma.api, chroma.scope, operation)


@_execute.register(RestoreNames)
def _restore_names(operation: RestoreNames, chroma: _Chroma) -> None:
    restore_names(chroma.api, chroma.scope, _list_collections(ListCollections(), chroma))


@_execute.register(DeleteCollection)
def _delete_collection(operation: DeleteCollection, chroma: _Chroma) -> None:
    chroma.api.delete_collection(operation.collection_name, **chroma.scope)


# -- records ----------------------------------------------------------------------------------


def _write(chroma: _Chroma, collection_id: str, records: RecordBatch, uris: list[str] | None) -> None:
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
def _add_records(operation: AddRecords, chroma: _Chroma) -> None:
    """Write records that were looked up. No other process has this data, so their ids are still free.

    They get write tokens nevertheless, in their `uris`, which nothing else here uses: Chroma may report a write as
    failed that it has applied, when there is no room for its next step, and the token shows a second attempt that the
    first one wrote the records.
    """
    _write(chroma, operation.collection_id, operation.records, operation.write_tokens)


@_execute.register(GetWriteTokens)
def _get_write_tokens(operation: GetWriteTokens, chroma: _Chroma) -> dict[str, str | None]:
    found = _read(chroma, operation.collection_id, ("uris",), ids=operation.ids)
    return dict(zip(found["ids"], found["uris"] or [], strict=True))


@_execute.register(UpsertRecords)
def _upsert_records(operation: UpsertRecords, chroma: _Chroma) -> None:
    _write(chroma, operation.collection_id, operation.records, None)


@_execute.register(UpdateMetadatas)
def _update_metadatas(operation: UpdateMetadatas, chroma: _Chroma) -> None:
    chroma.api._update(UUID(operation.collection_id), ids=operation.ids, metadatas=operation.metadatas, **chroma.scope)


@_execute.register(DeleteRecords)
@_execute.register(UndoAdd)
def _delete_records(operation: DeleteRecords | UndoAdd, chroma: _Chroma) -> None:
    """An add that is undone was the only write of its records, as no other process has this data."""
    chroma.api._delete(UUID(operation.collection_id), ids=operation.ids, **chroma.scope)


def _read(
    chroma: _Chroma,
    collection_id: str,
    include: tuple[str, ...],
    *,
    ids: list[str] | None = None,
    where: dict[str, object] | None = None,
    where_document: dict[str, object] | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> GetResult:
    return chroma.api._get(
        UUID(collection_id),
        ids=ids,
        where=where,
        limit=limit,
        offset=offset,
        where_document=where_document,
        include=list(include),
        **chroma.scope,
    )


@_execute.register(GetRecords)
def _get_records(operation: GetRecords, chroma: _Chroma) -> Records:
    found = _read(
        chroma,
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
def _count_records(operation: CountRecords, chroma: _Chroma) -> int:
    return chroma.api._count(UUID(operation.collection_id), **chroma.scope)


@_execute.register(QueryRecords)
def _query_records(operation: QueryRecords, chroma: _Chroma) -> list[QueryResult]:
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
