"""ragstore as a retrieval provider."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Self

import httpx
import msgspec

from ragstore_client._async.client import AsyncClient
from ragstore_client._endpoint import parse_endpoint
from ragstore_client._exceptions import RagstoreError, describe
from ragstore_client._models import Document, Embedding, MultiQueryResults, Where
from ragstore_client.rag._connections import connections, search_retries
from ragstore_client.rag._fanout import search_jointly
from ragstore_client.rag._providers import (
    NO_OPTIONS,
    Capabilities,
    ProviderHealth,
    SearchOptions,
    connection_json_schema,
    validate_configuration,
)

_MAX_COLLECTIONS = 256
"""Maximum number of collections that the service searches in one call."""


class RagstoreConnection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A ragstore service."""

    url: Annotated[str, msgspec.Meta(title="URL", description="Base URL of the service.", pattern="^https?://")]
    api_key: Annotated[
        str | None,
        msgspec.Meta(title="API key", extra_json_schema={"writeOnly": True, "format": "password"}),
    ] = None
    timeout: Annotated[
        float, msgspec.Meta(title="Timeout", description="Time limit of a call, in seconds.", gt=0, le=600)
    ] = 5.0


class RagstoreProvider:
    """Searches a ragstore service.

    Args:
        connection: the service.
        http: the httpx client; the event loop's pool when None.
    """

    name: ClassVar[str] = "ragstore"
    title: ClassVar[str] = "ragstore"
    capabilities: ClassVar[Capabilities] = Capabilities(
        collections=True, search=True, embeddings=False, metadata_filtering=True
    )

    def __init__(self, connection: RagstoreConnection, *, http: httpx.AsyncClient | None = None) -> None:
        parse_endpoint(connection.url, connection.api_key)  # raises InvalidConfiguration
        self._connection = connection
        self._http = http

    @classmethod
    def connection_schema(cls) -> dict[str, object]:
        """The JSON Schema of a configuration."""
        return connection_json_schema(RagstoreConnection)

    @classmethod
    def connect(cls, configuration: Mapping[str, object], *, http: httpx.AsyncClient | None = None) -> Self:
        """Make an instance. See `RetrievalProvider.connect`."""
        return cls(validate_configuration(configuration, RagstoreConnection, cls.name), http=http)

    async def health(self) -> ProviderHealth:
        """Get the service's health. See `RetrievalProvider.health`."""
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
        """List the names of the collections. See `RetrievalProvider.collections`."""
        return [collection.name async for collection in (await self._client()).iter_collections(counts=False)]

    async def search(
        self,
        collections: Sequence[str],
        embedding: Embedding,
        *,
        top_k: int,
        where: Where | None = None,
        options: SearchOptions = NO_OPTIONS,
    ) -> MultiQueryResults:
        """Search several collections by similarity. See `RetrievalProvider.search`."""
        client = await self._client(options.headers)
        names = list(dict.fromkeys(collections))

        def search_some(some: list[str]) -> Coroutine[object, object, MultiQueryResults]:
            return client.query_collections(
                some,
                embedding,
                top_k=top_k,
                where=where,
                min_score=options.min_score,
                include_embeddings=options.include_embeddings,
            )

        groups = [names[start : start + _MAX_COLLECTIONS] for start in range(0, len(names), _MAX_COLLECTIONS)]
        found = await asyncio.gather(
            *(search_jointly(group, search_some, self._connection.timeout) for group in groups)
        )
        results = [match for each in found for match in each.results]
        return MultiQueryResults(results, len(results), [error for each in found for error in each.errors])

    async def documents(self, collection: str, *, where: Where | None = None, limit: int = 1000) -> list[Document]:
        """Read documents by their metadata. See `RetrievalProvider.documents`."""
        found: list[Document] = []
        client = await self._client()
        async for document in client.iter_documents(collection, where=where, page_size=min(limit, 1000)):
            found.append(document)
            if len(found) >= limit:
                break
        return found

    async def _client(self, headers: Mapping[str, str] | None = None) -> AsyncClient:
        timeout = self._connection.timeout
        return AsyncClient(
            self._connection.url,
            api_key=self._connection.api_key,
            timeout=timeout,
            retries=search_retries(timeout),
            headers=headers,
            http=await connections(self._http),
        )
