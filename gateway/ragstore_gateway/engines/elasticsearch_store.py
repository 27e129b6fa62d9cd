"""`elasticsearch`: indexes of Elasticsearch, one for each collection, behind an alias."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import httpx
import numpy as np
from elastic_transport import ApiResponse
from elasticsearch import ApiError, AsyncElasticsearch, BadRequestError, NotFoundError
from elasticsearch.exceptions import SerializationError, TransportError, UnsupportedProductError
from msgspec import Struct, convert, json

from ragstore.kit.errors import InvalidRequest, ServiceError
from ragstore_client import Where
from ragstore_gateway.engines import filters
from ragstore_gateway.engines.engine import Adapter
from ragstore_gateway.engines.engine_collection import MetadataValue, Passage, Record, Vector
from ragstore_gateway.engines.failures import StoreErrors, check_dimension, dimension_mismatch, empty_if_missing
from ragstore_gateway.engines.filters import All, Compared, Either, Filter, Not, OneOf
from ragstore_gateway.engines.names import field_name, physical_name
from ragstore_gateway.engines.ranking import cosine_relevance, relevance, search_ranked
from ragstore_gateway.engines.shared_client import Secrets, SharedClient
from ragstore_gateway.engines.store_parameters import ElasticsearchParameters
from ragstore_gateway.engines.tokens import token
from ragstore_gateway.engines.vectors import unit_matrix, unit_vector
from ragstore_gateway.secrets.secret_references import SecretReferences

MAX_DIMENSION: Final = 4096
MAX_CANDIDATES: Final = 10_000
MIN_CANDIDATES: Final = 100
MAX_NAME_LENGTH: Final = 200
MAX_QUERY_DEPTH: Final = 30
"""Default of the setting `indices.query.bool.max_nested_depth`, which counts each query within another one."""

_MEDIA_TYPE: Final = re.compile("application/(json|x-ndjson)")

Query: TypeAlias = dict[str, Any]
"""A query in Elasticsearch's language."""


class _Source(Struct):
    text: str
    metadata: dict[str, MetadataValue]


class _Found(Struct, rename={"id": "_id", "score": "_score", "source": "_source"}):
    id: str
    score: float
    source: _Source


class _StoredSource(_Source):
    vector: list[float]


class _Stored(Struct, rename={"id": "_id", "source": "_source"}):
    id: str
    source: _StoredSource


class _Outcome(Struct):
    status: int


class CompatibleClient(AsyncElasticsearch):
    """A client that requests the REST interface of version 8, which Elasticsearch 8 and 9 have.

    Version 9 of the driver requests the interface of version 9, and Elasticsearch 8 rejects that with status 400.
    """

    async def perform_request(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **given: Any
    ) -> ApiResponse[Any]:
        """Send a request."""
        compatible = r"application/vnd.elasticsearch+\1; compatible-with=8"
        own = {name: _MEDIA_TYPE.sub(compatible, value) for name, value in (headers or {}).items()}
        return await super().perform_request(method, path, headers=own, **given)


def connect_elasticsearch(
    parameters: ElasticsearchParameters, secrets: SecretReferences, timeout_seconds: float
) -> SharedClient[AsyncElasticsearch]:
    """The connection to Elasticsearch.

    Args:
        parameters: the server.
        secrets: resolves the references to its key or password.
        timeout_seconds: time limit of one call.
    """

    async def connect(values: Secrets) -> AsyncElasticsearch:
        password = values.get("password")
        return CompatibleClient(
            parameters.server_url,
            # The driver's own one does not compare the certificate with an IP address.
            ssl_context=httpx.create_ssl_context() if parameters.server_url.startswith("https:") else None,
            api_key=values.get("api_key"),
            basic_auth=None if password is None else (parameters.user_name or "", password),
            request_timeout=timeout_seconds,
            max_retries=0,
        )

    given = {"api_key": parameters.api_key, "password": parameters.password}
    references = {name: reference for name, reference in given.items() if reference is not None}
    return SharedClient(connect, AsyncElasticsearch.close, references, secrets)


