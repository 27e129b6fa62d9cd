"""What the client's tests share: a real service, a real Chroma server, a real embeddings endpoint, and watched logs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from threading import Thread
from typing import Protocol, TypeVar, cast
from uuid import uuid4

import httpx
import pytest

from client.corpus import CANARIES
from client.fake_servers import Embeddings, LocalServer
from ragstore_client import (
    AsyncClient,
    Client,
    Distance,
    EmbeddingCache,
    NewDocument,
    NotFound,
    RagSettings,
    to_float32,
)
from serving import Served, running, start_chroma, start_service

T = TypeVar("T")


class Watch(logging.Handler):
    """Keeps every log line of the process, at every level."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture(scope="module")
def watch() -> Iterator[Watch]:
    """All that is logged while a module's tests run. Not longer: httpx tells a dozen lines of each request."""
    handler = Watch()
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.DEBUG)
    root.addHandler(handler)
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture(autouse=True)
def _no_canary_is_logged(watch: Watch) -> Iterator[None]:
    """Texts, previews, metadata values, queries, vectors and keys never show up in a log line, of any library."""
    watch.lines.clear()
    yield
    told = [(canary, line) for canary in CANARIES for line in watch.lines if canary in line]
    assert not told


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The service, over embedded Chroma."""
    with running(start_service(tmp_path_factory.mktemp("client-service"))) as served:
        yield served
    logged = served.log.read_text()
    assert [canary for canary in CANARIES if canary in logged] == []


@pytest.fixture(scope="session")
def chroma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A plain Chroma server."""
    with running(start_chroma(tmp_path_factory.mktemp("client-chroma"))) as served:
        yield served


@pytest.fixture
def embeddings() -> Iterator[tuple[Embeddings, LocalServer]]:
    """An embeddings endpoint, and the server that it runs in."""
    endpoint = Embeddings()
    with LocalServer(endpoint.respond) as server:
        yield endpoint, server


@pytest.fixture
def endpoint(embeddings: tuple[Embeddings, LocalServer]) -> Embeddings:
    """The embeddings endpoint, to break it."""
    return embeddings[0]


@pytest.fixture
def embedded(embeddings: tuple[Embeddings, LocalServer]) -> Callable[[], list[dict[str, object]]]:
    """What the embeddings endpoint was asked."""
    return lambda: [json.loads(request.body) for request in embeddings[1].requests]


@pytest.fixture
def settings(embeddings: tuple[Embeddings, LocalServer]) -> RagSettings:
    """Settings that name the embeddings endpoint."""
    return RagSettings(embeddings_url=embeddings[1].url, query_timeout=3.0, embed_timeout=3.0)


@pytest.fixture
def cache() -> EmbeddingCache:
    """A cache that no other test has filled."""
    return EmbeddingCache()


@pytest.fixture
def name() -> str:
    """A collection's name that no other test uses."""
    return f"repo_{uuid4()}"


class Shelf(Protocol):
    """Something that holds archives, behind a `chromadb_url`."""

    url: str

    def put(self, name: str, documents: Sequence[NewDocument], distance: Distance = "cosine") -> None:
        """Make a collection that holds documents."""
        ...

    def drop(self, name: str) -> None:
        """Delete a collection."""
        ...


class RagstoreShelf:
    """The service."""

    def __init__(self, client: Client) -> None:
        self.url = client.base_url
        self._client = client

    def put(self, name: str, documents: Sequence[NewDocument], distance: Distance = "cosine") -> None:
        self._client.create_collection(name, distance=distance)
        if documents:
            self._client.upsert_documents(name, documents)

    def drop(self, name: str) -> None:
        self._client.delete_collection(name)


class ChromaShelf:
    """A plain Chroma server, written to as the platform does: through its own API."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._collections = f"{url}/api/v2/tenants/default_tenant/databases/default_database/collections"
        self._http = httpx.Client(timeout=30)

    def put(self, name: str, documents: Sequence[NewDocument], distance: Distance = "cosine") -> None:
        made = self._http.post(self._collections, json={"name": name, "configuration": {"hnsw": {"space": distance}}})
        if documents:
            records = {
                "ids": [document.id for document in documents],
                "documents": [document.text for document in documents],
                "embeddings": [list(to_float32(document.embedding)) for document in documents],
                "metadatas": [document.metadata for document in documents],
            }
            self._http.post(f"{self._collections}/{made.json()['id']}/upsert", json=records).raise_for_status()

    def drop(self, name: str) -> None:
        self._http.delete(f"{self._collections}/{name}").raise_for_status()

    def close(self) -> None:
        self._http.close()


@pytest.fixture(scope="session")
def ragstore_shelf(store: Client) -> Shelf:
    """Archives in the service."""
    return RagstoreShelf(store)


@pytest.fixture(scope="session")
def chroma_shelf(chroma: Served) -> Iterator[Shelf]:
    """Archives in a plain Chroma server."""
    shelf = ChromaShelf(chroma.url)
    yield shelf
    shelf.close()


@pytest.fixture(params=["ragstore", "chroma"])
def shelf(request: pytest.FixtureRequest) -> Shelf:
    """Archives in either: the test runs with both, and must come to the same."""
    return cast("Shelf", request.getfixturevalue(f"{request.param}_shelf"))


class Blocking:
    """The async client for callers that do not await, so that one test serves both clients."""

    def __init__(self, url: str, **options: object) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._client = self._run(self._made(url, options))

    def __getattr__(self, called: str) -> Callable[..., object]:
        method = getattr(self._client, called)

        def call(*args: object, **named: object) -> object:
            result = method(*args, **named)
            return self._iterated(result) if isinstance(result, AsyncGenerator) else self._run(result)

        return call

    def close(self) -> None:
        self._run(self._client.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _made(self, url: str, options: dict[str, object]) -> AsyncClient:
        return AsyncClient(url, **options)  # type: ignore[arg-type]  # the test's own options

    def _run(self, coroutine: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _iterated(self, generator: AsyncGenerator[object, None]) -> Iterator[object]:
        try:
            while True:
                try:
                    yield self._run(anext(generator))
                except StopAsyncIteration:
                    return
        finally:
            self._run(generator.aclose())


Connect = Callable[..., Client]


@pytest.fixture(params=["sync", "async"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Makes a client of a URL: the test runs with the synchronous and with the asynchronous one."""
    made: list[Client] = []

    def make(url: str, **options: object) -> Client:
        if request.param == "async":
            made.append(cast("Client", Blocking(url, **options)))
        else:
            made.append(Client(url, **options))  # type: ignore[arg-type]  # the test's own options
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def client(connect: Connect, service: Served) -> Client:
    """A client of the service, synchronous and asynchronous."""
    return connect(service.url)


@pytest.fixture(scope="session")
def store(service: Served) -> Iterator[Client]:
    """A client of the service for preparing what a test is about."""
    with Client(service.url) as client:
        yield client


@pytest.fixture
def collection(store: Client, name: str) -> Iterator[str]:
    """A new, empty collection."""
    store.create_collection(name)
    yield name
    with contextlib.suppress(NotFound):
        store.delete_collection(name)
