"""`qdrant`: collections of a Qdrant server, over gRPC.

Qdrant Cloud creates collections in strict mode: it rejects filters by keys without a payload index, and an index has
one type. So a point has a list of tokens, one for each key and value, with one index for all of them; and its numbers,
with an index for each key.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar, cast

import msgspec
import numpy as np
from grpc import StatusCode
from grpc.aio import AioRpcError
from qdrant_client import AsyncQdrantClient
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException
from qdrant_client.models import (
    Distance,
    ExtendedPointId,
    PayloadSchemaType,
    PointStruct,
    ScoredPoint,
    SearchParams,
    StrictModeConfigOutput,
    UpdateResult,
    UpdateStatus,
    VectorParams,
)
from qdrant_client.models import Filter as QdrantFilter
from qdrant_client.models import Record as QdrantRecord

from ragstore.kit.errors import ServiceError
from ragstore_client import Where
from ragstore_gateway.engines import filters
from ragstore_gateway.engines.engine_collection import MetadataValue, Passage, Record, Vector
from ragstore_gateway.engines.failures import StoreErrors, check_dimension, dimension_mismatch, empty_if_missing
from ragstore_gateway.engines.filters import Filter
from ragstore_gateway.engines.names import field_name, metadata_key, physical_name
from ragstore_gateway.engines.qdrant_filters import (
    NUMBERS,
    TOKENS,
    numbers_field,
    qdrant_filter,
    without_unknown_numbers,
)
from ragstore_gateway.engines.ranking import MAX_FETCHED, cosine_relevance, relevance, search_ranked
from ragstore_gateway.engines.shared_client import Secrets, SharedClient
from ragstore_gateway.engines.store_parameters import QdrantParameters
from ragstore_gateway.engines.tokens import metadata_tokens
from ragstore_gateway.engines.vectors import unit_matrix, unit_vector
from ragstore_gateway.secrets.secret_references import SecretReferences

TEXT: Final = "text"
METADATA: Final = "metadata"
MAX_NAME_LENGTH: Final = 255
MAX_DIMENSION: Final = 65_536
CREATION_POLLS: Final = 20
CREATION_POLL_SECONDS: Final = 0.1

_REJECTIONS: Final = frozenset(
    {StatusCode.PERMISSION_DENIED, StatusCode.UNAUTHENTICATED, StatusCode.OUT_OF_RANGE, StatusCode.UNIMPLEMENTED}
)
"""gRPC statuses of a call that would fail again."""

T = TypeVar("T")

_METADATA: Final = dict[str, MetadataValue]


@dataclass(frozen=True)
class QdrantConnection:
    """The connection to a Qdrant server.

    Attributes:
        indexed: the paths of payloads that are known to be indexed, by collection.
    """

    client: AsyncQdrantClient
    indexed: dict[str, set[str]] = field(default_factory=dict)

    async def close(self) -> None:
        """Close the client."""
        await self.client.close()


def connect_qdrant(
    parameters: QdrantParameters, secrets: SecretReferences, timeout_seconds: float
) -> SharedClient[QdrantConnection]:
    """The connection to a Qdrant server.

    Args:
        parameters: the server.
        secrets: resolves the reference to its key.
        timeout_seconds: time limit of one call.
    """

    async def connect(values: Secrets) -> QdrantConnection:
        client = AsyncQdrantClient(
            host=parameters.host,
            port=None,
            grpc_port=parameters.port,
            prefer_grpc=True,
            https=parameters.use_tls,
            timeout=max(1, int(timeout_seconds)),
            # As a header: for `api_key` without TLS the client prints a warning for each connection.
            headers={"api-key": values["api_key"]} if "api_key" in values else None,
            # It sends a request to the REST interface, which may have another port.
            check_compatibility=False,
        )
        return QdrantConnection(client)

    references = {} if parameters.api_key is None else {"api_key": parameters.api_key}
    return SharedClient(connect, QdrantConnection.close, references, secrets)


class QdrantStore:
    """A collection. See `EngineCollection`.

    Args:
        client: the connection.
        collection: name of the collection.
        timeout_seconds: time limit of one call.
    """

    def __init__(
        self,
        client: SharedClient[QdrantConnection],
        parameters: QdrantParameters,
        collection: str,
        dimension: int,
        timeout_seconds: float,
    ) -> None:
        self._client = client
        self._dimension = dimension
        self._name = physical_name(parameters.collection_name, collection, MAX_NAME_LENGTH)
        kinds = (AioRpcError, ApiException, QdrantException, RuntimeError)
        self._errors = StoreErrors("qdrant", timeout_seconds, kinds, self._error)

    async def create(self) -> None:
        """Create the collection, with the index of the tokens."""
        check_dimension("qdrant", self._dimension, MAX_DIMENSION)
        # The inner product of vectors of length 1 is the cosine. `COSINE` has no score for zeros.
        vectors = VectorParams(size=self._dimension, distance=Distance.DOT)
        async with self._connection() as connection:
            client = connection.client
            try:
                await client.create_collection(self._name, vectors_config=vectors)
            except AioRpcError as error:
                # A collection that another gateway is creating is an invalid argument, and does not exist yet.
                codes = (StatusCode.ALREADY_EXISTS, StatusCode.INVALID_ARGUMENT)
                if error.code() not in codes or not await self._appears(client):
                    raise
            info = await client.get_collection(self._name)
            connection.indexed[self._name] = {path.replace('"', "") for path in info.payload_schema or {}}
            await self._index(connection, TOKENS, PayloadSchemaType.KEYWORD)
        stored = info.config.params.vectors
        found = stored.size if isinstance(stored, VectorParams) else 0
        if found != self._dimension:
            raise dimension_mismatch(found, self._dimension)

    async def write(self, records: Sequence[Record]) -> None:
        """Store records, with one operation."""
        if not records:
            return
        vectors = unit_matrix(records, self._dimension)
        points = [
            PointStruct(id=record.id, vector=vector.tolist(), payload=_payload(record))
            for record, vector in zip(records, vectors, strict=True)
        ]
        keys = {key for record in records for key, value in record.metadata.items() if filters.is_number(value)}
        async with self._connection() as connection:
            for key in sorted(keys):
                await self._index_numbers(connection, key)
            self._require_completed(await connection.client.upsert(self._name, points, wait=True))

    async def search(
        self, vector: Vector, limit: int, *, min_relevance: float = 0.0, where: Where | None = None
    ) -> list[Passage]:
        """Find the nearest records."""
        filter_ = filters.parse(where)
        query = unit_vector(vector, self._dimension).tolist()

        async def call(condition: QdrantFilter | None, max_fetched: int) -> list[Passage]:
            async def fetch(count: int) -> list[Passage]:
                found = await client.query_points(self._name, query, query_filter=condition, limit=count)
                points = found.points
                if condition is not None and len(points) < count:
                    points = await self._all_points(client, query, condition, count, points)
                return [_passage(point, relevance(point.score)) for point in points]

            return await search_ranked(fetch, limit, min_relevance, max_fetched)

        async with empty_if_missing(), self._connection() as connection:
            client = connection.client
            return await self._call(client, filter_, call)
        return []

    async def compare(self, vector: Vector, ids: Sequence[str]) -> list[Passage]:
        """Compare records with a vector."""
        query = unit_vector(vector, self._dimension)
        if not ids:
            return []
        async with empty_if_missing(), self._connection() as connection:
            found = await connection.client.retrieve(self._name, list(ids), with_vectors=True)
            vectors = [np.asarray(cast(list[float], record.vector), dtype=np.float32) for record in found]
            scores = [cosine_relevance(query, each) for each in vectors]
            return [
                replace(_passage(record, score), vector=vector)
                for record, score, vector in zip(found, scores, vectors, strict=True)
            ]
        return []

    async def delete(self, where: Where) -> int:
        """Delete the records that a filter selects. They are counted before."""
        filter_ = filters.parse_deletion(where)

        async def call(condition: QdrantFilter | None, _: int) -> int:
            found = (await client.count(self._name, condition, exact=True)).count
            if found and condition is not None:
                self._require_completed(await client.delete(self._name, condition, wait=True))
            return found

        async with empty_if_missing(), self._connection() as connection:
            client = connection.client
            return await self._call(client, filter_, call)
        return 0

    async def delete_ids(self, ids: Sequence[str]) -> None:
        """Delete points by their ids."""
        if not ids:
            return
        async with empty_if_missing(), self._connection() as connection:
            points: list[ExtendedPointId] = list(ids)
            self._require_completed(await connection.client.delete(self._name, points, wait=True))

    async def count(self, where: Where | None = None) -> int:
        """Count the records that a filter selects."""
        filter_ = filters.parse(where)

        async def call(condition: QdrantFilter | None, _: int) -> int:
            return (await client.count(self._name, condition, exact=True)).count

        async with empty_if_missing(), self._connection() as connection:
            client = connection.client
            return await self._call(client, filter_, call)
        return 0

    async def drop(self) -> None:
        """Remove the collection."""
        async with empty_if_missing(), self._connection() as connection:
            connection.indexed.pop(self._name, None)
            await connection.client.delete_collection(self._name)

    async def _appears(self, client: AsyncQdrantClient) -> bool:
        for _ in range(CREATION_POLLS):
            if await client.collection_exists(self._name):
                return True
            await asyncio.sleep(CREATION_POLL_SECONDS)
        return False

    async def _index(self, connection: QdrantConnection, path: str, schema: PayloadSchemaType) -> None:
        indexed = connection.indexed.setdefault(self._name, set())
        if path.replace('"', "") not in indexed:
            await connection.client.create_payload_index(self._name, path, schema, wait=True)
            indexed.add(path.replace('"', ""))

    async def _index_numbers(self, connection: QdrantConnection, key: str) -> None:
        path = numbers_field(key)
        try:
            await self._index(connection, path, PayloadSchemaType.FLOAT)
        except AioRpcError as error:
            if error.code() is not StatusCode.INVALID_ARGUMENT:
                raise
            # Strict mode limits the number of indexes: 100 on Qdrant Cloud. The records are more important.
            connection.indexed[self._name].add(path.replace('"', ""))

    async def _all_points(
        self,
        client: AsyncQdrantClient,
        query: list[float],
        filter_: QdrantFilter,
        count: int,
        points: list[ScoredPoint],
    ) -> list[ScoredPoint]:
        """Search exactly, if an approximate search has not found all records that match its filter.

        A filter can separate the graph of the index into parts that have no path between them.
        """
        matching = (await client.count(self._name, filter_, exact=True)).count
        if len(points) >= min(count, matching):
            return points
        try:
            exact = SearchParams(exact=True)
            return (
                await client.query_points(self._name, query, query_filter=filter_, limit=count, search_params=exact)
            ).points
        except AioRpcError as error:
            # Strict mode can forbid exact searches.
            if error.code() is not StatusCode.INVALID_ARGUMENT:
                raise
            return points

    async def _call(
        self, client: AsyncQdrantClient, filter_: Filter, call: Callable[[QdrantFilter | None, int], Awaitable[T]]
    ) -> T:
        """Make a call with a filter and a maximum number of points, and again within what strict mode allows."""
        try:
            return await call(qdrant_filter(filter_), MAX_FETCHED)
        except AioRpcError as error:
            if error.code() is not StatusCode.INVALID_ARGUMENT:
                raise
            info = await client.get_collection(self._name)
            mode = info.config.strict_mode_config or StrictModeConfigOutput()
            indexed = {path.replace('"', "") for path in info.payload_schema or {}}
            if mode.max_payload_index_count is None or len(indexed) < mode.max_payload_index_count:
                # Each key with numbers has an index. Another key has none.
                filter_ = without_unknown_numbers(filter_, indexed)
            return await call(qdrant_filter(filter_), min(mode.max_query_limit or MAX_FETCHED, MAX_FETCHED))

    def _require_completed(self, result: UpdateResult) -> None:
        """Check that a change is visible. Qdrant also accepts changes that it has not applied in time."""
        if result.status is not UpdateStatus.COMPLETED:
            raise self._errors.unavailable(f"has not applied a change: it is {result.status.value}", RuntimeError())

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[QdrantConnection]:
        async with self._errors.converted(), self._client.use() as connection:
            yield connection

    def _error(self, error: Exception) -> ServiceError | None:
        if isinstance(error, ResourceExhaustedResponse):
            limited = self._errors.unavailable("is at its rate limit", error)
            limited.retry_after = max(1, error.retry_after_s)
            return limited
        if not isinstance(error, AioRpcError) or error.code() in (StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED):
            return None
        if error.code() is StatusCode.NOT_FOUND:
            return self._errors.missing()
        if error.code() is StatusCode.INVALID_ARGUMENT:
            problem = "rejects the request with the gRPC status INVALID_ARGUMENT: its strict mode may not allow it"
            return self._errors.rejected(problem, error)
        make = self._errors.rejected if error.code() in _REJECTIONS else self._errors.unavailable
        return make(f"responds with the gRPC status {error.code().name}", error)


def _payload(record: Record) -> dict[str, object]:
    return {
        TEXT: record.text,
        METADATA: {field_name(key): value for key, value in record.metadata.items()},
        TOKENS: metadata_tokens(record.metadata),
        NUMBERS: {field_name(key): value for key, value in record.metadata.items() if filters.is_number(value)},
    }


def _passage(point: ScoredPoint | QdrantRecord, score: float) -> Passage:
    payload = point.payload or {}
    metadata = msgspec.convert(payload.get(METADATA, {}), _METADATA)
    decoded = {metadata_key(name): value for name, value in metadata.items()}
    return Passage(str(point.id), str(payload.get(TEXT, "")), score, decoded)
