"""ragstore as a retrieval provider."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import msgspec

from ragstore_client._async.client import AsyncClient
from ragstore_client._endpoint import parse_endpoint
from ragstore_client._exceptions import RagstoreError, describe
from ragstore_client._models import MultiQueryResults
from ragstore_client._retries import RetryPolicy
from ragstore_client.rag._connections import shared_http
from ragstore_client.rag._fanout import search_in_time
from ragstore_client.rag._providers import Capabilities, ProviderHealth, connection_json_schema, validate_configuration

if TYPE_CHECKING:
    from ragstore_client._models import Document, Embedding, Where

_MAX_COLLECTIONS = 256
"""Most collections that the service searches in one call."""


class RagstoreConnection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A ragstore service."""

    url: Annotated[str, msgspec.Meta(title="URL", description="Base URL of the service.", pattern="^https?://")]
    api_key: Annotated[
        str | None,
        msgspec.Meta(title="API key", extra_json_schema={"writeOnly": True, "format": "password"}),
    ] = None
    timeout: Annotated[float, msgspec.Meta(title="Timeout", description="Seconds for an answer.", gt=0, le=600)] = 5.0


class RagstoreProvider:
    """Searches a ragstore service.

    Args:
        connection: where it is.
    """

    name: ClassVar[str] = "ragstore"
    title: ClassVar[str] = "ragstore"
    capabilities: ClassVar[Capabilities] = Capabilities(
        collections=True, search=True, embeddings=False, metadata_filtering=True
    )

    def __init__(self, connection: RagstoreConnection) -> None:
        self._connection = connection
        self._url = parse_endpoint(connection.url, connection.api_key).url

    @classmethod
    def connection_schema(cls) -> dict[str, object]:
        """What a configuration must look like, as a JSON Schema."""
        return connection_json_schema(RagstoreConnection)

    @classmethod
    def connect(cls, configuration: Mapping[str, object]) -> Self:
        """Make an instance. See `RetrievalProvider.connect`."""
        return cls(validate_configuration(configuration, RagstoreConnection, cls.name))

    async def health(self) -> ProviderHealth:
        """Ask the service how it is. See `RetrievalProvider.health`."""
        try:
            health = await (await self._client()).health()
        except RagstoreError as error:
            return ProviderHealth(status="unhealthy", timestamp=datetime.now(UTC), error=describe(error))
        return ProviderHealth(
            status=health.status,
            timestamp=health.timestamp,
            error=health.error,
            version=health.version,
            collection_count=health.collections_count,
            storage_bytes=health.details.storage_bytes,
        )

    async def collections(self) -> list[str]:
        """The names of its collections. See `RetrievalProvider.collections`."""
        return [collection.name async for collection in (await self._client()).iter_collections()]

    async def search(
        self, collections: Sequence[str], embedding: Embedding, *, top_k: int, where: Where | None = None
    ) -> MultiQueryResults:
        """Find what is near to a vector, in several collections. See `RetrievalProvider.search`."""
        client = await self._client()
        names = list(dict.fromkeys(collections))

        def ask(some: list[str]) -> Coroutine[object, object, MultiQueryResults]:
            return client.query_collections(some, embedding, top_k=top_k, where=where)

        parts = [names[start : start + _MAX_COLLECTIONS] for start in range(0, len(names), _MAX_COLLECTIONS)]
        answers = await asyncio.gather(*(search_in_time(part, ask, self._connection.timeout) for part in parts))
        results = [match for answer in answers for match in answer.results]
        return MultiQueryResults(results, len(results), [error for answer in answers for error in answer.errors])

    async def documents(self, collection: str, *, where: Where | None = None, limit: int = 1000) -> list[Document]:
        """Read documents by their metadata alone. See `RetrievalProvider.documents`."""
        found: list[Document] = []
        client = await self._client()
        async for document in client.iter_documents(collection, where=where, page_size=min(limit, 1000)):
            found.append(document)
            if len(found) >= limit:
                break
        return found

    async def _client(self) -> AsyncClient:
        timeout = self._connection.timeout
        return AsyncClient(
            self._connection.url,
            api_key=self._connection.api_key,
            timeout=timeout,
            retries=RetryPolicy(attempts=2, base=0.1, budget=timeout),
            http=await shared_http(),
        )
