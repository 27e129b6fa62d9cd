"""Retrieval providers: the scenarios of the specification, over the real service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Self

import httpx
import jsonschema
import pytest

from ragstore_client import (
    Capabilities,
    ChromaProvider,
    Document,
    Embedding,
    InvalidConfiguration,
    MultiQueryResults,
    ProviderExists,
    ProviderHealth,
    ProviderInfo,
    ProviderRegistry,
    RagstoreProvider,
    RetrievalProvider,
    UnknownProvider,
    Where,
    registry,
)
from tests.client.archive_stores import ArchiveStore
from tests.client.corpus import CANARY_KEY, chunk
from tests.client.fake_servers import Response, scripted_server, vector_of
from tests.support.servers import Served, free_port


class Another:
    """A third-party provider."""

    name: ClassVar[str] = "another"
    title: ClassVar[str] = "Another"
    capabilities: ClassVar[Capabilities] = Capabilities(
        collections=False, search=True, embeddings=True, metadata_filtering=False
    )

    @classmethod
    def connection_schema(cls) -> dict[str, object]:
        return {"type": "object"}

    @classmethod
    def connect(cls, configuration: Mapping[str, object]) -> Self:
        return cls()

    async def health(self) -> ProviderHealth:
        return ProviderHealth(status="healthy", timestamp=datetime.now(UTC))

    async def collections(self) -> list[str]:
        return []

    async def search(
        self, collections: Sequence[str], embedding: Embedding, *, top_k: int, where: Where | None = None
    ) -> MultiQueryResults:
        return MultiQueryResults([], 0)

    async def documents(self, collection: str, *, where: Where | None = None, limit: int = 1000) -> list[Document]:
        return []


def test_rag_provider_registration() -> None:
    mine = ProviderRegistry()
    assert mine.register(Another) is Another
    assert [info.name for info in mine.discover()] == ["another"]
    mine.register(Another)
    assert len(mine.discover()) == 1


def test_a_name_can_be_registered_once() -> None:
    class Impostor(Another):
        """Another of the same name."""

    mine = ProviderRegistry()
    mine.register(Another)
    with pytest.raises(ProviderExists, match="'another'"):
        mine.register(Impostor)


def test_rag_provider_discovery() -> None:
    found = {info.name: info for info in registry.discover()}
    assert list(found) == ["ragstore", "chroma"]
    assert found["ragstore"].capabilities == Capabilities(
        collections=True, search=True, embeddings=False, metadata_filtering=True
    )


async def test_rag_provider_selection(client_service: Served) -> None:
    provider: RetrievalProvider = registry.select("ragstore", {"url": client_service.url})
    assert isinstance(provider, RagstoreProvider)
    assert (await provider.health()).status == "healthy"


def test_an_unknown_provider_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(UnknownProvider, match="'pinecone'; registered: chroma, ragstore"):
        registry.select("pinecone", {})
    with pytest.raises(UnknownProvider, match="registered: none"):
        ProviderRegistry().select("ragstore", {})


@pytest.mark.parametrize("info", registry.discover(), ids=lambda info: info.name)
def test_provider_initialization_with_schema(info: ProviderInfo) -> None:
    jsonschema.Draft202012Validator.check_schema(info.connection_schema)
    validator = jsonschema.Draft202012Validator(info.connection_schema)
    good: list[dict[str, object]] = [{"url": "http://localhost:8080"}, {"url": "https://host/rag", "timeout": 2.5}]
    wrong: list[dict[str, object]] = [
        {},
        {"url": 5},
        {"url": "localhost"},
        {"url": "http://host", "timeout": 0},
        {"url": "http://host", "colour": "blue"},
    ]
    for configuration in good:
        assert validator.is_valid(configuration)
        assert registry.select(info.name, configuration) is not None
    for configuration in wrong:
        assert not validator.is_valid(configuration)
        with pytest.raises(InvalidConfiguration):
            registry.select(info.name, configuration)


def test_secrets_are_marked_in_the_schema() -> None:
    properties = RagstoreProvider.connection_schema()["properties"]
    assert isinstance(properties, dict)
    assert properties["api_key"]["writeOnly"] is True


def test_the_error_of_an_invalid_configuration_contains_no_value() -> None:
    with pytest.raises(InvalidConfiguration, match=r"configuration of 'ragstore': .*\$\.api_key") as caught:
        registry.select("ragstore", {"url": "http://host", "api_key": [CANARY_KEY]})
    assert CANARY_KEY not in str(caught.value)


async def test_health_check_with_details(
    client_service: Served, ragstore_archives: ArchiveStore, archive_name: str
) -> None:
    ragstore_archives.create(archive_name, [])
    health = await RagstoreProvider.connect({"url": client_service.url}).health()
    assert (health.status, health.error) == ("healthy", None)
    assert abs(datetime.now(UTC) - health.timestamp) < timedelta(minutes=1)
    assert health.version
    assert health.collection_count
    assert health.storage_bytes
    ragstore_archives.delete(archive_name)


async def test_an_unreachable_service_is_unhealthy() -> None:
    for provider in ("ragstore", "chroma"):
        health = await registry.select(provider, {"url": f"http://127.0.0.1:{free_port()}"}).health()
        assert (health.status, health.error) == ("unhealthy", "ConnectFailed")
        assert health.timestamp.tzinfo is not None


async def test_a_provider_searches_and_reads(
    client_service: Served, ragstore_archives: ArchiveStore, archive_name: str
) -> None:
    ragstore_archives.create(archive_name, [chunk(0, "Heizung"), chunk(1, "Aufzug")])
    provider = RagstoreProvider.connect({"url": client_service.url})
    assert archive_name in await provider.collections()
    found = await provider.search([archive_name, "nowhere"], vector_of("Heizung"), top_k=1)
    assert [match.text for match in found.results] == ["Heizung"]
    assert [error.collection for error in found.errors] == ["nowhere"]
    assert len(await provider.documents(archive_name, where={"chunk_index": 1})) == 1
    ragstore_archives.delete(archive_name)


@pytest.mark.parametrize("provider", [RagstoreProvider, ChromaProvider])
async def test_a_provider_uses_the_httpx_client_that_is_given(
    provider: type[RagstoreProvider | ChromaProvider],
) -> None:
    with scripted_server(Response(503)) as server:
        async with httpx.AsyncClient(headers={"x-caller": "test"}) as http:
            await provider.connect({"url": server.url}, http=http).health()
            assert not http.is_closed
    assert {request.headers.get("x-caller") for request in server.requests} == {"test"}
