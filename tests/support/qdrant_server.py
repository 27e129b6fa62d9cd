"""A server with Qdrant's gRPC interface over the local mode of its client, which evaluates filters and searches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from qdrant_client import AsyncQdrantClient
from qdrant_client import grpc as messages
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc
from qdrant_client.grpc.collections_service_pb2_grpc import CollectionsServicer, add_CollectionsServicer_to_server
from qdrant_client.grpc.points_service_pb2_grpc import PointsServicer, add_PointsServicer_to_server
from qdrant_client.models import Filter, NearestQuery, PointsList


class QdrantServer:
    """A running server.

    Attributes:
        port: its port.
        keys: the keys that requests were sent with.
        indexed: the payload keys that were indexed, by collection.
    """

    def __init__(self) -> None:
        self.port = 0
        self.keys: set[str] = set()
        self.indexed: dict[str, set[str]] = {}


class _Collections(CollectionsServicer):
    def __init__(self, local: AsyncQdrantClient, server: QdrantServer) -> None:
        self._local = local
        self._server = server

    async def Create(self, request: Any, context: Any) -> Any:  # noqa: N802 - of the interface
        name = request.collection_name
        if await self._local.collection_exists(name):
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, f"Collection `{name}` already exists!")
        vectors = GrpcToRest.convert_vectors_config(request.vectors_config)
        await self._local.create_collection(name, vectors_config=vectors)
        return messages.CollectionOperationResponse(result=True)

    async def Get(self, request: Any, context: Any) -> Any:  # noqa: N802 - of the interface
        await _require(self._local, request, context)
        info = await self._local.get_collection(request.collection_name)
        return messages.GetCollectionInfoResponse(result=RestToGrpc.convert_collection_info(info))

    async def Delete(self, request: Any, context: Any) -> Any:  # noqa: N802 - of the interface
        found = await self._local.collection_exists(request.collection_name)
        if found:
            await self._local.delete_collection(request.collection_name)
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
        return _updated(await self._local.upsert(request.collection_name, PointsList(points=points).points))

    async def Query(self, request: Any, context: Any) -> Any:  # noqa: N802 - of the interface
        await _require(self._local, request, context)
        query = GrpcToRest.convert_query(request.query)
        assert isinstance(query, NearestQuery)
        found = await self._local.query_points(
            request.collection_name,
            query.nearest,
            query_filter=_filter(request),
            limit=request.limit,
        )
        return messages.QueryResponse(result=[RestToGrpc.convert_scored_point(point) for point in found.points])

    async def Count(self, request: Any, context: Any) -> Any:  # noqa: N802 - of the interface
        await _require(self._local, request, context)
        found = await self._local.count(request.collection_name, _filter(request), exact=True)
        return messages.CountResponse(result=messages.CountResult(count=found.count))

    async def Delete(self, request: Any, context: Any) -> Any:  # noqa: N802 - of the interface
        await _require(self._local, request, context)
        selector = GrpcToRest.convert_points_selector(request.points)
        return _updated(await self._local.delete(request.collection_name, selector))

    async def CreateFieldIndex(self, request: Any, context: Any) -> Any:  # noqa: N802 - of the interface
        await _require(self._local, request, context)
        self._server.indexed.setdefault(request.collection_name, set()).add(request.field_name)
        return messages.PointsOperationResponse(result=messages.UpdateResult(status=messages.UpdateStatus.Completed))


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


def _updated(result: Any) -> Any:
    return messages.PointsOperationResponse(result=RestToGrpc.convert_update_result(result))
