"""What the client's tests share: a real service, a real Chroma server, a real embeddings endpoint, and watched logs."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from threading import Thread
from typing import cast
from uuid import uuid4

import httpx
import pytest
from client.corpus import CANARIES
from client.servers import Embeddings, LocalServer
from ragstore_client import AsyncClient, Client, EmbeddingCache, RagSettings
from serving import Served, running, start_chroma, start_service


class Watch(logging.Handler):
    """Keeps every log line of the process, at every level."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture(scope="session")
def watch() -> Iterator[Watch]:
    """All that is logged while the client's tests run."""
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


class Blocking:
    """The async client for callers that do not await, so that one test serves both clients."""

    def __init__(self, url: str, **options: object) -> None:
        self._loop = asyncio.new_event_loop()
        Thread(target=self._loop.run_forever, daemon=True).start()
        self._client = self._run(self._made(url, options))

    def __getattr__(self, called: str) -> Callable[..., object]:
        method = getattr(self._client, called)

        def call(*args: object, **named: object) -> object:
            result = method(*args, **named)
            return self._iterated(result) if inspect.isasyncgen(result) else self._run(result)

        return call

    def close(self) -> None:
        self._run(self._client.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _made(self, url: str, options: dict[str, object]) -> AsyncClient:
        return AsyncClient(url, **options)  # type: ignore[arg-type]  # the test's own options

    def _run(self, coroutine):  # type: ignore[no-untyped-def]  # of whatever the method returns
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _iterated(self, generator: AsyncIterator[object]) -> Iterator[object]:
        try:
            while True:
                try:
                    yield self._run(anext(generator))
                except StopAsyncIteration:
                    return
        finally:
            self._run(generator.aclose())  # type: ignore[attr-defined]  # an async generator


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


@pytest.fixture
def store(service: Served) -> Iterator[Client]:
    """A client of the service for preparing what a test is about."""
    with Client(service.url) as client:
        yield client


@pytest.fixture
def collection(store: Client, name: str) -> Iterator[str]:
    """A new, empty collection."""
    store.create_collection(name)
    yield name
    with httpx.Client(base_url=store.base_url) as http:
        http.delete(f"/collections/{name}")
