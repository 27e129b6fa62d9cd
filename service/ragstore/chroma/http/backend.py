"""`HttpBackend`: Chroma as a server, a cluster or Chroma Cloud, over its v2 HTTP API.

One limit: Chroma's server reads JSON numbers of more than 15 digits inexactly (measured with 1.5.9): of metadata floats
with 16 or 17 digits, one in ten comes back with its last bit changed. Embeddings are not affected: they are sent as
bytes.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar, cast

from ragstore.chroma.collection_config import EMPTY_METADATA, SYNC_THRESHOLD, index_configuration
from ragstore.chroma.errors import StaleCollectionId
from ragstore.chroma.http.bodies import LARGE_BODY_BYTES, EmbeddingRows
from ragstore.chroma.http.connection import ChromaConnection
from ragstore.chroma.http.responses import (
    CollectionResponse,
    EmptyResponse,
    QueryResponse,
    RecordsResponse,
    WriteTokensResponse,
    bare_ids,
    require_columns,
    require_query_columns,
)
from ragstore.chroma.http.streamed_body import streamed_bodies
from ragstore.chroma.operations import (
    AddRecords,
    CountCollections,
    CountEach,
    CountRecords,
    CreateCollection,
    DeleteCollection,
    DeleteRecords,
    GetCollection,
    GetMaxBatchSize,
    GetRecords,
    GetStatus,
    GetWriteTokens,
    ListCollections,
    Operation,
    QueryRecords,
    ReplaceMetadata,
    UndoAdd,
    UpdateMetadatas,
    UpsertRecords,
)
from ragstore.chroma.records import (
    QueryResult,
    RecordBatch,
    Records,
    is_larger,
    query_results,
    to_matrix,
    to_metadatas,
    to_texts,
)
from ragstore.errors import ChromaFailed, TooLargeForChroma
from ragstore.kit.errors import ServiceError
from ragstore.model.collections import Collection, StoreStatus

T = TypeVar("T")

MAX_CONCURRENT_COUNTS: Final = 8
"""Maximum number of collections that are counted concurrently for one operation."""


class HttpBackend:
    """A Chroma server; see `Backend`.

    Args:
        url: the server's address.
        tenant: Chroma tenant; created when it does not exist.
        database: Chroma database; created when it does not exist.
        headers: sent with every request.
        timeout: maximum wait for one response, in seconds.
        connections: maximum number of TCP connections.
        ca_file: file of certificate authorities to trust; empty means the system's.
        sync_threshold: writes to a new collection after which Chroma saves its index.
        headers_of_call: makes further headers for each request, such as a header that continues a trace.
    """

    has_conditional_add: Final = True

    def __init__(
        self,
        url: str,
        tenant: str,
        database: str,
        *,
        headers: dict[str, str],
        timeout: float,
        connections: int,
        ca_file: str = "",
        sync_threshold: int = SYNC_THRESHOLD,
        headers_of_call: Callable[[], dict[str, str]] | None = None,
    ) -> None:
        self.sync_threshold = sync_threshold
        self.connection = ChromaConnection(
            url,
            tenant,
            database,
            headers=headers,
            timeout=timeout,
            connections=connections,
            ca_file=ca_file,
            headers_of_call=headers_of_call,
        )

    async def start(self) -> None:
        """Start. Does not wait for Chroma."""
        self.connection.open()

    async def close(self) -> None:
        """Close the connection to Chroma."""
        await self.connection.close()

    async def call(self, operation: Operation[T]) -> T:
        """Execute an operation."""
        return cast("T", await _execute(operation, self))


@functools.singledispatch
async def _execute(operation: Operation[object], backend: HttpBackend) -> object:
    """Execute an operation: one or more requests to the server. There is one function for each operation."""
    raise NotImplementedError(type(operation).__name__)


# -- Chroma and its collections ---------------------------------------------------------------


@_execute.register(GetStatus)
async def _get_status(operation: GetStatus, backend: HttpBackend) -> StoreStatus:
    version = backend.connection.request(str, "GET", "/version")
    if not operation.with_count:
        return StoreStatus("remote", await version, None)
    return StoreStatus("remote", *await asyncio.gather(version, backend.call(CountCollections())))


@_execute.register(GetMaxBatchSize)
async def _get_max_batch_size(operation: GetMaxBatchSize, backend: HttpBackend) -> int:
    return (await backend.connection.preflight()).max_batch_size


@_execute.register(CreateCollection)
async def _create_collection(operation: CreateCollection, backend: HttpBackend) -> Collection:
    body = {
        "name": operation.collection_name,
        "metadata": operation.metadata or None,
        "configuration": index_configuration(operation.distance, backend.sync_threshold, operation.hnsw),
    }
    path = backend.connection.collection_path()
    created = await backend.connection.request(
        CollectionResponse, "POST", path, body, collection_name=operation.collection_name
    )
    return created.to_collection()


@_execute.register(GetCollection)
async def _get_collection(operation: GetCollection, backend: HttpBackend) -> Collection:
    path = backend.connection.collection_path(operation.collection_name)
    found = await backend.connection.request(CollectionResponse, "GET", path, collection_name=operation.collection_name)
    return found.to_collection()


@_execute.register(ListCollections)
async def _list_collections(operation: ListCollections, backend: HttpBackend) -> list[Collection]:
    path = backend.connection.collection_path()
    return [found.to_collection() for found in await backend.connection.request(list[CollectionResponse], "GET", path)]


@_execute.register(CountCollections)
async def _count_collections(operation: CountCollections, backend: HttpBackend) -> int:
    return await backend.connection.request(int, "GET", backend.connection.database_path("collections_count"))


@_execute.register(CountEach)
async def _count_each(operation: CountEach, backend: HttpBackend) -> dict[str, int]:
    """Chroma's server counts one collection for a request. Collections that it fails to count are left out."""
    semaphore = asyncio.Semaphore(MAX_CONCURRENT_COUNTS)
    counts: dict[str, int] = {}

    async def count(collection_id: str) -> None:
        async with semaphore:
            with suppress(StaleCollectionId, ChromaFailed):
                counts[collection_id] = await _count_records(CountRecords(collection_id), backend)

    with suppress(TimeoutError):
        async with asyncio.timeout(operation.max_seconds):
            await asyncio.gather(*map(count, operation.collection_ids))
    return counts


