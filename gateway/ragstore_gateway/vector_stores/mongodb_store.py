"""`mongodb-atlas`: collections of MongoDB with a vector index of Atlas Search."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias
from uuid import uuid4

import numpy as np
from bson.binary import Binary, BinaryVectorDtype
from bson.errors import BSONError
from msgspec import Struct, convert
from pymongo import AsyncMongoClient, ReplaceOne
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import CollectionInvalid, OperationFailure, PyMongoError
from pymongo.operations import SearchIndexModel

from ragstore.kit.errors import ServiceError
from ragstore_client import Where
from ragstore_gateway.secret_references import SecretReferences
from ragstore_gateway.vector_stores import filters
from ragstore_gateway.vector_stores.failures import StoreErrors, dimension_mismatch
from ragstore_gateway.vector_stores.filters import All, Compared, Either, Filter, Not, OneOf
from ragstore_gateway.vector_stores.names import field_name, metadata_key, physical_name
from ragstore_gateway.vector_stores.ranking import relevance, search_ranked
from ragstore_gateway.vector_stores.shared_client import Secrets, SharedClient
from ragstore_gateway.vector_stores.store_parameters import MongodbParameters
from ragstore_gateway.vector_stores.tokens import MAX_TOKEN_LENGTH, token
from ragstore_gateway.vector_stores.vector_store import Hit, MetadataValue, Record, Vector
from ragstore_gateway.vector_stores.vectors import unit_matrix, unit_vector

Document: TypeAlias = dict[str, Any]
Client: TypeAlias = AsyncMongoClient[Document]

MAX_CANDIDATES: Final = 10_000
MIN_CANDIDATES: Final = 100
CANDIDATES: Final = 20
"""Candidates of the index for each hit, as Atlas' documentation recommends."""

MAX_NAME_LENGTH: Final = 120
POLL_SECONDS: Final = 0.2
"""Time between two looks at an index that is updated after the write, as Atlas Search does it."""

_NO_TOKEN: Final = ""
"""A token that no record has."""


class _Found(Struct, rename={"id": "_id"}):
    id: str
    text: str
    metadata: dict[str, MetadataValue]
    score: float


def connect_mongodb(
    parameters: MongodbParameters, secrets: SecretReferences, timeout_seconds: float
) -> SharedClient[Client]:
    """The connection to MongoDB.

    Args:
        parameters: the server.
        secrets: resolves the reference to its connection string.
        timeout_seconds: time limit of one call.
    """

    async def connect(values: Secrets) -> Client:
        milliseconds = int(timeout_seconds * 1000)
        return AsyncMongoClient(
            values["connection_string"],
            appname="ragstore-gateway",
            timeoutMS=milliseconds,
            serverSelectionTimeoutMS=milliseconds,
        )

    references = {"connection_string": parameters.connection_string}
    return SharedClient(connect, AsyncMongoClient.close, references, secrets)


