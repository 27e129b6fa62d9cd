"""`qdrant`: collections of a Qdrant server, over gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import msgspec
from grpc import StatusCode
from grpc.aio import AioRpcError
from qdrant_client import AsyncQdrantClient
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException
from qdrant_client.models import (
    Condition,
    Distance,
    FieldCondition,
    HasIdCondition,
    MatchAny,
    MatchValue,
    PayloadSchemaType,
    PointStruct,
    Range,
    ScoredPoint,
    VectorParams,
)
from qdrant_client.models import Filter as QdrantFilter

from ragstore.kit.errors import ServiceError
from ragstore_client import Where
from ragstore_gateway.secret_references import SecretReferences
from ragstore_gateway.vector_stores import filters
from ragstore_gateway.vector_stores.failures import StoreErrors, dimension_mismatch, empty_if_missing
from ragstore_gateway.vector_stores.filters import MAX_EXACT_INTEGER, All, Compared, Either, Filter, Not, OneOf
from ragstore_gateway.vector_stores.names import field_name, metadata_key, physical_name
from ragstore_gateway.vector_stores.ranking import relevance, search_ranked
from ragstore_gateway.vector_stores.shared_client import Secrets, SharedClient
from ragstore_gateway.vector_stores.store_parameters import QdrantParameters
from ragstore_gateway.vector_stores.vector_store import (
    DOCUMENT_KEY,
    REVISION_KEY,
    Hit,
    MetadataValue,
    Record,
    Vector,
)
from ragstore_gateway.vector_stores.vectors import unit_matrix, unit_vector

TEXT: Final = "text"
METADATA: Final = "metadata"
MAX_NAME_LENGTH: Final = 255

_OPERATORS: Final = {"$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}
_METADATA: Final = dict[str, MetadataValue]


def connect_qdrant(
    parameters: QdrantParameters, secrets: SecretReferences, timeout_seconds: float
) -> SharedClient[AsyncQdrantClient]:
    """The connection to a Qdrant server.

    Args:
        parameters: the server.
        secrets: resolves the reference to its key.
        timeout_seconds: time limit of one call.
    """

    async def connect(values: Secrets) -> AsyncQdrantClient:
        return AsyncQdrantClient(
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

    references = {} if parameters.api_key is None else {"api_key": parameters.api_key}
    return SharedClient(connect, AsyncQdrantClient.close, references, secrets)


class QdrantStore:
    """A collection. See `VectorStore`.

    Args:
        client: the connection.
        parameters: the parameters.
        collection: name of the collection.
        dimension: its dimension.
        timeout_seconds: time limit of one call.
    """

    def __init__(
        self,
        client: SharedClient[AsyncQdrantClient],
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
        """Create the collection, with indexes of the keys that the gateway filters by."""
        # The inner product of vectors of length 1 is the cosine. `COSINE` has no score for zeros.
        vectors = VectorParams(size=self._dimension, distance=Distance.DOT)
        async with self._calls() as client:
            try:
                await client.create_collection(self._name, vectors_config=vectors)
            except AioRpcError as error:
                if error.code() is not StatusCode.ALREADY_EXISTS:
                    raise
            stored = (await client.get_collection(self._name)).config.params.vectors
            for key in (DOCUMENT_KEY, REVISION_KEY):
                await client.create_payload_index(self._name, _path(key), PayloadSchemaType.KEYWORD)
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
        async with self._calls() as client:
            await client.upsert(self._name, points, wait=True)

    async def search(
        self, vector: Vector, limit: int, *, min_score: float = 0.0, where: Where | None = None
    ) -> list[Hit]:
        """Find the nearest records."""
        filter_ = _filter(filters.parse(where))
        query = unit_vector(vector, self._dimension).tolist()

        async def fetch(count: int) -> list[Hit]:
            found = await client.query_points(self._name, query, query_filter=filter_, limit=count)
            return [_hit(point) for point in found.points]

        with empty_if_missing():
            async with self._calls() as client:
                return await search_ranked(fetch, limit, min_score)
        return []

    async def delete(self, where: Where) -> int:
        """Delete the records that a filter selects. They are counted before."""
        filter_ = QdrantFilter(must=[_condition(filters.parse_deletion(where))])
        with empty_if_missing():
            async with self._calls() as client:
                found = (await client.count(self._name, filter_, exact=True)).count
                if found:
                    await client.delete(self._name, filter_, wait=True)
                return found
        return 0

    async def count(self, where: Where | None = None) -> int:
        """Count the records that a filter selects."""
        filter_ = _filter(filters.parse(where))
        with empty_if_missing():
            async with self._calls() as client:
                return (await client.count(self._name, filter_, exact=True)).count
        return 0

    async def drop(self) -> None:
        """Remove the collection."""
        with empty_if_missing():
            async with self._calls() as client:
                await client.delete_collection(self._name)

    @asynccontextmanager
    async def _calls(self) -> AsyncIterator[AsyncQdrantClient]:
        async with self._errors.converted(), self._client.use() as client:
            yield client

    def _error(self, error: Exception) -> ServiceError | None:
        if not isinstance(error, AioRpcError) or error.code() in (StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED):
            return None
        if error.code() is StatusCode.NOT_FOUND:
            return self._errors.missing()
        return self._errors.unavailable(f"responds with the gRPC status {error.code().name}", error)


def _payload(record: Record) -> dict[str, object]:
    return {TEXT: record.text, METADATA: {field_name(key): value for key, value in record.metadata.items()}}


def _hit(point: ScoredPoint) -> Hit:
    payload = point.payload or {}
    metadata = msgspec.convert(payload.get(METADATA, {}), _METADATA)
    decoded = {metadata_key(name): value for name, value in metadata.items()}
    return Hit(str(point.id), str(payload.get(TEXT, "")), relevance(point.score), decoded)


def _path(key: str) -> str:
    return f'{METADATA}."{field_name(key)}"'


def _filter(filter_: Filter) -> QdrantFilter | None:
    if filter_ == filters.EVERYTHING:
        return None
    condition = _condition(filter_)
    return condition if isinstance(condition, QdrantFilter) else QdrantFilter(must=[condition])


def _condition(filter_: Filter) -> Condition:
    match filter_:
        case OneOf(key, values):
            conditions = _equalities(key, values)
            return conditions[0] if len(conditions) == 1 else QdrantFilter(should=conditions)
        case Compared(key, order, number):
            return FieldCondition(key=_path(key), range=Range(**{_OPERATORS[order]: number}))
        case Not(inner):
            return QdrantFilter(must_not=[_condition(inner)])
        case All(filters_):
            return QdrantFilter(must=[_condition(each) for each in filters_])
        case Either(()):
            return HasIdCondition(has_id=[])
        case Either(filters_):
            return QdrantFilter(should=[_condition(each) for each in filters_])


def _equalities(key: str, values: Sequence[MetadataValue]) -> list[Condition]:
    texts = [value for value in values if isinstance(value, str)]
    if texts:
        return [FieldCondition(key=_path(key), match=MatchAny(any=texts))]
    return [_equality(key, value) for value in values]


def _equality(key: str, value: MetadataValue) -> Condition:
    # A match of an integer does not find a float of the same value, and a range compares doubles.
    if isinstance(value, bool | str) or (isinstance(value, int) and abs(value) > MAX_EXACT_INTEGER):
        return FieldCondition(key=_path(key), match=MatchValue(value=value))
    return FieldCondition(key=_path(key), range=Range(gte=value, lte=value))
