"""One query to several archives: over the service and over a plain Chroma server, with the same result."""

from __future__ import annotations

import asyncio
import gc
import threading
from array import array
from collections.abc import Callable

import httpx
import msgspec
import pytest

from ragstore_client import (
    EmbeddingCache,
    InvalidInput,
    RagArchiveConfig,
    RagConfig,
    RagSettings,
    Retriever,
    SearchOptions,
    SearchResults,
    SkipReason,
)
from tests.client.archive_stores import ArchiveStore
from tests.client.corpus import CANARY_QUERY, CANARY_TEXT, HANDBOOK, chunk
from tests.client.fake_servers import FakeEmbeddings, LocalServer, delaying_proxy, vector_of

SMALL = "acme/small"
EmbeddingRequests = Callable[[], list[dict[str, object]]]
RetrieverFactory = Callable[..., Retriever]


def texts(results: SearchResults) -> list[str]:
    return [passage.text for passage in results]


def test_the_nearest_passages_are_returned(make_retriever: RetrieverFactory, handbook: RagArchiveConfig) -> None:
    results = make_retriever(handbook).search(f"Wann wird die Heizung gewartet? {CANARY_QUERY}")
    best = results.passages[0]
    assert CANARY_TEXT in best.text
    assert best.archive == handbook
    assert best.metadata["section_heading"] == "Heizung"
    assert best.metadata["page_number"] == 3
    assert best.span == ("doc-1", 0, len(best.text))
    assert best.distance is not None
    assert best.score == pytest.approx(1 - best.distance)
    assert [passage.distance for passage in results] == sorted(passage.distance or 0 for passage in results)


async def test_async_and_sync_have_the_same_result(
    make_retriever: RetrieverFactory, handbook: RagArchiveConfig
) -> None:
    retriever = make_retriever(handbook)
    assert await retriever.asearch("Miete") == await asyncio.to_thread(retriever.search, "Miete")


def test_sync_works_within_a_running_loop(make_retriever: RetrieverFactory, handbook: RagArchiveConfig) -> None:
    async def blocking() -> SearchResults:
        return make_retriever(handbook).search("Miete")

    assert len(asyncio.run(blocking())) > 0


def test_all_layers_are_searched_unless_one_is_named(
    make_retriever: RetrieverFactory, handbook: RagArchiveConfig
) -> None:
    def layers(layer: str | None) -> set[object]:
        return {
            passage.metadata["layer"] for passage in make_retriever(handbook).search("Die Heizung", 20, layer=layer)
        }

    assert layers(None) == {"chunk", "page"}
    assert layers("chunk") == {"chunk"}
    assert layers("page") == {"page"}
    assert layers("*") == {"chunk", "page"}


def test_a_minimum_score_omits_passages(make_retriever: RetrieverFactory, handbook: RagArchiveConfig) -> None:
    retriever = make_retriever(handbook)
    scores = [passage.score or 0.0 for passage in retriever.search("Die Heizung im Herbst")]
    minimum = sorted(scores)[2]
    found = retriever.search("Die Heizung im Herbst", options=SearchOptions(min_score=minimum))
    assert [passage.score for passage in found] == [score for score in scores if score >= minimum]


def test_vectors_are_returned_on_request(make_retriever: RetrieverFactory, handbook: RagArchiveConfig) -> None:
    retriever = make_retriever(handbook)
    (without,) = retriever.search("Heizung", 1)
    (with_vector,) = retriever.search("Heizung", 1, options=SearchOptions(include_embeddings=True))
    assert without.embedding is None
    assert with_vector.embedding == pytest.approx(vector_of(with_vector.text))


def test_headers_of_a_search_are_sent(make_retriever: RetrieverFactory, archive_store: ArchiveStore) -> None:
    with delaying_proxy(archive_store.url, "none", 0.0) as proxy:
        archive = RagArchiveConfig(name="a", collection_name="repo_x", chromadb_url=proxy.url)
        make_retriever(archive).search("Heizung", options=SearchOptions(headers={"X-Request-ID": "r-1"}))
    sent = [request.headers["x-request-id"] for request in proxy.requests if "heartbeat" not in request.path]
    assert set(sent) == {"r-1"}


def test_a_time_limit_of_a_search_overrides_longer_ones(
    make_retriever: RetrieverFactory, handbook: RagArchiveConfig
) -> None:
    with delaying_proxy(handbook.chromadb_url, handbook.collection_name, 2.0) as proxy:
        archive = msgspec.structs.replace(handbook, chromadb_url=proxy.url)
        results = make_retriever(archive).search("Heizung", timeout_seconds=0.5)
    assert [skipped.reason for skipped in results.skipped] == [SkipReason.TOO_SLOW]


def test_a_further_filter_narrows_the_search(make_retriever: RetrieverFactory, handbook: RagArchiveConfig) -> None:
    results = make_retriever(handbook).search(
        "Die Heizung", where={"page_number": {"$gte": 4, "$lt": 6}, "document_id": "doc-1"}
    )
    assert {passage.metadata["page_number"] for passage in results} == {4, 5}


