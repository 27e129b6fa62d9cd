"""`mongodb-atlas`: collections of MongoDB with a vector index of Atlas Search."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar
from uuid import uuid4

import numpy as np
from bson.binary import Binary, BinaryVectorDtype
from bson.errors import BSONError
from msgspec import Struct, convert
from pymongo import AsyncMongoClient, ReadPreference, ReplaceOne, WriteConcern
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import CollectionInvalid, OperationFailure, PyMongoError
from pymongo.operations import SearchIndexModel
from pymongo.read_concern import ReadConcern

from ragstore.kit.errors import ServiceError
from ragstore_client import Where
from ragstore_gateway.engines import filters
from ragstore_gateway.engines.engine import Adapter
from ragstore_gateway.engines.engine_collection import MetadataValue, Passage, Record, Vector
from ragstore_gateway.engines.failures import StoreErrors, check_dimension, dimension_mismatch
from ragstore_gateway.engines.filters import All, Compared, Either, Filter, Not, OneOf
from ragstore_gateway.engines.names import field_name, metadata_key, physical_name
from ragstore_gateway.engines.ranking import cosine_relevance, relevance, search_ranked
from ragstore_gateway.engines.shared_client import Secrets, SharedClient
from ragstore_gateway.engines.store_parameters import MongodbParameters
from ragstore_gateway.engines.tokens import key_tokens, metadata_tokens
from ragstore_gateway.engines.vectors import unit_matrix, unit_vector
from ragstore_gateway.secrets.secret_references import SecretReferences

Document: TypeAlias = dict[str, Any]
Client: TypeAlias = AsyncMongoClient[Document]

T = TypeVar("T")

MAX_DIMENSION: Final = 8192
MAX_CANDIDATES: Final = 10_000
MIN_CANDIDATES: Final = 100
CANDIDATES: Final = 20
"""Candidates of the index for each passage, as Atlas' documentation recommends."""

MAX_NAME_LENGTH: Final = 120
POLL_SECONDS: Final = 0.05
MAX_POLL_SECONDS: Final = 0.8
"""Time between two looks at an index that is updated after the write, as Atlas Search does it. It doubles each time."""

WAIT_SHARE: Final = 0.8
"""Share of the time limit that a call waits for the search index, so that its error can say so."""

MAJORITY: Final = WriteConcern("majority")

