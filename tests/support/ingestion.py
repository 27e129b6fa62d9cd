"""Ingestion into knowledge bases: an embedding server that counts, a client of the routes, a look into the database."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID, uuid5

import httpx
import msgspec
import sqlalchemy as sa
from aiohttp import web

from ragstore_gateway.ingestion.removals import MAX_WAIT
from ragstore_gateway.ingestion.tables import (
    CollectionRow,
    DocumentRow,
    DocumentTextRow,
    IngestionPayloadRow,
    IngestionRow,
    RemovalRow,
)
from ragstore_gateway.keywords.tables import KeywordChunkRow, KeywordIndexRow
from tests.support.fake_providers import FakeProvider, Received, json_response

WAIT_SECONDS: Final = 60.0
DIMENSION: Final = 8
BATCH: Final = 32
"""Chunks that the gateway embeds with one call."""


@dataclass
class EmbeddingServer:
    """A server with the API of Text Embeddings Inference.

    Attributes:
        url: its address.
        texts: how often each text was embedded.
        seconds: time of a response.
        held: part of the texts whose responses wait.
        rejected: part of a text for which the response is 413.
        is_loading: whether all responses are 503, as a server responds that loads its model.
        waiting: number of responses that wait.
    """

    url: str = ""
    texts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    held: str = "\0"
    rejected: str = "\0"
    waiting: int = 0
    is_loading: bool = False
    _provider: FakeProvider | None = None

    async def start(self) -> None:
        """Listen, after a stop on the same port."""
        self._provider = self._provider or FakeProvider(self.respond)
        await self._provider.start()
        self.url = self._provider.url

    async def stop(self) -> None:
        """Close all connections, and refuse others."""
        assert self._provider is not None
        await self._provider.stop()

    async def respond(self, received: Received) -> web.StreamResponse:
        """Embed texts."""
        if self.is_loading:
            return json_response({"error": "the model is loading"}, 503, {"Retry-After": "0"})
        body = msgspec.convert(received.json, dict[str, object])
        texts = msgspec.convert(body["inputs"], list[str])
        await asyncio.sleep(self.seconds)
        self.waiting += 1
        try:
            await until(lambda: not any(self.held in text for text in texts))
        finally:
            self.waiting -= 1
        if any(self.rejected in text for text in texts):
            return json_response({"error": "too large"}, 413)
        self.texts.update(texts)
        return json_response([vector(text) for text in texts])


async def until(condition: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + seconds
    while True:
        if condition():
            return
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


def vector(text: str) -> list[float]:
    """The vector of a text, always the same one."""
    return [byte / 255 - 0.5 for byte in hashlib.sha256(text.encode()).digest()[:DIMENSION]]


@asynccontextmanager
async def embedding_server(seconds: float = 0.0) -> AsyncIterator[EmbeddingServer]:
    """An embedding server on a free port.

    Args:
        seconds: time of a response.
    """
    server = EmbeddingServer(seconds=seconds)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def client_of(url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway. It closes idle connections before the gateway does."""
    limits = httpx.Limits(keepalive_expiry=2)
    async with httpx.AsyncClient(base_url=url, timeout=30, limits=limits) as client:
        yield client


@contextmanager
def state_of(folder: Path) -> Iterator[State]:
    """The database of the gateway with a folder."""
    state = State.of(folder)
    try:
        yield state
    finally:
        state.close()


def text_of(name: str, chunks: int) -> str:
    """A text whose chunks, of 100 characters, are known: each line is one.

    Args:
        name: makes the text different from all others.
        chunks: number of chunks.
    """
    return "\n".join(f"{name} {index} ".ljust(99, "x") for index in range(chunks))


def collection_names(url: str) -> list[str]:
    """The names of the collections of a store."""
    return [each["name"] for each in httpx.get(f"{url}/collections?limit=1000", timeout=30).json()["collections"]]