@_execute.register(ReplaceMetadata)
async def _replace_metadata(operation: ReplaceMetadata, backend: HttpBackend) -> None:
    path = backend.connection.collection_path(operation.collection_id)
    await backend.connection.request(EmptyResponse, "PUT", path, {"new_metadata": operation.metadata or EMPTY_METADATA})


@_execute.register(DeleteCollection)
async def _delete_collection(operation: DeleteCollection, backend: HttpBackend) -> None:
    path = backend.connection.collection_path(operation.collection_name)
    await backend.connection.request(EmptyResponse, "DELETE", path, collection_name=operation.collection_name)


# -- records ----------------------------------------------------------------------------------


async def _post(backend: HttpBackend, kind: type[T], collection_id: str, verb: str, body: object) -> T:
    """Send a request about a collection's records."""
    return await backend.connection.request(kind, "POST", backend.connection.collection_path(collection_id, verb), body)


async def _record_columns(backend: HttpBackend, records: RecordBatch) -> dict[str, Sequence[object]]:
    """The columns of a write."""
    preflight = await backend.connection.preflight()
    rows = EmbeddingRows(records.embeddings, as_base64=preflight.supports_base64_encoding)
    return {"ids": records.ids, "embeddings": rows, "documents": records.texts, "metadatas": records.metadatas}


async def _write(
    backend: HttpBackend, operation: AddRecords | UpsertRecords, columns: dict[str, Sequence[object]]
) -> None:
    """Send a write in one request. If it exceeds the server's limit and may be split, send several.

    Nothing is sent if one record is too large by itself. An add that fails after its first request is undone, as far as
    the server responds; an upsert remains in part.
    """
    records = operation.records
    if not is_larger(records, LARGE_BODY_BYTES):
        with suppress(TooLargeForChroma):  # in JSON it may be larger
            whole = {name: values[:] for name, values in columns.items()}
            await _post(backend, EmptyResponse, operation.collection_id, operation.name, whole)
            return
    sent = 0
    for body in await streamed_bodies(columns, may_split=operation.may_split):
        try:
            await _post(backend, EmptyResponse, operation.collection_id, operation.name, body)
        except ServiceError:
            if sent and isinstance(operation, AddRecords):
                undo = UndoAdd(operation.collection_id, records.ids[:sent], operation.write_tokens[0])
                with suppress(ServiceError):
                    await backend.call(undo)
            raise
        sent += body.row_count