def test_a_filter_that_cannot_be_sent_is_an_invalid_input(
    make_retriever: RetrieverFactory, handbook: RagArchiveConfig
) -> None:
    with pytest.raises(InvalidInput):
        make_retriever(handbook).search("x", where={"page_number": float("nan")})


@pytest.mark.parametrize(("top_k", "expected"), [(None, 5), (0, 1), (-3, 1), (3, 3), (20, 20), (500, 30), (5000, 30)])
def test_top_k_is_clamped_to_1_to_1000(
    make_retriever: RetrieverFactory, make_archive: Callable[..., RagArchiveConfig], top_k: int | None, expected: int
) -> None:
    many = make_archive(*(chunk(number, f"Heizung Nummer {number}") for number in range(30)))
    assert len(make_retriever(many).search("Heizung", top_k)) == expected


def test_several_archives_are_ranked_together(
    make_retriever: RetrieverFactory, make_archive: Callable[..., RagArchiveConfig]
) -> None:
    first = make_archive(chunk(0, "Heizung"), chunk(1, "Heizung Keller Wasser Dach"), chunk(2, "Garten"))
    second = make_archive(chunk(0, "Heizung Keller", document="doc-2"), chunk(1, "Parkplatz", document="doc-2"))
    results = make_retriever(first, second).search("Heizung", 3)
    assert texts(results) == ["Heizung", "Heizung Keller", "Heizung Keller Wasser Dach"]
    assert [passage.archive.name for passage in results] == ["Archiv 1", "Archiv 2", "Archiv 1"]


def test_passages_of_equal_span_and_different_text_are_all_returned(
    make_retriever: RetrieverFactory, make_archive: Callable[..., RagArchiveConfig]
) -> None:
    """Offsets may restart on each page. Of four such chunks, one was returned."""
    pages = [chunk(number, f"Heizung {'Keller ' * number}", start=0, char_end=10) for number in range(4)]
    results = make_retriever(make_archive(*pages)).search("Heizung", 20)
    assert [passage.span for passage in results] == [("doc-1", 0, 10)] * 4


def test_the_same_text_is_returned_once(
    make_retriever: RetrieverFactory, make_archive: Callable[..., RagArchiveConfig]
) -> None:
    first = make_archive(
        chunk(0, "Heizung im Keller"), chunk(1, "Heizung im Dach"), chunk(9, "Heizung  im\nDach", document="copy")
    )
    second = make_archive(chunk(0, "Heizung im Keller"), chunk(5, "Aufzug"))
    results = make_retriever(first, second).search("Heizung im Keller", 20)
    assert sorted(" ".join(text.split()) for text in texts(results)) == [
        "Aufzug",
        "Heizung im Dach",
        "Heizung im Keller",
    ]


def test_duplicates_do_not_crowd_out_the_rest(
    make_retriever: RetrieverFactory, make_archive: Callable[..., RagArchiveConfig]
) -> None:
    copies = [chunk(0, "Heizung", document=f"copy-{number}") for number in range(3)]
    results = make_retriever(make_archive(*copies, chunk(1, "Heizung Keller"), chunk(2, "Heizung Keller Dach"))).search(
        "Heizung", 3
    )
    assert texts(results) == ["Heizung", "Heizung Keller", "Heizung Keller Dach"]


def test_archives_that_hold_the_same_documents_do_not_crowd_out_the_rest(
    make_retriever: RetrieverFactory, make_archive: Callable[..., RagArchiveConfig]
) -> None:
    documents = [chunk(number, f"Heizung {'Keller ' * number}") for number in range(5)]
    mirrors = [make_archive(*documents) for _ in range(3)]
    assert len(make_retriever(*mirrors).search("Heizung", 5)) == 5