class Base:
    """A knowledge base of a gateway.

    Args:
        client: calls the gateway.
        id: the base.
    """

    def __init__(self, client: httpx.AsyncClient, id: str) -> None:
        self.client = client
        self.id = id
        self.path = f"/ragstore/rags/{id}"

    async def embedding(self, ingestion_id: str, server: EmbeddingServer) -> None:
        """Wait until the embedding server holds a response."""
        await until(lambda: server.waiting > 0)
        assert (await self.status(ingestion_id))["status"] == "processing"

    @classmethod
    async def create(cls, client: httpx.AsyncClient, **fields: Any) -> Base:
        """Create a base whose chunks have at most 100 characters."""
        body = {"chunkSize": 100, "chunkOverlap": 0, "minScore": 0.0, **fields}
        response = await client.post("/ragstore/rags", json=body)
        assert response.status_code == 201, response.text
        return cls(client, response.headers["Location"].rpartition("/")[2].partition("?")[0])

    async def post(self, name: str, content: str | bytes, media_type: str = "text/plain") -> httpx.Response:
        """Send a document."""
        return await self.client.post(
            self.path + "/ingest",
            params={"documentName": name},
            content=content,
            headers={"Content-Type": media_type},
        )

    async def ingest(self, name: str, content: str | bytes, media_type: str = "text/plain") -> str:
        """Send a document that is accepted.

        Returns:
            The id of its ingestion.
        """
        response = await self.post(name, content, media_type)
        assert response.status_code == 202, response.text
        return str(response.json()["ingestionId"])

    async def progress(self, ingestions: Sequence[str] = ()) -> dict[str, Any]:
        """The progress of the base, with the states of some ingestions."""
        response = await self.client.get(f"{self.path}/ingestions", params={"ingestionId": list(ingestions)})
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def status(self, ingestion_id: str) -> dict[str, Any]:
        """The state of an ingestion."""
        response = await self.client.get(f"{self.path}/ingestion/{ingestion_id}/status")
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def ended(self, ingestion_id: str, seconds: float = WAIT_SECONDS) -> dict[str, Any]:
        """The state of an ingestion when it has ended."""
        deadline = time.monotonic() + seconds
        while True:
            found = await self.status(ingestion_id)
            if found["status"] not in ("pending", "processing"):
                return found
            assert time.monotonic() < deadline, found
            await asyncio.sleep(0.1)

    async def completed(self, name: str, content: str | bytes, media_type: str = "text/plain") -> dict[str, Any]:
        """Ingest a document, and wait until it is complete."""
        found = await self.ended(await self.ingest(name, content, media_type))
        assert found["status"] == "completed", found
        return found

    async def documents(self, **params: Any) -> list[dict[str, Any]]:
        """The documents."""
        response = await self.client.get(self.path + "/documents", params=params)
        assert response.status_code == 200, response.text
        found: list[dict[str, Any]] = response.json()["documents"]
        return found

    async def delete(self, name: str) -> httpx.Response:
        """Delete a document."""
        return await self.client.delete(f"{self.path}/documents/{quote(name, safe='')}")

    async def query(self, question: str, **fields: Any) -> list[dict[str, Any]]:
        """Search."""
        body = {"query": question, "minScore": 0.0, "maxResults": 1000, **fields}
        response = await self.client.post(self.path + "/query", json=body)
        assert response.status_code == 200, response.text
        found: list[dict[str, Any]] = response.json()["results"]
        return found


