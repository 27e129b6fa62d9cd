"""`ragstore`: collections of a store, through the client of its contract."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, TypeVar

import httpx

from ragstore.filters import where as language
from ragstore.filters.grammar import InvalidFilter
from ragstore.kit.errors import FieldError, ServiceError
from ragstore.kit.time_slices import rest
from ragstore_client import (
    AsyncClient,
    Document,
    HnswParameters,
    Match,
    NewDocument,
    NotFound,
    ProblemError,
    RagstoreError,
    Where,
)
from ragstore_gateway.engines import filters
from ragstore_gateway.engines.engine_collection import MAX_PASSAGES, Passage, Record, Vector
from ragstore_gateway.engines.failures import StoreErrors, dimension_mismatch, empty_if_missing
from ragstore_gateway.engines.linked_collection import scalars
from ragstore_gateway.engines.ranking import cosine_relevance, relevance, search_ranked
from ragstore_gateway.engines.shared_client import Secrets, SharedClient
from ragstore_gateway.engines.store_parameters import RagstoreParameters
from ragstore_gateway.engines.vectors import unit_matrix, unit_rows, unit_vector
from ragstore_gateway.errors import DimensionMismatch
from ragstore_gateway.secrets.secret_references import SecretReferences
from ragstore_gateway.store.propagation import add_ids

DIMENSION_KEY: Final = "gateway_dimension"
"""Key of the dimension in a collection's metadata: the store itself learns it from the first document."""

INDEX: Final = HnswParameters(max_neighbors=64, ef_construction=300, ef_search=400)
"""Parameters of Chroma's index.

With Chroma's defaults, equal and nearly equal chunks hide all others: beside 200 chunks of one vector and 160 near it,
78 of 88 others were found by no search of 3 or 50 passages. With these, all were found (1.5.9, 256 dimensions). They
add 0.8 ms of CPU time to the write of a chunk, and 2 ms to a search among 10,000 chunks."""

MANY_RECORDS: Final = 64
"""Number of records whose encoding is a step of the event loop of its own."""

ClientUse: TypeAlias = Callable[[], AbstractAsyncContextManager[AsyncClient]]
"""Lends a client for the time of a block."""