def test_the_query_is_embedded_once_for_a_model(
    make_retriever: RetrieverFactory,
    make_archive: Callable[..., RagArchiveConfig],
    embedding_requests: EmbeddingRequests,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO", "ragstore_client"):
        make_retriever(make_archive(chunk(0, "a")), make_archive(chunk(0, "b")), make_archive(chunk(0, "c"))).search(
            CANARY_QUERY
        )
    assert len(embedding_requests()) == 1
    assert "reused for 2 collection queries" in caplog.text


def test_each_archive_is_searched_with_its_own_models_vector(
    make_retriever: RetrieverFactory,
    make_archive: Callable[..., RagArchiveConfig],
    embedding_requests: EmbeddingRequests,
) -> None:
    large = make_archive(chunk(0, "Heizung im Keller"))
    small = make_archive(chunk(0, "Heizung im Dach", dimension=32, document="doc-2"), embedding_model=SMALL)
    results = make_retriever(large, small).search("Heizung")
    assert results.skipped == []
    assert sorted(texts(results)) == ["Heizung im Dach", "Heizung im Keller"]
    assert sorted(str(body["model"]) for body in embedding_requests()) == [SMALL, large.embedding_model]


@pytest.mark.parametrize("query", ["", "  \n"])
def test_a_blank_query_finds_nothing_and_sends_no_request(
    make_retriever: RetrieverFactory, handbook: RagArchiveConfig, embedding_requests: EmbeddingRequests, query: str
) -> None:
    results = make_retriever(handbook).search(query)
    assert len(results) == 0
    assert not results.unavailable
    assert embedding_requests() == []


def test_an_empty_archive_has_no_passages(
    make_retriever: RetrieverFactory, make_archive: Callable[..., RagArchiveConfig]
) -> None:
    results = make_retriever(make_archive()).search("Heizung")
    assert (results.passages, results.skipped, results.searched) == ([], [], 1)


def test_a_custom_embedder_is_used(handbook: RagArchiveConfig, settings: RagSettings) -> None:
    class CustomEmbedder:
        connection = "in this process"

        async def embed(self, text: str, *, model: str) -> array[float]:
            return array("d", vector_of(text))

    retriever = Retriever(
        RagConfig(archives=[handbook]), settings=settings, embedder=CustomEmbedder(), cache=EmbeddingCache()
    )
    assert len(retriever.search("Heizung")) > 0


def test_archives_that_share_a_service_are_one_call(
    make_retriever: RetrieverFactory, ragstore_archives: ArchiveStore, embeddings: tuple[FakeEmbeddings, LocalServer]
) -> None:
    with delaying_proxy(ragstore_archives.url, "no such collection", 0.0) as proxy:
        archives = [
            RagArchiveConfig(name=str(number), collection_name=f"repo_{number}", chromadb_url=proxy.url)
            for number in range(4)
        ]
        make_retriever(*archives).search("Heizung")
    assert [request.path for request in proxy.requests] == ["/api/v2/heartbeat", "/query"]


def test_a_key_goes_to_ragstore_and_never_to_chroma(
    make_retriever: RetrieverFactory, ragstore_archives: ArchiveStore, chroma_archives: ArchiveStore
) -> None:
    for archive_store, expected in ((ragstore_archives, "Bearer key"), (chroma_archives, None)):
        sent: list[str | None] = []
        with delaying_proxy(archive_store.url, "none", 0.0) as proxy:
            make_retriever(
                RagArchiveConfig(name="a", collection_name="repo_x", chromadb_url=proxy.url), api_key="key"
            ).search("Heizung")
        sent = [request.headers.get("authorization") for request in proxy.requests if "heartbeat" not in request.path]
        assert set(sent) == {expected}


def test_numbers_and_names_are_logged_and_nothing_else(
    make_retriever: RetrieverFactory, handbook: RagArchiveConfig, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        make_retriever(handbook).search(CANARY_QUERY)
    assert "Searched 1 archives, skipped 0: " in caplog.text
    assert CANARY_QUERY not in caplog.text


def test_a_retriever_reads_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_DEFAULT_TOP_K", "not a number")
    monkeypatch.setenv("DOCPROC_TEI_EMBEDDINGS_URL", "http://elsewhere:1")
    assert Retriever(RagConfig()).settings == RagSettings()


def test_retrievers_share_vectors_only_through_a_cache_that_they_are_given(
    handbook: RagArchiveConfig, settings: RagSettings, embedding_requests: EmbeddingRequests
) -> None:
    config = RagConfig(archives=[handbook])
    for _ in range(2):
        Retriever(config, settings=settings).search("Heizung")
    assert len(embedding_requests()) == 2
    cache = EmbeddingCache()
    for _ in range(2):
        Retriever(config, settings=settings, cache=cache).search("Heizung")
    assert len(embedding_requests()) == 3


async def test_all_requests_go_through_the_httpx_client_that_is_given(
    archive_store: ArchiveStore, archive_name: str, embeddings: tuple[FakeEmbeddings, LocalServer]
) -> None:
    archive_store.create(archive_name, HANDBOOK)
    settings = RagSettings(embeddings_url=embeddings[1].url)
    with delaying_proxy(archive_store.url, "none", 0.0) as proxy:
        archive = RagArchiveConfig(name="a", collection_name=archive_name, chromadb_url=proxy.url)
        async with httpx.AsyncClient(headers={"x-caller": "test"}) as http:
            retriever = Retriever(RagConfig(archives=[archive]), settings=settings, http=http)
            results = await retriever.asearch("Heizung")
            await retriever.agather_section(results.passages[0])
    requests = [*proxy.requests, *embeddings[1].requests]
    assert len(requests) > 3
    assert {request.headers.get("x-caller") for request in requests} == {"test"}
    archive_store.delete(archive_name)


def test_the_thread_of_a_retriever_ends_with_it(handbook: RagArchiveConfig, settings: RagSettings) -> None:
    def threads() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "ragstore-retriever"}

    before = threads()
    retriever = Retriever(RagConfig(archives=[handbook]), settings=settings)
    assert threads() == before
    retriever.search("Heizung")
    (thread,) = threads() - before
    del retriever
    gc.collect()
    thread.join(timeout=10)
    assert not thread.is_alive()