class State:
    """The database of a gateway, read from outside.

    Args:
        url: SQLAlchemy's URL.
    """

    def __init__(self, url: str) -> None:
        self.engine = sa.create_engine(url)

    @classmethod
    def of(cls, folder: Path, postgres_url: str = "") -> State:
        """The database of a gateway with this folder, or in PostgreSQL."""
        if postgres_url:
            return cls(postgres_url.replace("postgresql://", "postgresql+psycopg://"))
        return cls(f"sqlite:///{folder / 'data' / 'gateway.db'}")

    def rows(self, query: sa.Executable) -> Sequence[Any]:
        """The rows of a query."""
        with self.engine.connect() as connection:
            return connection.execute(query).all()

    def write(self, statement: str, **values: object) -> None:
        """Change rows."""
        with self.engine.begin() as connection:
            connection.execute(sa.text(statement), values)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def steps(self) -> list[str]:
        """The step that each ingestion in progress is in."""
        found = []
        with self.engine.connect() as connection:
            rows = connection.execute(
                sa.select(
                    IngestionRow.id,
                    IngestionRow.state,
                    IngestionRow.revision,
                    IngestionRow.written,
                    IngestionRow.chunks,
                    IngestionRow.chunks_embedded,
                ).where(IngestionRow.state.in_(("pending", "processing")))
            ).all()
            texts = set(connection.execute(sa.select(DocumentTextRow.revision)).scalars())
            split = set(
                connection.execute(
                    sa.select(IngestionPayloadRow.ingestion_id).where(IngestionPayloadRow.kind == "chunks")
                ).scalars()
            )
            soon = datetime.now(UTC) + MAX_WAIT
            removals = connection.execute(
                sa.select(sa.func.count()).select_from(RemovalRow).where(RemovalRow.due_on <= soon)
            ).scalar()
        for row in rows:
            found.append(_step(row, row.revision in texts, row.id in split))
        return found + (["clean up"] if removals else [])

    def recorded_texts(self) -> set[str]:
        """The texts whose embeddings are recorded for ingestions in progress, or are part of a complete document."""
        found: set[str] = set()
        with self.engine.connect() as connection:
            texts: dict[str, str] = {
                revision: msgspec.msgpack.decode(extracted)["text"]
                for revision, extracted in connection.execute(
                    sa.select(DocumentTextRow.revision, DocumentTextRow.extracted)
                )
            }
            current = set(connection.execute(sa.select(DocumentRow.current_revision)).scalars())
            batches = connection.execute(
                sa.select(IngestionPayloadRow.position, IngestionRow.revision)
                .join(IngestionRow, IngestionRow.id == IngestionPayloadRow.ingestion_id)
                .where(IngestionPayloadRow.kind == "vectors")
            ).all()
        for revision, text in texts.items():
            lines = text.split("\n")
            if revision in current:
                found.update(lines)
        for position, revision in batches:
            lines = texts.get(revision, "").split("\n")
            found.update(lines[position * BATCH : (position + 1) * BATCH])
        return {line.strip() for line in found if line.strip()}

    def indexed(self, base_id: str) -> dict[str, set[str]]:
        """The ids of the chunks in the keyword indexes of a base, by collection."""
        query = (
            sa.select(KeywordIndexRow.collection_id, KeywordChunkRow.chunk_id)
            .join(KeywordIndexRow, KeywordIndexRow.id == KeywordChunkRow.index_id)
            .join(CollectionRow, CollectionRow.id == KeywordIndexRow.collection_id)
            .where(CollectionRow.base_id == base_id)
        )
        found: dict[str, set[str]] = {}
        for collection_id, chunk_id in self.rows(query):
            found.setdefault(collection_id, set()).add(chunk_id)
        return found

    def visible(self, base_id: str) -> set[str]:
        """The ids of the chunks of a base that searches may find."""
        query = sa.select(DocumentRow.id, DocumentRow.current_revision, DocumentRow.chunks).where(
            DocumentRow.base_id == base_id, DocumentRow.current_revision.is_not(None)
        )
        return {
            str(uuid5(UUID(id), f"{revision}:{index}"))
            for id, revision, chunks in self.rows(query)
            for index in range(chunks)
        }

    def word_tables(self) -> set[str]:
        """The tables of words. SQLite has further ones for each."""
        with self.engine.connect() as connection:
            names = sa.inspect(connection).get_table_names()
        return {name for name in names if name.startswith("keyword_words") and name.rpartition("_")[2].isdigit()}

    def base_ids(self) -> set[str]:
        """The knowledge bases that have documents, collections or ingestions that have not ended."""
        waiting = sa.select(IngestionRow.base_id).where(IngestionRow.state.in_(("pending", "processing")))
        queries = (sa.select(DocumentRow.base_id), sa.select(CollectionRow.base_id), waiting)
        return {row[0] for query in queries for row in self.rows(query)}

    def collections(self, base_id: str) -> Sequence[Any]:
        """The collections of a base."""
        columns = (CollectionRow.id, CollectionRow.state, CollectionRow.dimension)
        return self.rows(sa.select(*columns).where(CollectionRow.base_id == base_id))

    def chunks(self, base_id: str) -> int:
        """The number of chunks of a base's documents."""
        query = sa.select(sa.func.sum(DocumentRow.chunks)).where(DocumentRow.base_id == base_id)
        return int(self.rows(query)[0][0] or 0)

    def batches(self, ingestion_id: str) -> int:
        """The number of batches of an ingestion whose vectors are recorded."""
        own = (IngestionPayloadRow.ingestion_id == ingestion_id, IngestionPayloadRow.kind == "vectors")
        return int(self.rows(sa.select(sa.func.count()).select_from(IngestionPayloadRow).where(*own))[0][0])

    def owner(self, ingestion_id: str) -> str:
        """The process that works on an ingestion."""
        return str(self.rows(sa.select(IngestionRow.owner).where(IngestionRow.id == ingestion_id))[0][0])

    def active_collections(self) -> list[str]:
        """Names of the collections that searches use."""
        return [row.id for row in self.rows(sa.select(CollectionRow.id).where(CollectionRow.state == "active"))]

    def documents(self) -> Iterator[Any]:
        """The documents that searches find."""
        return iter(
            self.rows(
                sa.select(DocumentRow.id, DocumentRow.name, DocumentRow.current_revision, DocumentRow.chunks).where(
                    DocumentRow.current_revision.is_not(None)
                )
            )
        )


def _step(row: Any, has_text: bool, is_split: bool) -> str:
    if row.state == "pending":
        return "accept"
    if not has_text:
        return "extract"
    if not is_split:
        return "split"
    if row.written:
        return "publish"
    # Some batches are written while others are embedded.
    return "write" if row.chunks_embedded else "embed"
