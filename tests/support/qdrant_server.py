"""A server with Qdrant's gRPC interface over the local mode of its client, which evaluates filters and searches.

It is in strict mode, as collections of Qdrant Cloud are (qdrant.tech/documentation/cloud/configure-cluster): a filter
by a path without an index of its type is rejected, and so is the 101st index. A search with a filter is approximate: it
misses one point, unless it is exact (qdrant.tech/articles/filtered-vector-search-acorn: a filter can split the graph).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
from qdrant_client import AsyncQdrantClient
from qdrant_client import grpc as messages
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc
from qdrant_client.grpc.collections_service_pb2_grpc import CollectionsServicer, add_CollectionsServicer_to_server
from qdrant_client.grpc.points_service_pb2_grpc import PointsServicer, add_PointsServicer_to_server
from qdrant_client.models import Filter, NearestQuery, PointsList

MAX_INDEXES: Final = 100
CREATION_SECONDS: Final = 0.02

_SCHEMAS: Final = {
    messages.FieldType.FieldTypeKeyword: messages.PayloadSchemaType.Keyword,
    messages.FieldType.FieldTypeFloat: messages.PayloadSchemaType.Float,
}


class QdrantServer:
    """A running server.

    Attributes:
        keys: the keys that requests were sent with.
        indexed: the types of the payload indexes by path, by collection.
        creating: names of collections that are being created.
        update_status: the status of a change.
        max_query_limit: maximum number of points of a search, in strict mode.
        max_reads: number of searches that are still allowed, with a rate limit.
    """

    def __init__(self) -> None:
        self.port = 0
        self.keys: set[str] = set()
        self.indexed: dict[str, dict[str, Any]] = {}
        self.creating: set[str] = set()
        self.update_status: Any = messages.UpdateStatus.Completed
        self.max_query_limit: int | None = None
        self.max_reads: int | None = None

    async def check_filter(self, request: Any, filter_: Any, context: Any) -> None:
        """Reject a filter by a path that is not indexed, as strict mode does.

        Args:
            request: names the collection.
            context: of the call.
        """
        indexed = self.indexed.get(request.collection_name, {})
        for path, type_ in _conditions(filter_):
            if indexed.get(path) != type_:
                detail = f'Bad request: Index required but not found for "{path}" of one of the following types'
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, detail)


class _Collections(CollectionsServicer):
    def __init__(self, local: AsyncQdrantClient, server: QdrantServer) -> None:
        self._local = local
        self._server = server

    async def Create(self, request: Any, context: Any) -> Any:  # noqa: N802 - of the interface
        name = request.collection_name
        if await self._local.collection_exists(name):
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, f"Collection `{name}` already exists!")
        # The folder of a collection exists before the collection: `create_collection_path` of qdrant/qdrant.
        if name in self._server.creating:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "Collection data already exists")
        self._server.creating.add(name)
        await asyncio.sleep(CREATION_SECONDS)
        vectors = GrpcToRest.convert_vectors_config(request.vectors_config)
        await self._local.create_collection(name, vectors_config=vectors)
        self._server.creating.remove(name)
        return messages.CollectionOperationResponse(result=True)

    async def Get(self, request: Any, context: Any) -> Any:  # noqa: N802 - of the interface
        await _require(self._local, request, context)
        info = await self._local.get_collection(request.collection_name)
        result = RestToGrpc.convert_collection_info(info)
        for path, type_ in self._server.indexed.get(request.collection_name, {}).items():
            result.payload_schema[path].data_type = _SCHEMAS[type_]
        result.config.strict_mode_config.enabled = True
        result.config.strict_mode_config.max_payload_index_count = MAX_INDEXES
        if self._server.max_query_limit is not None:
            result.config.strict_mode_config.max_query_limit = self._server.max_query_limit
        return messages.GetCollectionInfoResponse(result=result)

    async def Delete(self, request: Any, context: Any) -> Any:  # noqa: N802 - of the interface
        found = await self._local.collection_exists(request.collection_name)
        if found:
            await self._local.delete_collection(request.collection_name)
            self._server.indexed.pop(request.collection_name, None)
        return messages.CollectionOperationResponse(result=found)

    async def CollectionExists(self, request: Any, context: Any) -> Any:  # noqa: N802 - of the interface
        exists = await self._local.collection_exists(request.collection_name)
        return messages.CollectionExistsResponse(result=messages.CollectionExists(exists=exists))


class _Points(PointsServicer):
    def __init__(self, local: AsyncQdrantClient, server: QdrantServer) -> None:
        self._local = local
        self._server = server

    async def Upsert(self, request: Any, context: Any) -> Any:  # noqa: N802 - of the interface
        await _require(self._local, request, context)
        points = [GrpcToRest.convert_point_struct(point) for point in request.points]
        await self._local.upsert(request.collection_name, PointsList(points=points).points)
        return self._updated()

    async def Query(self, request: Any, context: Any) -> Any:  # noqa: N802 - of the interface
        await _require(self._local, request, context)
        await self._check_limits(request, context)
        query = GrpcToRest.convert_query(request.query)
        assert isinstance(query, NearestQuery)
        found = await self._local.query_points(
            request.collection_name,
            query.nearest,
            query_filter=_filter(request),
            limit=request.limit,
            with_vectors=request.with_vectors.enable,
        )
        points = found.points if request.params.exact or not request.HasField("filter") else found.points[:-1]
        return messages.QueryResponse(result=[RestToGrpc.convert_scored_point(point) for point in points])

    async def Get(self, request: Any, context: Any) -> Any:  # noqa: N802 - of the interface
        await _require(self._local, request, context)
        ids = [GrpcToRest.convert_point_id(id_) for id_ in request.ids]
        found = await self._local.retrieve(request.collection_name, ids, with_vectors=True)
        return messages.GetResponse(result=[RestToGrpc.convert_record(record) for record in found])

    async def _check_limits(self, request: Any, context: Any) -> None:
        server = self._server
        await server.check_filter(request, request.filter, context)
        if server.max_query_limit is not None and request.limit > server.max_query_limit:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "Bad request: Limit exceeded")
        if server.max_reads is not None:
            server.max_reads -= 1
            if server.max_reads < 0:
                context.set_trailing_metadata((("retry-after", "7"),))
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "Rate limiting exceeded")

    async def Count(self, request: Any, context: Any) -> Any:  # noqa: N802 - of the interface
        await _require(self._local, request, context)
        await self._server.check_filter(request, request.filter, context)
        found = await self._local.count(request.collection_name, _filter(request), exact=True)
        return messages.CountResponse(result=messages.CountResult(count=found.count))

    async def Delete(self, request: Any, context: Any) -> Any:  # noqa: N802 - of the interface
        await _require(self._local, request, context)
        await self._server.check_filter(request, request.points.filter, context)
        await self._local.delete(request.collection_name, GrpcToRest.convert_points_selector(request.points))
        return self._updated()

    async def CreateFieldIndex(self, request: Any, context: Any) -> Any:  # noqa: N802 - of the interface
        await _require(self._local, request, context)
        indexed = self._server.indexed.setdefault(request.collection_name, {})
        path = request.field_name.replace('"', "")
        if path not in indexed and len(indexed) >= MAX_INDEXES:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "Bad request: too many payload indexes")
        indexed[path] = request.field_type
        return messages.PointsOperationResponse(result=messages.UpdateResult(status=messages.UpdateStatus.Completed))

    def _updated(self) -> Any:
        return messages.PointsOperationResponse(result=messages.UpdateResult(status=self._server.update_status))


class _Keys(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # without types
    def __init__(self, server: QdrantServer) -> None:
        self._server = server

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        self._server.keys |= {value for name, value in details.invocation_metadata if name == "api-key"}
        return await continuation(details)


@asynccontextmanager
async def qdrant_server() -> AsyncIterator[QdrantServer]:
    """A server on a free port, with collections in memory."""
    running = QdrantServer()
    local = AsyncQdrantClient(location=":memory:")
    server = grpc.aio.server(interceptors=[_Keys(running)])
    # The functions are generated, without types.
    add_CollectionsServicer_to_server(_Collections(local, running), server)  # type: ignore[no-untyped-call]
    add_PointsServicer_to_server(_Points(local, running), server)  # type: ignore[no-untyped-call]
    running.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield running
    finally:
        await server.stop(None)
        await local.close()


async def _require(local: AsyncQdrantClient, request: Any, context: Any) -> None:
    if not await local.collection_exists(request.collection_name):
        await context.abort(
            grpc.StatusCode.NOT_FOUND, f"Not found: Collection `{request.collection_name}` doesn't exist!"
        )


def _filter(request: Any) -> Filter | None:
    return GrpcToRest.convert_filter(request.filter) if request.HasField("filter") else None


def _conditions(filter_: Any) -> Iterator[tuple[str, object]]:
    """The paths of a filter, and the type of the index that each condition needs."""
    for condition in (*filter_.must, *filter_.should, *filter_.must_not):
        if condition.HasField("filter"):
            yield from _conditions(condition.filter)
        elif condition.HasField("field"):
            path = condition.field.key.replace('"', "")
            is_range = condition.field.HasField("range")
            yield path, messages.FieldType.FieldTypeFloat if is_range else messages.FieldType.FieldTypeKeyword
