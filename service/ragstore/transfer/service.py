"""A ragstore as transfers use it: `ragstore_client`, with the errors as one line for the person at the terminal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final
from urllib.parse import urlsplit

import msgspec
import numpy as np

import ragstore_client as client
from ragstore.transfer.counted import CountedCollection
from ragstore.transfer.documents import Document
from ragstore.transfer.failures import TransferFailed

TIMEOUT_SECONDS: Final = 120.0
"""Maximum duration of one attempt of a request. The service responds earlier, if only with 504."""

MAX_RETRY_DELAY_SECONDS: Final = 10.0
UNLIMITED_ATTEMPTS: Final = 1_000_000_000
"""The time budget alone ends retries."""

MAX_REQUESTS_PER_BATCH: Final = 256
"""Maximum number of requests into which a batch is split while the service rejects it as too large."""


class Service:
    """A ragstore. Created by `connect`.

    Args:
        connection: the client to use.
    """

    def __init__(self, connection: client.AsyncClient) -> None:
        self._client = connection

    @property
    def address(self) -> str:
        """The service's address."""
        return self._client.base_url

    async def collections(self, *, counts: bool = False) -> list[client.Collection]:
        """All collections, by name; with their number of documents if `counts` is true."""
        with self._readable_errors():
            return (await self._client.list_collections(counts=counts)).collections

    async def collection(self, name: str) -> CountedCollection:
        """The current state of a collection.

        Raises:
            TransferFailed: Chroma cannot count its documents, and so could not read or write them either.
        """
        with self._readable_errors():
            found = await self._client.get_collection(name)
        if found.count is None:
            raise TransferFailed(f"{self.address}: Collection '{name}' is damaged: Chroma cannot count its documents")
        try:
            return msgspec.convert(found, CountedCollection, from_attributes=True)
        except msgspec.ValidationError:
            raise self._foreign() from None

    async def create(self, wanted: CountedCollection) -> bool:
        """Create a collection.

        Args:
            wanted: its name, metadata and distance, and the parameters of its index.

        Returns:
            False when a collection of that name exists.
        """
        with self._readable_errors():
            try:
                # With `get_or_create` the call is idempotent, so it is retried like any other.
                created = await self._client.create_collection(
                    wanted.name,
                    metadata=wanted.metadata,
                    distance=wanted.distance,
                    hnsw=wanted.hnsw,
                    get_or_create=True,
                    if_exists="use",
                )
            except client.Conflict:
                return False
        return created.status == "created"

    async def start_rebuild(self, name: str, sample: int, hnsw: Mapping[str, int | None]) -> client.Rebuild:
        """Begin to rebuild a collection's index.

        Args:
            name: the collection.
            sample: number of documents that are looked for in the old index and in the new one.
            hnsw: parameters of the new index; a None leaves the parameter as it is.
        """
        with self._readable_errors():
            return await self._client.start_rebuild(name, hnsw=client.HnswParameters(**hnsw), sample=sample)

    async def rebuild(self, name: str) -> client.Rebuild:
        """The state of the latest rebuild of a collection's index."""
        with self._readable_errors():
            return await self._client.get_rebuild(name)

    async def page(self, name: str, offset: int, limit: int) -> list[Document]:
        """Documents in insertion order.

        Args:
            name: the collection.
            offset: number of documents to skip.
            limit: maximum number of documents, up to 1000.

        Returns:
            The documents.
        """
        with self._readable_errors():
            page = await self._client.list_documents(
                name, offset=offset, limit=limit, include_embeddings=True, total=False
            )
            return [self._document(found) for found in page.documents]

    async def documents(self, name: str, ids: Sequence[str]) -> dict[str, Document]:
        """Look documents up.

        Args:
            name: the collection.
            ids: up to 1000 ids.

        Returns:
            The documents that exist, by id.
        """
        with self._readable_errors():
            page = await self._client.list_documents(
                name, ids=ids, limit=len(ids), include_embeddings=True, total=False
            )
            return {found.id: self._document(found) for found in page.documents}

    async def upsert(self, name: str, documents: Sequence[Document]) -> None:
        """Write documents in their order, in as many requests as the service's limits require.

        Args:
            name: the collection.
            documents: one or more documents.
        """
        new = [
            client.NewDocument(id=each.id, text=each.text, embedding=each.embedding, metadata=each.metadata)
            for each in documents
        ]
        limits = client.BatchLimits(documents=len(new), requests=MAX_REQUESTS_PER_BATCH)
        with self._readable_errors():
            outcomes = [outcome async for outcome in self._client.ingest(name, new, concurrency=1, limits=limits)]
        for outcome in outcomes:
            if outcome.error is not None:
                with self._readable_errors(f"Document '{outcome.id}': "):
                    raise outcome.error

    def _document(self, found: client.Document) -> Document:
        if found.embedding is None:
            raise self._foreign()
        embedding = np.array(found.embedding, dtype="<f4").tobytes()
        return Document(found.id, found.text, found.metadata, embedding)

    def _foreign(self) -> TransferFailed:
        return TransferFailed(f"{self.address}: the response is not that of a ragstore")

    @contextmanager
    def _readable_errors(self, subject: str = "") -> Iterator[None]:
        """Turn the client's errors into one line each."""
        try:
            yield
        except client.ProblemError as error:
            raise TransferFailed(f"{self.address}: {subject}{error} ({error.status})") from None
        except client.ConnectFailed:
            raise TransferFailed(f"{self.address}: cannot be reached") from None
        except client.UnexpectedResponse:
            raise self._foreign() from None
        except client.RagstoreError as error:
            raise TransferFailed(f"{self.address}: {subject}{error}") from None


@asynccontextmanager
async def connect(address: str, key: str, patience: float) -> AsyncIterator[Service]:
    """A service and its connections. No request is sent yet.

    Args:
        key: the API key; empty for none.
        patience: for how many seconds a request is retried.

    Yields:
        The service.

    Raises:
        TransferFailed: the address is not valid, or the key contains characters that no header can carry.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or "@" in parts.netloc:
        raise TransferFailed("Expected an address like http://127.0.0.1:8080, without user, password and query")
    retries = client.RetryPolicy(attempts=UNLIMITED_ATTEMPTS, cap=MAX_RETRY_DELAY_SECONDS, budget=patience)
    try:
        connection = client.AsyncClient(address, api_key=key or None, timeout=TIMEOUT_SECONDS, retries=retries)
    except client.InvalidConfiguration as error:
        raise TransferFailed(f"The address or the key cannot be used: {error}") from None
    async with connection:
        yield Service(connection)