class MongodbStore:
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
        client: SharedClient[Client],
        parameters: MongodbParameters,
        collection: str,
        dimension: int,
        timeout_seconds: float,
    ) -> None:
        self._client = client
        self._database = parameters.database_name
        self._index = parameters.index_name
        self._dimension = dimension
        self._name = physical_name(parameters.collection_name, collection, MAX_NAME_LENGTH)
        # The last two are raised by connection strings that are not valid.
        kinds = (PyMongoError, BSONError, ValueError, TypeError)
        self._errors = StoreErrors("mongodb-atlas", timeout_seconds, kinds, self._error)

    async def create(self) -> None:
        """Create the collection and its index, and wait until the index can be searched."""
        definition = _definition(self._dimension)
        model = SearchIndexModel(definition=definition, name=self._index, type="vectorSearch")
        async with self._collection() as collection:
            try:
                await collection.database.create_collection(self._name)
            except (CollectionInvalid, OperationFailure):
                if not await self._exists(collection):
                    raise
            if await self._stored_index(collection) is None:
                try:
                    await collection.create_search_index(model)
                except OperationFailure:
                    # Another gateway may have created it since.
                    if await self._stored_index(collection) is None:
                        raise
            while True:
                index = await self._stored_index(collection)
                if index is not None and index.get("queryable"):
                    break
                await asyncio.sleep(POLL_SECONDS)
        fields: list[Document] = index["latestDefinition"]["fields"]
        found = next(int(field["numDimensions"]) for field in fields if field["type"] == "vector")
        if found != self._dimension:
            raise dimension_mismatch(found, self._dimension)

    async def write(self, records: Sequence[Record]) -> None:
        """Store records in a transaction, and wait until the index has them."""
        if not records:
            return
        write = uuid4().hex
        vectors = unit_matrix(records, self._dimension)
        documents = [_document(record, vector, write) for record, vector in zip(records, vectors, strict=True)]
        # A record that occurs twice would be written twice by one transaction.
        requests = [ReplaceOne({"_id": each["_id"]}, each, upsert=True) for each in _last_of_each_id(documents)]
        async with self._collection() as collection:
            if not await self._exists(collection):
                raise self._errors.missing()

            async def write_all(session: AsyncClientSession) -> None:
                await collection.bulk_write(requests, session=session)

            async with collection.database.client.start_session() as session:
                await session.with_transaction(write_all)
            await self._wait_for_index(collection, write)

    async def search(
        self, vector: Vector, limit: int, *, min_score: float = 0.0, where: Where | None = None
    ) -> list[Hit]:
        """Find the nearest records."""
        filter_ = filters.parse(where)
        query = unit_vector(vector, self._dimension)

        async def fetch(count: int) -> list[Hit]:
            stages = await self._stages(collection, query, filter_, count)
            found = await collection.aggregate(stages)
            return [_hit(convert(each, _Found)) async for each in found]

        async with self._collection() as collection:
            return await search_ranked(fetch, limit, min_score)

    async def delete(self, where: Where) -> int:
        """Delete the records that a filter selects."""
        condition = condition_of(filters.parse_deletion(where))
        async with self._collection() as collection:
            return (await collection.delete_many(condition)).deleted_count

    async def count(self, where: Where | None = None) -> int:
        """Count the records that a filter selects."""
        condition = condition_of(filters.parse(where))
        async with self._collection() as collection:
            return await collection.count_documents(condition)

    async def drop(self) -> None:
        """Remove the collection with its index."""
        async with self._collection() as collection:
            await collection.drop()

    async def _stages(
        self, collection: AsyncCollection[Document], query: Vector, filter_: Filter, count: int
    ) -> list[Document]:
        search: Document = {"index": self._index, "path": "vector", "queryVector": _binary(query)}
        after: list[Document] = []
        if _has_comparison(filter_):
            # The index filters by fields that its definition names. Numbers of any key are compared after the search.
            search |= {"exact": True, "limit": max(1, await collection.estimated_document_count())}
            after = [{"$match": condition_of(filter_)}, {"$limit": count}]
        else:
            candidates = max(MIN_CANDIDATES, min(CANDIDATES * count, MAX_CANDIDATES))
            search |= {"numCandidates": candidates, "limit": count}
            if filter_ != filters.EVERYTHING:
                search["filter"] = condition_of(filter_)
        fields = {"text": 1, "metadata": 1, "score": {"$meta": "vectorSearchScore"}}
        return [{"$vectorSearch": search}, *after, {"$project": fields}]

    async def _wait_for_index(self, collection: AsyncCollection[Document], write: str) -> None:
        """Wait until a search finds all records of a write that no later write has replaced."""
        search = {
            "index": self._index,
            "path": "vector",
            "queryVector": _binary(np.zeros(self._dimension, dtype=np.float32)),
            "exact": True,
            "limit": MAX_CANDIDATES,
            "filter": {"write": write},
        }
        while True:
            found = await (await collection.aggregate([{"$vectorSearch": search}, {"$count": "n"}])).to_list()
            if (found[0]["n"] if found else 0) >= await collection.count_documents({"write": write}):
                return
            await asyncio.sleep(POLL_SECONDS)

    async def _exists(self, collection: AsyncCollection[Document]) -> bool:
        return bool(await collection.database.list_collection_names(filter={"name": self._name}))

    async def _stored_index(self, collection: AsyncCollection[Document]) -> Mapping[str, Any] | None:
        found = await (await collection.list_search_indexes(self._index)).to_list()
        return found[0] if found else None

    @asynccontextmanager
    async def _collection(self) -> AsyncIterator[AsyncCollection[Document]]:
        async with self._errors.converted(), self._client.use() as client:
            yield client[self._database][self._name]

    def _error(self, error: Exception) -> ServiceError | None:
        if isinstance(error, OperationFailure):
            return self._errors.unavailable(f"responds with the code {error.code}", error)
        return None


def condition_of(filter_: Filter) -> Document:
    """A filter in MongoDB's language. Without comparisons of numbers, it is one of `$vectorSearch`, too.

    Args:
        filter_: the filter.
    """
    match filter_:
        case OneOf(key, values):
            return {"tokens": {"$in": _tokens(key, values)}}
        case Not(OneOf(key, values)):
            return {"tokens": {"$nin": _tokens(key, values)}}
        case Not(inner):
            return {"$nor": [condition_of(inner)]}
        case Compared(key, order, number):
            return {f"metadata.{field_name(key)}": {order: number}}
        case All(()):
            return {"tokens": {"$nin": [_NO_TOKEN]}}
        case All(filters_):
            return {"$and": [condition_of(each) for each in filters_]}
        case Either(()):
            return {"tokens": {"$in": [_NO_TOKEN]}}
        case Either(filters_):
            return {"$or": [condition_of(each) for each in filters_]}


def _has_comparison(filter_: Filter) -> bool:
    match filter_:
        case Compared():
            return True
        case Not(inner):
            return _has_comparison(inner)
        case All(filters_) | Either(filters_):
            return any(map(_has_comparison, filters_))
    return False


def _definition(dimension: int) -> Document:
    # `cosine` rejects zeros. The score of `dotProduct` is (1 + product) / 2.
    vector = {"type": "vector", "path": "vector", "numDimensions": dimension, "similarity": "dotProduct"}
    return {"fields": [vector, *({"type": "filter", "path": path} for path in ("tokens", "write"))]}


def _document(record: Record, vector: Vector, write: str) -> Document:
    tokens = [_token(key, value) for key, value in record.metadata.items()]
    return {
        "_id": record.id,
        "text": record.text,
        "vector": _binary(vector),
        "metadata": {field_name(key): value for key, value in record.metadata.items()},
        "tokens": [each for each in tokens if len(each) <= MAX_TOKEN_LENGTH],
        "write": write,
    }


def _last_of_each_id(documents: Sequence[Document]) -> list[Document]:
    return list({each["_id"]: each for each in documents}.values())


def _hit(found: _Found) -> Hit:
    metadata = {metadata_key(name): value for name, value in found.metadata.items()}
    return Hit(found.id, found.text, relevance(2 * found.score - 1), metadata)


def _tokens(key: str, values: Sequence[MetadataValue]) -> list[str]:
    return list(dict.fromkeys(_token(key, value) for value in values))


def _token(key: str, value: MetadataValue) -> str:
    return f"{field_name(key)}={token(value)}"


def _binary(vector: Vector) -> Binary:
    return Binary.from_vector(vector.tolist(), BinaryVectorDtype.FLOAT32)
