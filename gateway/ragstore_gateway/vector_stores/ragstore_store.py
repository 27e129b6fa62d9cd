"""`ragstore`: collections of the gateway's own store, through the client of its contract."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import msgspec
from msgspec import Struct

from ragstore_client import AsyncClient, BadRequest, NewDocument, NotFound, ProblemError, RagstoreError, Where, describe
from ragstore_gateway.errors import CollectionMissing, DimensionMismatch, StoreUnavailable
from ragstore_gateway.vector_stores import filters
from ragstore_gateway.vector_stores.ranking import cosine_of, relevance, search_ranked
from ragstore_gateway.vector_stores.vector_store import MAX_HITS, Hit, MetadataValue, Record, Vector
from ragstore_gateway.vector_stores.vectors import unit_matrix, unit_vector

DIMENSION_KEY: Final = "gateway_dimension"
"""Key of the dimension in a collection's metadata: the store itself learns it from the first document."""


class RagstoreParameters(Struct, frozen=True, rename="camel"):
    """`ragstore` has no parameters: it is the store of the gateway."""


class RagstoreStore:
    """A collection of a store. See `VectorStore`.

    Args:
        client: calls the store.
        collection: name of the collection.
        dimension: its dimension.
        timeout_seconds: time limit of one attempt of a call.
        store_type: name of the store in errors.
    """

    def __init__(
        self,
        client: AsyncClient,
        collection: str,
        dimension: int,
        timeout_seconds: float,
        store_type: str = "ragstore",
    ) -> None:
        self._client = client.with_options(timeout=timeout_seconds)
        self._name = collection
        self._dimension = dimension
        self._store_type = store_type

    async def create(self) -> None:
        """Create the collection."""
        async with self._errors():
            created = await self._client.create_collection(
                self._name, metadata={DIMENSION_KEY: self._dimension}, distance="cosine", if_exists="use"
            )
        found = created.dimension or created.metadata.get(DIMENSION_KEY, self._dimension)
        if found != self._dimension:
            raise DimensionMismatch(
                f"The collection has the dimension {found}, and the embedding model {self._dimension}"
            )

    async def write(self, records: Sequence[Record]) -> None:
        """Store records."""
        if not records:
            return
        vectors = unit_matrix(records, self._dimension)
        documents = [
            NewDocument(id=record.id, text=record.text, embedding=vector, metadata=record.metadata)
            for record, vector in zip(records, vectors, strict=True)
        ]
        async with self._errors():
            await self._client.upsert_documents(self._name, documents)

    async def search(
        self, vector: Vector, limit: int, *, min_score: float = 0.0, where: Where | None = None
    ) -> list[Hit]:
        """Find the nearest records."""
        filters.parse(where)
        query = unit_vector(vector, self._dimension)

        async def fetch(count: int) -> list[Hit]:
            found = await self._client.query(
                self._name, query, top_k=count, where=where, min_score=cosine_of(min_score) if min_score > 0 else None
            )
            return [
                Hit(match.id, match.text, relevance(match.score), msgspec.convert(match.metadata, _METADATA))
                for match in found.results
            ]

        try:
            async with self._errors():
                return await search_ranked(fetch, limit, min_score, MAX_HITS)
        except CollectionMissing:
            return []

    async def delete(self, where: Where) -> int:
        """Delete the records that a filter selects."""
        filters.parse_deletion(where)
        try:
            async with self._errors():
                return (await self._client.delete_documents(self._name, where=where)).count
        except CollectionMissing:
            return 0

    async def count(self, where: Where | None = None) -> int:
        """Count the records that a filter selects."""
        filters.parse(where)
        try:
            async with self._errors():
                return await self._client.count(self._name, where)
        except CollectionMissing:
            return 0

    async def drop(self) -> None:
        """Remove the collection."""
        try:
            async with self._errors():
                await self._client.delete_collection(self._name)
        except CollectionMissing:
            return

    @asynccontextmanager
    async def _errors(self) -> AsyncIterator[None]:
        """Convert the client's errors."""
        try:
            yield
        except NotFound as error:
            if error.code != "collection_not_found":
                raise self._failed(error) from None
            raise CollectionMissing(f"The collection does not exist in the vector store ({self._store_type})") from None
        except BadRequest as error:
            if error.code == "dimension_mismatch":
                raise DimensionMismatch("The collection's vectors have another dimension") from None
            raise self._failed(error) from None
        except RagstoreError as error:
            raise self._failed(error) from None

    def _failed(self, error: RagstoreError) -> StoreUnavailable:
        status = f" with status {error.status}" if isinstance(error, ProblemError) else ""
        verb = "responded" if status else "does not respond"
        return StoreUnavailable(f"The vector store ({self._store_type}) {verb}{status}").because(describe(error))


_METADATA: Final = dict[str, MetadataValue]
