"""A plain Chroma server as a retrieval provider, read through its v2 API with httpx alone."""

from __future__ import annotations

import math
from collections.abc import Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Self

import httpx
import msgspec

from ragstore_client._async.transport import AsyncTransport
from ragstore_client._endpoint import parse_endpoint
from ragstore_client._exceptions import BadRequest, RagstoreError, describe
from ragstore_client._models import Document, Embedding, Match, MultiQueryResults, StoredMetadata, Where
from ragstore_client._types import FloatArray
from ragstore_client._vectors import to_float32
from ragstore_client.rag._connections import connections, search_retries
from ragstore_client.rag._detection import heartbeat
from ragstore_client.rag._fanout import search_each
from ragstore_client.rag._providers import (
    NO_OPTIONS,
    Capabilities,
    ProviderHealth,
    SearchOptions,
    connection_json_schema,
    validate_configuration,
)
from ragstore_client.rag.chroma import _calls as chroma

_PAGE_SIZE = 500


class ChromaConnection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A Chroma server."""

    url: Annotated[str, msgspec.Meta(title="URL", description="Base URL of the server.", pattern="^https?://")]
    tenant: Annotated[str, msgspec.Meta(title="Tenant", min_length=1)] = "default_tenant"
    database: Annotated[str, msgspec.Meta(title="Database", min_length=1)] = "default_database"
    token: Annotated[
        str | None,
        msgspec.Meta(
            title="Token",
            description="Sent as X-Chroma-Token.",
            extra_json_schema={"writeOnly": True, "format": "password"},
        ),
    ] = None
    timeout: Annotated[
        float, msgspec.Meta(title="Timeout", description="Time limit of a call, in seconds.", gt=0, le=600)
    ] = 5.0


class ChromaProvider:
    """Searches a plain Chroma server.

    Args:
        connection: the server.
        http: the httpx client; the event loop's pool when None.
    """

    name: ClassVar[str] = "chroma"
    title: ClassVar[str] = "Chroma"
    capabilities: ClassVar[Capabilities] = Capabilities(
        collections=True, search=True, embeddings=False, metadata_filtering=True
    )

    def __init__(self, connection: ChromaConnection, *, http: httpx.AsyncClient | None = None) -> None:
        self._connection = connection
        self._http = http
        self._endpoint = parse_endpoint(connection.url)
        self._database = chroma.ChromaDatabase(connection.tenant, connection.database)

    @classmethod
    def connection_schema(cls) -> dict[str, object]:
        """The JSON Schema of a configuration."""
        return connection_json_schema(ChromaConnection)

    @classmethod
    def connect(cls, configuration: Mapping[str, object], *, http: httpx.AsyncClient | None = None) -> Self:
        """Make an instance. See `RetrievalProvider.connect`."""
        return cls(validate_configuration(configuration, ChromaConnection, cls.name), http=http)

    async def health(self) -> ProviderHealth:
        """Get the server's health. See `RetrievalProvider.health`."""
        now = datetime.now(UTC)
        try:
            transport = await self._transport()
            await transport.send(heartbeat())
            version = await transport.send(chroma.version())
            count = await transport.send(self._database.count_collections())
        except RagstoreError as error:
            return ProviderHealth(status="unhealthy", timestamp=now, error=describe(error))
        return ProviderHealth(status="healthy", timestamp=now, version=version, collection_count=count)

    async def collections(self) -> list[str]:
        """List the names of the collections. See `RetrievalProvider.collections`."""
        transport = await self._transport()
        names: list[str] = []
        while page := await transport.send(self._database.list_collections(limit=_PAGE_SIZE, offset=len(names))):
            names += [collection.name for collection in page]
        return names

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
        transport = await self._transport(options.headers)
        vector = to_float32(embedding)
        chroma_where = chroma.to_chroma_where(where)

        def search_one(names: list[str]) -> Coroutine[object, object, MultiQueryResults]:
            return self._search_one(transport, names[0], vector, top_k, chroma_where, options)

        return await search_each(dict.fromkeys(collections), search_one, self._connection.timeout)

    async def documents(self, collection: str, *, where: Where | None = None, limit: int = 1000) -> list[Document]:
        """Read documents by their metadata. See `RetrievalProvider.documents`."""
        transport = await self._transport()
        chroma_where = chroma.to_chroma_where(where)
        known = await transport.send(self._database.get_collection(collection))
        found: list[Document] = []
        while len(found) < limit:
            size = min(_PAGE_SIZE, limit - len(found))
            call = self._database.get(known.id, where=chroma_where, limit=size, offset=len(found))
            page = await transport.send(call)
            found += [
                Document(id_, text or "", _without_nulls(metadata))
                for id_, text, metadata in zip(page.ids, page.documents, page.metadatas, strict=True)
            ]
            if len(page.ids) < size:
                break
        return found

    async def _search_one(
        self,
        transport: AsyncTransport,
        name: str,
        vector: FloatArray,
        top_k: int,
        where: Mapping[str, object],
        options: SearchOptions,
    ) -> MultiQueryResults:
        # Looked up for each search: a collection that was deleted and created again has the same name and another id.
        collection = await transport.send(self._database.get_collection(name))
        if collection.dimension not in (None, len(vector)):
            detail = f"Query has dimension {len(vector)}, collection has dimension {collection.dimension}"
            raise BadRequest(400, detail=detail, code="dimension_mismatch")
        call = self._database.query(
            collection.id, vector, top_k=top_k, where=where, include_embeddings=options.include_embeddings
        )
        found = await transport.send(call)
        embeddings = found.embeddings[0] if found.embeddings else [None] * len(found.ids[0])
        distances = [math.nan if distance is None else distance for distance in found.distances[0]]
        columns = zip(found.ids[0], found.documents[0], found.metadatas[0], distances, embeddings, strict=True)
        matches = [
            Match(
                id_, text or "", _without_nulls(metadata), distance, score(collection.space, distance), name, embedding
            )
            for id_, text, metadata, distance, embedding in columns
        ]
        if options.min_score is not None:
            matches = [match for match in matches if match.score >= options.min_score]
        return MultiQueryResults(matches, len(matches))

    async def _transport(self, headers: Mapping[str, str] | None = None) -> AsyncTransport:
        timeout, token = self._connection.timeout, self._connection.token
        return AsyncTransport(
            await connections(self._http),
            self._endpoint,
            timeout=timeout,
            retries=search_retries(timeout),
            headers={**(headers or {}), **({"x-chroma-token": token} if token else {})},
        )


def score(space: str, distance: float) -> float:
    """The score of a distance, as the contract defines it.

    Args:
        space: the distance function: `cosine`, `ip` or `l2`.
        distance: the distance that Chroma returned.

    Returns:
        The score.
    """
    return 1 / (1 + distance) if space == "l2" else 1 - distance


def _without_nulls(metadata: chroma.ChromaMetadata | None) -> StoredMetadata:
    return {key: value for key, value in (metadata or {}).items() if value is not None}