class ElasticsearchStore:
    """An index. See `EngineCollection`.

    Args:
        client: the connection.
        collection: name of the collection.
        timeout_seconds: time limit of one call.
    """

    def __init__(
        self,
        client: SharedClient[AsyncElasticsearch],
        parameters: ElasticsearchParameters,
        collection: str,
        dimension: int,
        timeout_seconds: float,
    ) -> None:
        self._client = client
        self._dimension = dimension
        self._alias = physical_name(parameters.index_name, collection, MAX_NAME_LENGTH)
        # Writes need the alias, so that a write never creates an index by itself.
        self._index = f"{self._alias}-records"
        kinds = (ApiError, TransportError, SerializationError)
        self._errors = StoreErrors("elasticsearch", timeout_seconds, kinds, self._error)

    async def create(self) -> None:
        """Create the index and its alias."""
        check_dimension("elasticsearch", self._dimension, MAX_DIMENSION)
        async with self._calls() as client:
            try:
                await client.indices.create(
                    index=self._index,
                    aliases={self._alias: {}},
                    mappings=_mappings(self._dimension),
                    settings={"index.mapping.total_fields.ignore_dynamic_beyond_limit": True},
                )
            except BadRequestError as error:
                if error.error != "resource_already_exists_exception":
                    raise
            stored = await client.indices.get_mapping(index=self._index)
        found = int(stored[self._index]["mappings"]["properties"]["vector"]["dims"])
        if found != self._dimension:
            raise dimension_mismatch(found, self._dimension)

    async def write(self, records: Sequence[Record]) -> None:
        """Store records. Elasticsearch stores each by itself: after an error, some may be stored."""
        if not records:
            return
        # The client passes bytes on. Its own encoder blocks the event loop for 64 ms with 32 vectors of 3,072 numbers,
        # and this one for 13 ms.
        operations: list[Any] = []
        for record, vector in zip(records, unit_matrix(records, self._dimension), strict=True):
            operations += [json.encode({"index": {"_id": record.id}}), json.encode(_document(record, vector))]
        async with self._calls() as client:
            done = await client.bulk(index=self._alias, operations=operations, refresh="wait_for", require_alias=True)
        if not done["errors"]:
            return
        statuses = {convert(item["index"], _Outcome).status for item in done["items"]}
        if 404 in statuses:
            raise self._errors.missing()
        failed = sorted(status for status in statuses if status >= 300)
        raise self._errors.of_status("rejected records", failed[0], RuntimeError())

    async def search(
        self, vector: Vector, limit: int, *, min_relevance: float = 0.0, where: Where | None = None
    ) -> list[Passage]:
        """Find the nearest records."""
        filter_ = filters.parse(where)
        knn: Query = {"field": "vector", "query_vector": unit_vector(vector, self._dimension).tolist()}
        if filter_ != filters.EVERYTHING:
            knn["filter"] = checked_query_of(filter_)

        async def fetch(count: int) -> list[Passage]:
            candidates = max(MIN_CANDIDATES, min(2 * count, MAX_CANDIDATES))
            found = await client.search(
                index=self._alias,
                knn={**knn, "k": count, "num_candidates": candidates},
                size=count,
                source_includes=["text", "metadata"],
                allow_partial_search_results=False,
            )
            return [_passage(convert(hit, _Found)) for hit in found["hits"]["hits"]]

        async with empty_if_missing(), self._calls() as client:
            return await search_ranked(fetch, limit, min_relevance)
        return []

    async def compare(self, vector: Vector, ids: Sequence[str]) -> list[Passage]:
        """Compare records with a vector."""
        query = unit_vector(vector, self._dimension)
        if not ids:
            return []
        async with empty_if_missing(), self._calls() as client:
            found = await client.mget(index=self._alias, ids=list(ids), source_includes=["text", "metadata", "vector"])
            records = [convert(each, _Stored) for each in found["docs"] if each.get("found")]
            return [
                Passage(
                    each.id,
                    each.source.text,
                    cosine_relevance(query, each.source.vector),
                    each.source.metadata,
                    vector=np.asarray(each.source.vector, dtype=np.float32),
                )
                for each in records
            ]
        return []

    async def delete(self, where: Where) -> int:
        """Delete the records that a filter selects."""
        return await self._delete(checked_query_of(filters.parse_deletion(where)))

    async def delete_ids(self, ids: Sequence[str]) -> None:
        """Delete records by their ids."""
        await self._delete({"ids": {"values": list(ids)}})

    async def _delete(self, query: Query) -> int:
        deleted = 0
        async with empty_if_missing(), self._calls() as client:
            # A deletion finds what a search finds. A write that was not acknowledged may not be visible yet.
            await client.indices.refresh(index=self._alias)
            while True:
                done = await client.delete_by_query(index=self._alias, query=query, conflicts="proceed", refresh=True)
                deleted += int(done["deleted"])
                if done["failures"] or done["timed_out"]:
                    raise self._errors.unavailable("has not deleted all records", RuntimeError())
                if not done["version_conflicts"]:
                    break
                # These records were written again since the deletion began, and may still match.
        return deleted

    async def count(self, where: Where | None = None) -> int:
        """Count the records that a filter selects."""
        query = checked_query_of(filters.parse(where))
        async with empty_if_missing(), self._calls() as client:
            found = await client.count(index=self._alias, query=query)
            # Elasticsearch responds with what it could count.
            if found["_shards"]["failed"]:
                raise self._errors.unavailable("cannot read all of its shards", RuntimeError())
            return int(found["count"])
        return 0

    async def drop(self) -> None:
        """Remove the index."""
        async with empty_if_missing(), self._calls() as client:
            await client.indices.delete(index=self._index)

    @asynccontextmanager
    async def _calls(self) -> AsyncIterator[AsyncElasticsearch]:
        async with self._errors.converted(), self._client.use() as client:
            yield client

    def _error(self, error: Exception) -> ServiceError | None:
        if isinstance(error, NotFoundError) and error.error in ("index_not_found_exception", "alias_not_found"):
            return self._errors.missing()
        if isinstance(error, UnsupportedProductError):
            return self._errors.unavailable("is not Elasticsearch: its responses do not name the product", error)
        if isinstance(error, ApiError):
            return self._errors.of_status("responds", error.status_code, error)
        return None