@_execute.register(AddRecords)
async def _add_records(operation: AddRecords, backend: HttpBackend) -> None:
    """The write tokens are stored in the records' `uris`, which nothing else here uses."""
    columns = await _record_columns(backend, operation.records)
    await _write(backend, operation, {**columns, "uris": operation.write_tokens})


@_execute.register(GetWriteTokens)
async def _get_write_tokens(operation: GetWriteTokens, backend: HttpBackend) -> dict[str, str | None]:
    body = {"ids": operation.ids, "include": ["uris"]}
    found = await _post(backend, WriteTokensResponse, operation.collection_id, "get", body)
    require_columns(found, ("uris",))
    return dict(zip(found.ids, found.uris, strict=True))


@_execute.register(UndoAdd)
async def _undo_add(operation: UndoAdd, backend: HttpBackend) -> None:
    """A record that has replaced one of the add's meanwhile has another token."""
    body = {"ids": operation.ids, "where": {"chroma:uri": operation.write_token}}
    await _post(backend, EmptyResponse, operation.collection_id, "delete", body)


@_execute.register(UpsertRecords)
async def _upsert_records(operation: UpsertRecords, backend: HttpBackend) -> None:
    await _write(backend, operation, await _record_columns(backend, operation.records))


@_execute.register(UpdateMetadatas)
async def _update_metadatas(operation: UpdateMetadatas, backend: HttpBackend) -> None:
    body = {"ids": operation.ids, "metadatas": operation.metadatas}
    await _post(backend, EmptyResponse, operation.collection_id, "update", body)


@_execute.register(GetRecords)
async def _get_records(operation: GetRecords, backend: HttpBackend) -> Records:
    body = {
        "ids": operation.ids,
        "where": operation.where,
        "where_document": operation.where_document,
        "limit": operation.limit,
        "offset": operation.offset,
        "include": operation.columns,
    }
    found = await _post(backend, RecordsResponse, operation.collection_id, "get", body)
    require_columns(found, operation.columns)
    return Records(
        found.ids,
        to_texts(found.documents),
        to_metadatas(found.metadatas),
        to_matrix(found.embeddings) if "embeddings" in operation.columns else None,
    )


@_execute.register(CountRecords)
async def _count_records(operation: CountRecords, backend: HttpBackend) -> int:
    return await backend.connection.request(
        int, "GET", backend.connection.collection_path(operation.collection_id, "count")
    )


@_execute.register(DeleteRecords)
async def _delete_records(operation: DeleteRecords, backend: HttpBackend) -> None:
    await _post(backend, EmptyResponse, operation.collection_id, "delete", {"ids": operation.ids})


def _filters(operation: QueryRecords) -> dict[str, object]:
    """The part of a query's body that selects records."""
    if operation.matching_ids is not None:
        return {"ids": operation.matching_ids}
    return {"where": operation.where, "where_document": operation.where_document}


@_execute.register(QueryRecords)
async def _query_records(operation: QueryRecords, backend: HttpBackend) -> list[QueryResult]:
    include = [*operation.columns, "distances"]
    body = {
        "query_embeddings": operation.embeddings.tolist(),
        "n_results": operation.n_results,
        **_filters(operation),
        "include": include,
    }
    found = await _post(backend, QueryResponse, operation.collection_id, "query", body)
    require_query_columns(found, len(operation.embeddings), include)
    bare = bare_ids(found)
    if bare:
        present = await backend.call(GetRecords(operation.collection_id, sorted(bare)))
        if not bare <= set(present.ids):
            raise ChromaFailed("A document was deleted while it was read")
    return query_results(found.ids, found.documents, found.metadatas, found.embeddings, found.distances)
