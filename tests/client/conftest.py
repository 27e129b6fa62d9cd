"""Fixtures of the client's tests: a real service, a real Chroma server, an embeddings endpoint, and a log spy."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator
from typing import cast
from uuid import uuid4

import pytest

from ragstore_client import (
    Client,
    EmbeddingCache,
    NewDocument,
    NotFound,
    RagArchiveConfig,
    RagConfig,
    RagSettings,
    Retriever,
)
from tests.client.archive_stores import ArchiveStore, ChromaArchiveStore, RagstoreArchiveStore
from tests.client.clients import BlockingAsyncClient, ClientFactory
from tests.client.corpus import CANARIES, HANDBOOK
from tests.client.fake_servers import FakeEmbeddings, LocalServer
from tests.client.spies import LogSpy
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, running, start_service


@pytest.fixture(scope="module")
def log_spy() -> Iterator[LogSpy]:
    """All log lines while a module's tests run. Not longer: httpx logs a dozen lines for each request."""
    handler = LogSpy()
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.DEBUG)
    root.addHandler(handler)
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture(autouse=True)
def _no_canary_is_logged(log_spy: LogSpy) -> Iterator[None]:
    """No log line of any library contains a text, preview, metadata value, query, vector or key."""
    log_spy.lines.clear()
    yield
    leaks = [(canary, line) for canary in CANARIES for line in log_spy.lines if canary in line]
    assert not leaks


@pytest.fixture(scope="package")
@starts_process
def client_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The service, over embedded Chroma."""
    with running(start_service(tmp_path_factory.mktemp("client-service"))) as served:
        yield served
    logged = served.log.read_text()
    assert [canary for canary in CANARIES if canary in logged] == []


@pytest.fixture
def embeddings() -> Iterator[tuple[FakeEmbeddings, LocalServer]]:
    """An embeddings endpoint, and the server that it runs in."""
    endpoint = FakeEmbeddings()
    with LocalServer(endpoint.respond) as server:
        yield endpoint, server


@pytest.fixture
def endpoint(embeddings: tuple[FakeEmbeddings, LocalServer]) -> FakeEmbeddings:
    """The embeddings endpoint, to inject faults."""
    return embeddings[0]


@pytest.fixture
def embedding_requests(embeddings: tuple[FakeEmbeddings, LocalServer]) -> Callable[[], list[dict[str, object]]]:
    """The bodies of the requests to the embeddings endpoint."""
    return lambda: [json.loads(request.body) for request in embeddings[1].requests]


@pytest.fixture
def settings(embeddings: tuple[FakeEmbeddings, LocalServer]) -> RagSettings:
    """Settings with the URL of the embeddings endpoint."""
    return RagSettings(embeddings_url=embeddings[1].url, query_timeout=3.0, embed_timeout=3.0)


@pytest.fixture
def cache() -> EmbeddingCache:
    """An empty cache."""
    return EmbeddingCache()


@pytest.fixture
def archive_name() -> str:
    """A unique name for a collection."""
    return f"repo_{uuid4()}"


@pytest.fixture(scope="package")
def ragstore_archives(store: Client) -> ArchiveStore:
    """Archives in the service."""
    return RagstoreArchiveStore(store)


@pytest.fixture(scope="package")
def chroma_archives(chroma: Served) -> Iterator[ArchiveStore]:
    """Archives in a plain Chroma server."""
    archives = ChromaArchiveStore(chroma.url)
    yield archives
    archives.close()


@pytest.fixture(params=["ragstore", "chroma"])
@starts_process
def archive_store(request: pytest.FixtureRequest) -> ArchiveStore:
    """Archives in either: the test runs with both, with the same result."""
    return cast("ArchiveStore", request.getfixturevalue(f"{request.param}_archives"))


@pytest.fixture(params=["sync", "async"])
def make_client(request: pytest.FixtureRequest) -> Iterator[ClientFactory]:
    """Makes a client for a URL: the test runs with the synchronous and with the asynchronous one."""
    made: list[Client] = []

    def make(url: str, **options: object) -> Client:
        if request.param == "async":
            made.append(cast("Client", BlockingAsyncClient(url, **options)))
        else:
            made.append(Client(url, **options))  # type: ignore[arg-type]  # the test's own options
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def client(make_client: ClientFactory, client_service: Served) -> Client:
    """A client of the service, synchronous and asynchronous."""
    return make_client(client_service.url)


@pytest.fixture(scope="package")
def store(client_service: Served) -> Iterator[Client]:
    """A client of the service, for preparing a test."""
    with Client(client_service.url) as client:
        yield client


@pytest.fixture
def client_collection(store: Client, archive_name: str) -> Iterator[str]:
    """A new, empty collection."""
    store.create_collection(archive_name)
    yield archive_name
    with contextlib.suppress(NotFound):
        store.delete_collection(archive_name)


@pytest.fixture
def handbook(archive_store: ArchiveStore, archive_name: str) -> Iterator[RagArchiveConfig]:
    """An archive with the handbook."""
    archive_store.create(archive_name, HANDBOOK)
    yield RagArchiveConfig(name="Handbuch", collection_name=archive_name, chromadb_url=archive_store.url)
    archive_store.delete(archive_name)


@pytest.fixture
def make_archive(archive_store: ArchiveStore, archive_name: str) -> Iterator[Callable[..., RagArchiveConfig]]:
    """Makes archives with documents."""
    made: list[str] = []

    def make(*documents: NewDocument, **more: str) -> RagArchiveConfig:
        made.append(f"{archive_name}-{len(made)}")
        archive_store.create(made[-1], documents)
        title = f"Archiv {len(made)}"
        return RagArchiveConfig(name=title, collection_name=made[-1], **{"chromadb_url": archive_store.url, **more})

    yield make
    for each in made:
        archive_store.delete(each)


@pytest.fixture
def make_retriever(settings: RagSettings, cache: EmbeddingCache) -> Callable[..., Retriever]:
    """Makes retrievers for archives."""

    def make(*archives: RagArchiveConfig, settings: RagSettings = settings, **more: str) -> Retriever:
        return Retriever(RagConfig(archives=list(archives)), settings=settings, cache=cache, **more)  # type: ignore[arg-type]

    return make


@pytest.fixture
def runtime_environment(monkeypatch: pytest.MonkeyPatch, embeddings: tuple[FakeEmbeddings, LocalServer]) -> None:
    """The runtime's environment names the embeddings endpoint."""
    monkeypatch.setenv("DOCPROC_TEI_EMBEDDINGS_URL", embeddings[1].url)
    monkeypatch.setenv("RAG_EMBED_TIMEOUT_SECONDS", "3")
    monkeypatch.setattr("ragstore_client.integrations._archive_tool.shared_cache", EmbeddingCache())