_REJECTIONS: Final = frozenset({2, 9, 13, 14, 18, 121, 10334})
"""Codes of a call that would fail again: values, syntax, permissions, types, credentials, validation, size."""

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
    """A collection. See `EngineCollection`.

    Args:
        client: the connection.
        collection: name of the collection.
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
        self._timeout_seconds = timeout_seconds
        self._name = physical_name(parameters.collection_name, collection, MAX_NAME_LENGTH)
        # The last two are raised by connection strings that are not valid.
        kinds = (PyMongoError, BSONError, ValueError, TypeError)
        self._errors = StoreErrors("mongodb-atlas", timeout_seconds, kinds, self._error)

    async def create(self) -> None:
        """Create the collection and its indexes, and wait until the search index can be searched."""
        check_dimension("mongodb-atlas", self._dimension, MAX_DIMENSION)
        definition = _definition(self._dimension)
        model = SearchIndexModel(definition=definition, name=self._index, type="vectorSearch")
        end = self._end()
        async with self._collection() as collection:
            try:
                await collection.database.create_collection(self._name)
            except (CollectionInvalid, OperationFailure):
                if not await self._exists(collection):
                    raise
            # Without these, each deletion and each count would read the whole collection.
            for path in ("tokens", "write"):
                await collection.create_index(path)
            if await self._stored_index(collection) is None:
                try:
                    await collection.create_search_index(model)
                except OperationFailure:
                    # Another gateway may have created it since.
                    if await self._stored_index(collection) is None:
                        raise

            async def queryable() -> Mapping[str, Any] | None:
                stored = await self._stored_index(collection)
                if stored is not None and stored.get("status") == "FAILED":
                    raise self._errors.unavailable("could not build its search index", RuntimeError())
                return stored if stored is not None and stored.get("queryable") else None

            index = await self._until(end, queryable, "is still building its search index")
        fields: list[Document] = index["latestDefinition"]["fields"]
        found = next(int(field["numDimensions"]) for field in fields if field["type"] == "vector")
        if found != self._dimension:
            raise dimension_mismatch(found, self._dimension)

    async def write(self, records: Sequence[Record]) -> None:
        """Store records in a transaction, and wait until the index has them."""
        if not records:
            return
        end = self._end()
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
                await session.with_transaction(
                    write_all,
                    read_concern=ReadConcern("local"),
                    write_concern=MAJORITY,
                    read_preference=ReadPreference.PRIMARY,
                )
            await self._wait_for_index(collection, write, end)

    async def search(
        self, vector: Vector, limit: int, *, min_relevance: float = 0.0, where: Where | None = None
    ) -> list[Passage]:
        """Find the nearest records."""
        filter_ = filters.parse(where)
        query = unit_vector(vector, self._dimension)

        async def fetch(count: int) -> list[Passage]:
            search = await self._search(collection, query, filter_, count)
            found = await self._found(collection, search, filter_, count)
            is_exact = "exact" in search
            if not is_exact and len(found) < count and len(found) < await self._matching(collection, filter_):
                # The index still has records that are deleted, or the approximate search has missed some.
                search |= {"exact": True, "limit": count + MAX_CANDIDATES}
                search.pop("numCandidates", None)
                found = await self._found(collection, search, filter_, count)
            return found

        async with self._collection() as collection:
            return await search_ranked(fetch, limit, min_relevance)

    async def compare(self, vector: Vector, ids: Sequence[str]) -> list[Passage]:
        """Compare records with a vector."""
        query = unit_vector(vector, self._dimension)
        stages: list[Document] = [
            {"$match": {"_id": {"$in": list(ids)}}},
            {"$project": {"text": 1, "metadata": 1, "vector": 1}},
        ]
        async with self._collection() as collection:
            found = await (await collection.aggregate(stages)).to_list()
        # The score of the index is that of `dotProduct`, which is the relevance.
        vectors = [np.asarray(each["vector"].as_vector().data, dtype=np.float32) for each in found]
        scores = [cosine_relevance(query, vector) for vector in vectors]
        return [
            replace(_passage(convert(each | {"score": score}, _Found)), vector=vector)
            for each, score, vector in zip(found, scores, vectors, strict=True)
        ]

    async def delete(self, where: Where) -> int:
        """Delete the records that a filter selects."""
        condition = condition_of(filters.parse_deletion(where))
        async with self._collection() as collection:
            return (await collection.delete_many(condition)).deleted_count

    async def delete_ids(self, ids: Sequence[str]) -> None:
        """Delete documents by their ids."""
        async with self._collection() as collection:
            await collection.delete_many({"_id": {"$in": list(ids)}})

    async def count(self, where: Where | None = None) -> int:
        """Count the records that a filter selects."""
        condition = condition_of(filters.parse(where))
        async with self._collection() as collection:
            return await collection.count_documents(condition)

    async def drop(self) -> None:
        """Remove the collection with its index."""
        async with self._collection() as collection:
            await collection.drop()

    async def _search(
        self, collection: AsyncCollection[Document], query: Vector, filter_: Filter, count: int
    ) -> Document:
        """The first stage of a search."""
        search: Document = {"index": self._index, "path": "vector", "queryVector": _binary(query)}
        if _has_comparison(filter_):
            # The index filters by fields that its definition names. Numbers of any key are compared after the search.
            return search | {"exact": True, "limit": await collection.estimated_document_count() + MAX_CANDIDATES}
        candidates = max(MIN_CANDIDATES, min(CANDIDATES * count, MAX_CANDIDATES))
        search |= {"numCandidates": candidates, "limit": count}
        return search if filter_ == filters.EVERYTHING else search | {"filter": condition_of(filter_)}

    async def _found(
        self, collection: AsyncCollection[Document], search: Document, filter_: Filter, count: int
    ) -> list[Passage]:
        after: list[Document] = [{"$match": condition_of(filter_)}] if _has_comparison(filter_) else []
        fields = {"text": 1, "metadata": 1, "score": {"$meta": "vectorSearchScore"}}
        stages: list[Document] = [{"$vectorSearch": search}, *after, {"$limit": count}, {"$project": fields}]
        return [_passage(convert(each, _Found)) async for each in await collection.aggregate(stages)]

    async def _matching(self, collection: AsyncCollection[Document], filter_: Filter) -> int:
        if filter_ == filters.EVERYTHING:
            return await collection.estimated_document_count()
        return await collection.count_documents(condition_of(filter_))

    async def _wait_for_index(self, collection: AsyncCollection[Document], write: str, end: float) -> None:
        """Wait until a search finds all records of a write that no later write has replaced."""
        search = {
            "index": self._index,
            "path": "vector",
            "queryVector": _binary(np.zeros(self._dimension, dtype=np.float32)),
            "exact": True,
            "limit": MAX_CANDIDATES,
            "filter": {"write": write},
        }

        async def complete() -> bool:
            found = await (await collection.aggregate([{"$vectorSearch": search}, {"$count": "n"}])).to_list()
            return (found[0]["n"] if found else 0) >= await collection.count_documents({"write": write})

        await self._until(end, complete, "has stored the records, and its search index does not have them yet")

    async def _until(self, end: float, ready: Callable[[], Awaitable[T | None]], problem: str) -> T:
        """Wait until a function returns something that is true.

        Raises:
            StoreUnavailable: it does not in time.
        """
        loop = asyncio.get_running_loop()
        wait = POLL_SECONDS
        while not (found := await ready()):
            left = end - loop.time()
            if left <= 0:
                raise self._errors.unavailable(problem, TimeoutError())
            await asyncio.sleep(min(wait, left))
            wait = min(2 * wait, MAX_POLL_SECONDS)
        return found

    def _end(self) -> float:
        """Until when a call that begins now waits for the search index."""
        return asyncio.get_running_loop().time() + WAIT_SHARE * self._timeout_seconds

    async def _exists(self, collection: AsyncCollection[Document]) -> bool:
        return bool(await collection.database.list_collection_names(filter={"name": self._name}))

    async def _stored_index(self, collection: AsyncCollection[Document]) -> Mapping[str, Any] | None:
        found = await (await collection.list_search_indexes(self._index)).to_list()
        return found[0] if found else None

    @asynccontextmanager
    async def _collection(self) -> AsyncIterator[AsyncCollection[Document]]:
        async with self._errors.converted(), self._client.use() as client:
            # A connection string may choose others. `$vectorSearch` is rejected with any other read concern.
            database = client.get_database(
                self._database,
                read_preference=ReadPreference.PRIMARY,
                write_concern=MAJORITY,
                read_concern=ReadConcern("local"),
            )
            yield database[self._name]

    def _error(self, error: Exception) -> ServiceError | None:
        if isinstance(error, OperationFailure):
            make = self._errors.rejected if error.code in _REJECTIONS else self._errors.unavailable
            return make(f"responds with the code {error.code}", error)
        return None


ADAPTER: Final = Adapter(connect_mongodb, MongodbStore)


def condition_of(filter_: Filter) -> Document:
    """A filter in MongoDB's language. Without comparisons of numbers, it is one of `$vectorSearch`, too."""
    match filter_:
        case OneOf(key, values):
            return {"tokens": {"$in": key_tokens(key, values)}}
        case Not(OneOf(key, values)):
            return {"tokens": {"$nin": key_tokens(key, values)}}
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
    return {
        "_id": record.id,
        "text": record.text,
        "vector": _binary(vector),
        "metadata": {field_name(key): value for key, value in record.metadata.items()},
        "tokens": metadata_tokens(record.metadata),
        "write": write,
    }


def _last_of_each_id(documents: Sequence[Document]) -> list[Document]:
    return list({each["_id"]: each for each in documents}.values())


def _passage(found: _Found) -> Passage:
    metadata = {metadata_key(name): value for name, value in found.metadata.items()}
    return Passage(found.id, found.text, relevance(2 * found.score - 1), metadata)


def _binary(vector: Vector) -> Binary:
    return Binary.from_vector(vector.tolist(), BinaryVectorDtype.FLOAT32)