ADAPTER: Final = Adapter(connect_elasticsearch, ElasticsearchStore)


def checked_query_of(filter_: Filter) -> Query:
    """A filter in Elasticsearch's language, within Elasticsearch's limit of its depth.

    Raises:
        InvalidRequest: it is too deep.
    """
    query = query_of(filter_)
    if _depth(query) > MAX_QUERY_DEPTH:
        problem = f"$and and $or alternate too often: a query of Elasticsearch has at most {MAX_QUERY_DEPTH} levels"
        raise InvalidRequest.at("$.where", problem)
    return query


def _depth(query: Query) -> int:
    inner = [each for part in query.get("bool", {}).values() if isinstance(part, list) for each in part]
    return 1 + max(map(_depth, inner), default=0)


def query_of(filter_: Filter) -> Query:
    """A filter in Elasticsearch's language."""
    match filter_:
        case OneOf(key, values):
            return {"terms": {f"values.{field_name(key)}": list(dict.fromkeys(map(token, values)))}}
        case Compared(key, order, number):
            return {"range": {f"numbers.{field_name(key)}": {order.removeprefix("$"): number}}}
        case Not(inner):
            return {"bool": {"must_not": [query_of(inner)]}}
        case All(()):
            return {"match_all": {}}
        case All(filters_):
            return {"bool": {"filter": [query_of(each) for each in filters_]}}
        case Either(()):
            return {"match_none": {}}
        case Either(filters_):
            return {"bool": {"should": [query_of(each) for each in filters_], "minimum_should_match": 1}}


def _mappings(dimension: int) -> Mapping[str, Any]:
    vector = {
        "type": "dense_vector",
        "dims": dimension,
        "index": True,
        # `cosine` and `dot_product` reject zeros. The default of the index would quantize.
        "similarity": "max_inner_product",
        "index_options": {"type": "hnsw"},
    }
    return {
        "dynamic": False,
        "dynamic_templates": [{"numbers": {"path_match": "numbers.*", "mapping": {"type": "double"}}}],
        "properties": {
            "text": {"type": "text", "index": False},
            "metadata": {"type": "object", "enabled": False},
            "values": {"type": "flattened"},
            "numbers": {"type": "object", "dynamic": True},
            "vector": vector,
        },
    }


def _document(record: Record, vector: Vector) -> Mapping[str, Any]:
    return {
        "text": record.text,
        "metadata": dict(record.metadata),
        "values": {field_name(key): token(value) for key, value in record.metadata.items()},
        "numbers": {field_name(key): value for key, value in record.metadata.items() if filters.is_number(value)},
        "vector": vector.tolist(),
    }


def _passage(found: _Found) -> Passage:
    # max_inner_product: 1 / (1 - product) below 0, and 1 + product from 0 on.
    score = found.score
    product = score - 1 if score >= 1 else 1 - 1 / max(score, 0.1)
    return Passage(found.id, found.source.text, relevance(product), found.source.metadata)
