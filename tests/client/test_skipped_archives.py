"""Archives that fail are skipped, with a reason and a warning, and cost only their own results."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from ragstore_client import (
    EmbeddingCache,
    EmbeddingFailed,
    EmbeddingTimeout,
    RagArchiveConfig,
    RagConfig,
    RagSettings,
    Retriever,
    SearchResults,
    SkipReason,
)
from tests.client.archive_stores import ArchiveStore
from tests.client.corpus import CANARY_QUERY, chunk
from tests.client.fake_servers import FakeEmbeddings, Response, delaying_proxy, scripted_server
from tests.support.servers import free_port

SMALL = "acme/small"

SLOW_SECONDS = 12.0
"""Delay of the slow archive. The others have a quarter of it, which is enough on a busy machine."""

EmbeddingRequests = Callable[[], list[dict[str, object]]]
RetrieverFactory = Callable[..., Retriever]


def texts(results: SearchResults) -> list[str]:
    return [passage.text for passage in results]


def reasons(results: SearchResults) -> list[SkipReason]:
    return [skipped.reason for skipped in results.skipped]


def test_an_archive_of_another_dimension_is_skipped_with_a_warning(
    make_retriever: RetrieverFactory, make_archive: Callable[..., RagArchiveConfig], caplog: pytest.LogCaptureFixture
) -> None:
    good, other = make_archive(chunk(0, "Heizung")), make_archive(chunk(0, "Heizung", dimension=32))
    with caplog.at_level("WARNING", "ragstore_client"):
        results = make_retriever(good, other).search("Heizung")
    assert texts(results) == ["Heizung"]
    assert reasons(results)[0] == SkipReason.DIMENSION
    assert f"Skipping archive Archiv 2 ({other.collection_name})" in caplog.text


def test_another_dimension_is_recognised_by_its_code_and_not_by_a_text(make_retriever: RetrieverFactory) -> None:
    failed = [
        {"collection": "repo_a", "status": 400, "detail": "x", "code": "dimension_mismatch"},
        {"collection": "repo_b", "status": 400, "detail": "another dimension", "code": "invalid_filter"},
    ]
    response = Response(200, {"results": [], "count": 0, "errors": failed})
    with scripted_server(Response(404, {}), response) as server:
        archives = [
            RagArchiveConfig(name=name, collection_name=name, chromadb_url=server.url) for name in ("repo_a", "repo_b")
        ]
        results = make_retriever(*archives).search("x")
    assert reasons(results) == [SkipReason.DIMENSION, SkipReason.FAILED]


def test_another_dimension_is_recognised_over_plain_chroma(
    make_retriever: RetrieverFactory, chroma_archives: ArchiveStore, archive_name: str
) -> None:
    chroma_archives.create(archive_name, [chunk(0, "Heizung", dimension=32)])
    results = make_retriever(
        RagArchiveConfig(name="a", collection_name=archive_name, chromadb_url=chroma_archives.url)
    ).search("x")
    assert reasons(results) == [SkipReason.DIMENSION]
    chroma_archives.delete(archive_name)


def test_a_missing_collection_is_skipped_with_a_warning(
    make_retriever: RetrieverFactory, handbook: RagArchiveConfig, caplog: pytest.LogCaptureFixture
) -> None:
    missing = RagArchiveConfig(name="Weg", collection_name="repo_nowhere", chromadb_url=handbook.chromadb_url)
    with caplog.at_level("WARNING", "ragstore_client"):
        results = make_retriever(missing, handbook).search("Heizung")
    assert len(results) > 0
    assert reasons(results) == [SkipReason.NOT_FOUND]
    assert "Skipping archive Weg (repo_nowhere): collection not found" in caplog.text


def test_an_unreachable_service_is_skipped_with_a_warning(
    make_retriever: RetrieverFactory, handbook: RagArchiveConfig
) -> None:
    away = RagArchiveConfig(name="Fern", collection_name="repo_x", chromadb_url=f"http://127.0.0.1:{free_port()}")
    results = make_retriever(away, handbook).search("Heizung")
    assert len(results) > 0
    assert reasons(results) == [SkipReason.UNREACHABLE]
    assert not results.unavailable
    assert make_retriever(away).search("Heizung").unavailable


def test_a_failing_service_is_called_twice_because_only_the_transport_retries(
    make_retriever: RetrieverFactory,
) -> None:
    with scripted_server(Response(404, {}), Response(503)) as server:
        archive = RagArchiveConfig(name="a", collection_name="repo_x", chromadb_url=server.url)
        results = make_retriever(archive).search("Heizung")
    assert reasons(results) == [SkipReason.UNREACHABLE]
    assert [request.path for request in server.requests] == ["/api/v2/heartbeat", "/query", "/query"]


def test_an_invalid_url_skips_its_own_archive_only(
    make_retriever: RetrieverFactory, handbook: RagArchiveConfig
) -> None:
    misconfigured = RagArchiveConfig(name="Krumm", collection_name="repo_x", chromadb_url="chromadb")
    results = make_retriever(misconfigured, handbook).search("Heizung")
    assert len(results) > 0
    assert reasons(results) == [SkipReason.MISCONFIGURED]


def test_a_slow_archive_costs_only_its_own_results(
    make_retriever: RetrieverFactory, make_archive: Callable[..., RagArchiveConfig], settings: RagSettings
) -> None:
    quick, slow = (
        make_archive(chunk(0, "Heizung im Keller")),
        make_archive(chunk(0, "Heizung im Dach", document="doc-2")),
    )
    with delaying_proxy(quick.chromadb_url, slow.collection_name, SLOW_SECONDS) as proxy:
        hasty = RagSettings(embeddings_url=settings.embeddings_url, query_timeout=SLOW_SECONDS / 4)
        archives = [
            RagArchiveConfig(name=each.name, collection_name=each.collection_name, chromadb_url=proxy.url)
            for each in (quick, slow)
        ]
        started = time.monotonic()
        results = make_retriever(*archives, settings=hasty).search("Heizung")
        took = time.monotonic() - started
    assert texts(results) == ["Heizung im Keller"]
    assert reasons(results) == [SkipReason.TOO_SLOW]
    assert took < SLOW_SECONDS


def test_a_query_that_cannot_be_embedded_is_an_error(
    make_retriever: RetrieverFactory,
    handbook: RagArchiveConfig,
    endpoint: FakeEmbeddings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    endpoint.fault = "500"
    with caplog.at_level("ERROR", "ragstore_client"), pytest.raises(EmbeddingFailed):
        make_retriever(handbook).search(CANARY_QUERY)
    assert "HTTP 500 Internal Server Error" in caplog.text
    assert CANARY_QUERY not in caplog.text


def test_a_failing_model_costs_only_its_own_archives(
    make_retriever: RetrieverFactory, make_archive: Callable[..., RagArchiveConfig], endpoint: FakeEmbeddings
) -> None:
    endpoint.fault = "other model fails"
    large = make_archive(chunk(0, "Heizung"))
    small = make_archive(chunk(0, "Heizung", dimension=32), embedding_model=SMALL)
    results = make_retriever(large, small).search("Heizung")
    assert [passage.archive for passage in results] == [small]
    assert reasons(results) == [SkipReason.NOT_EMBEDDED]


def test_a_slow_model_costs_only_its_own_archives(make_archive: Callable[..., RagArchiveConfig]) -> None:
    class HalfSlow:
        connection = "half slow"

        async def embed(self, text: str, *, model: str) -> list[float]:
            await asyncio.sleep(0 if model == SMALL else 3600)
            return [1.0] * 32

    quick = make_archive(chunk(0, "Heizung", dimension=32), embedding_model=SMALL)
    slow = make_archive(chunk(0, "Heizung"))
    settings = RagSettings(embed_timeout=0.2)
    results = Retriever(RagConfig(archives=[quick, slow]), settings=settings, embedder=HalfSlow()).search("Heizung")
    assert [passage.archive for passage in results] == [quick]
    assert reasons(results) == [SkipReason.TOO_SLOW]
    with pytest.raises(EmbeddingTimeout, match=r"no vector within 0\.2 s"):
        Retriever(RagConfig(archives=[slow]), settings=settings, embedder=HalfSlow()).search("Heizung")


def test_a_custom_embedder_may_raise_any_exception(handbook: RagArchiveConfig, settings: RagSettings) -> None:
    class CustomEmbedder:
        connection = "broken"

        async def embed(self, text: str, *, model: str) -> list[float]:
            raise KeyError(text)

    retriever = Retriever(
        RagConfig(archives=[handbook]), settings=settings, embedder=CustomEmbedder(), cache=EmbeddingCache()
    )
    with pytest.raises(EmbeddingFailed):
        retriever.search(CANARY_QUERY)


def test_a_key_that_is_not_accepted_is_the_reason_of_the_skip(make_retriever: RetrieverFactory) -> None:
    unauthorized = Response(401, {"title": "Unauthorized", "detail": "A key is needed"})
    with scripted_server(Response(404, {}), unauthorized) as server:
        results = make_retriever(RagArchiveConfig(name="a", collection_name="repo_x", chromadb_url=server.url)).search(
            "x"
        )
    assert reasons(results) == [SkipReason.FORBIDDEN]