class RagstoreStore:
    """A collection of a store. See `EngineCollection`.

    Args:
        client: lends a client of the store.
        collection: name of the collection.
        timeout_seconds: time limit of one call, its retries included.
        store_type: name of the store in errors.
    """

    def __init__(
        self,
        client: ClientUse,
        collection: str,
        dimension: int,
        timeout_seconds: float,
        store_type: str = "ragstore",
    ) -> None:
        self._client = client
        self._name = collection
        self._dimension = dimension
        self._errors = StoreErrors(store_type, timeout_seconds, (RagstoreError,), self._error)

    async def create(self) -> None:
        """Create the collection."""
        async with self._calls() as client:
            created = await client.create_collection(
                self._name,
                metadata={DIMENSION_KEY: self._dimension},
                distance="cosine",
                hnsw=INDEX,
                if_exists="use",
            )
        found = created.dimension or int(str(created.metadata.get(DIMENSION_KEY, self._dimension)))
        if found != self._dimension:
            raise dimension_mismatch(found, self._dimension)

    async def write(self, records: Sequence[Record]) -> None:
        """Store records."""
        if not records:
            return
        vectors = unit_matrix(records, self._dimension)
        documents = [
            NewDocument(id=record.id, text=record.text, embedding=vector, metadata=record.metadata)
            for record, vector in zip(records, vectors, strict=True)
        ]
        if len(records) >= MANY_RECORDS:
            await rest()
        async with self._calls() as client:
            await client.upsert_documents(self._name, documents)

    async def search(
        self, vector: Vector, limit: int, *, min_relevance: float = 0.0, where: Where | None = None
    ) -> list[Passage]:
        """Find the nearest records."""
        language.parse(where)
        query = unit_vector(vector, self._dimension)

        async def fetch(count: int) -> list[Passage]:
            found = await client.query(self._name, query, top_k=count, where=where)
            return [
                Passage(match.id, match.text, relevance(match.score), scalars(match.metadata))
                for match in found.results
            ]

        async with empty_if_missing(), self._calls() as client:
            return await search_ranked(fetch, limit, min_relevance, MAX_PASSAGES)
        return []

    async def compare(self, vector: Vector, ids: Sequence[str]) -> list[Passage]:
        """Compare records with a vector."""
        query = unit_vector(vector, self._dimension)
        if not ids:
            return []
        async with empty_if_missing(), self._calls() as client:
            found = await client.get_documents(self._name, list(ids), include_embeddings=True)
            return compared(query, found)
        return []

    async def delete(self, where: Where) -> int:
        """Delete the records that a filter selects."""
        filters.parse_deletion(where)
        async with empty_if_missing(), self._calls() as client:
            return (await client.delete_documents(self._name, where=where)).count
        return 0

    async def delete_ids(self, ids: Sequence[str]) -> None:
        """Delete records by their ids."""
        if not ids:
            return
        async with empty_if_missing(), self._calls() as client:
            await client.delete_documents(self._name, ids=ids)

    async def count(self, where: Where | None = None) -> int:
        """Count the records that a filter selects."""
        language.parse(where)
        async with empty_if_missing(), self._calls() as client:
            return await client.count(self._name, where)
        return 0

    async def drop(self) -> None:
        """Remove the collection."""
        async with empty_if_missing(), self._calls() as client:
            await client.delete_collection(self._name)

    @asynccontextmanager
    async def _calls(self) -> AsyncIterator[AsyncClient]:
        async with self._errors.converted(), self._client() as client:
            yield client

    def _error(self, error: Exception) -> ServiceError | None:
        if isinstance(error, NotFound) and error.code == "collection_not_found":
            return self._errors.missing()
        if isinstance(error, ProblemError):
            if error.status == 403:
                problem = "does not let the gateway's key use the collection, and responds"
                return self._errors.of_status(problem, error.status, error)
            if error.code == InvalidFilter.code:
                # The store is older or newer than this gateway. The error names keys of the request, and no value.
                return InvalidFilter(error.detail, [FieldError(field.path, field.message) for field in error.errors])
            if error.code == "dimension_mismatch":
                return DimensionMismatch("The collection's vectors have another dimension")
            return self._errors.of_status("responds", error.status, error)
        return None


@dataclass(frozen=True, slots=True)
class StoreConnection:
    """A client of another store than the gateway's, and its connections."""

    client: AsyncClient
    http: httpx.AsyncClient


def connect_ragstore(
    parameters: RagstoreParameters, secrets: SecretReferences, timeout_seconds: float
) -> SharedClient[StoreConnection]:
    """The connection to another store than the gateway's.

    Args:
        parameters: its address, and the reference to its key.
        secrets: resolves the reference.
        timeout_seconds: time limit of one call.
    """

    async def connect(values: Secrets) -> StoreConnection:
        http = httpx.AsyncClient(event_hooks={"request": [add_ids]})
        key = values.get("api_key")
        return StoreConnection(AsyncClient(parameters.base_url, api_key=key, timeout=timeout_seconds, http=http), http)

    references = {} if parameters.api_key is None else {"api_key": parameters.api_key}
    return SharedClient(connect, lambda connection: connection.http.aclose(), references, secrets)


class HasClient(Protocol):
    """A connection with a client."""

    @property
    def client(self) -> AsyncClient:
        """The client."""


H = TypeVar("H", bound=HasClient)


def clients_of(connection: SharedClient[H]) -> ClientUse:
    """Lends the client of a connection."""

    @asynccontextmanager
    async def use() -> AsyncIterator[AsyncClient]:
        async with connection.use() as found:
            yield found.client

    return use


def compared(query: Vector, found: Iterable[Document | Match]) -> list[Passage]:
    """Records as passages, by their own vectors. Records without a vector are skipped.

    Args:
        query: the vector of the question, of length 1 or zeros.
        found: the records, whose vectors have any length.
    """
    # All vectors together: that is a third of the time of one after the other.
    records = [(each, each.embedding) for each in found if each.embedding is not None]
    if not records:
        return []
    vectors = unit_rows([embedding for _, embedding in records], len(query))
    return [
        Passage(each.id, each.text, cosine_relevance(query, vector), scalars(each.metadata), vector=vector)
        for (each, _), vector in zip(records, vectors, strict=True)
    ]
