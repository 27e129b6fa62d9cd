"""One question to many archives: over the service and over a plain Chroma server, to the same end."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable, Iterator

import pytest

from client.conftest import Shelf
from client.corpus import CANARY_QUERY, CANARY_TEXT, HANDBOOK, chunk
from client.fake_servers import Answer, Embeddings, LocalServer, holding_up, scripted, vector_of
from ragstore_client import (
    EmbeddingCache,
    EmbeddingFailed,
    InvalidInput,
    NewDocument,
    RagArchiveConfig,
    RagConfig,
    RagSettings,
    Retriever,
    SearchResults,
    SkipReason,
)
from serving import free_port

SMALL = "acme/small"
Asked = Callable[[], list[dict[str, object]]]
Build = Callable[..., Retriever]


@pytest.fixture
def handbook(shelf: Shelf, name: str) -> Iterator[RagArchiveConfig]:
    """An archive that holds the handbook."""
    shelf.put(name, HANDBOOK)
    yield RagArchiveConfig(name="Handbuch", collection_name=name, chromadb_url=shelf.url)
    shelf.drop(name)


@pytest.fixture
def archive(shelf: Shelf, name: str) -> Iterator[Callable[..., RagArchiveConfig]]:
    """Makes archives."""
    made: list[str] = []

    def make(*documents: NewDocument, **more: str) -> RagArchiveConfig:
        made.append(f"{name}-{len(made)}")
        shelf.put(made[-1], documents)
        title = f"Archiv {len(made)}"
        return RagArchiveConfig(name=title, collection_name=made[-1], **{"chromadb_url": shelf.url, **more})

    yield make
    for each in made:
        shelf.drop(each)


@pytest.fixture
def build(settings: RagSettings, cache: EmbeddingCache) -> Build:
    """Makes retrievers."""

    def make(*archives: RagArchiveConfig, settings: RagSettings = settings, **more: str) -> Retriever:
        return Retriever(RagConfig(archives=list(archives)), settings=settings, cache=cache, **more)  # type: ignore[arg-type]

    return make


def texts(results: SearchResults) -> list[str]:
    return [hit.text for hit in results]


def reasons(results: SearchResults) -> list[SkipReason]:
    return [skipped.reason for skipped in results.skipped]


def test_the_nearest_passages_come_typed(build: Build, handbook: RagArchiveConfig) -> None:
    results = build(handbook).search(f"Wann wird die Heizung gewartet? {CANARY_QUERY}")
    best = results.hits[0]
    assert CANARY_TEXT in best.text
    assert best.archive == handbook
    assert best.metadata["section_heading"] == "Heizung"
    assert best.metadata["page_number"] == 3
    assert best.span == ("doc-1", 0, len(best.text))
    assert best.distance is not None
    assert best.score == pytest.approx(1 - best.distance)
    assert [hit.distance for hit in results] == sorted(hit.distance or 0 for hit in results)


async def test_async_and_sync_come_to_the_same(build: Build, handbook: RagArchiveConfig) -> None:
    retriever = build(handbook)
    assert await retriever.asearch("Miete") == await asyncio.to_thread(retriever.search, "Miete")


def test_sync_works_within_a_running_loop(build: Build, handbook: RagArchiveConfig) -> None:
    async def careless() -> SearchResults:
        return build(handbook).search("Miete")

    assert len(asyncio.run(careless())) > 0


def test_chunks_are_searched_unless_told_otherwise(build: Build, handbook: RagArchiveConfig) -> None:
    def layers(layer: str | None) -> set[object]:
        return {hit.metadata["layer"] for hit in build(handbook).search("Die Heizung", 20, layer=layer)}

    assert layers(None) == {"chunk"}
    assert layers("page") == {"page"}
    assert layers("*") == {"chunk", "page"}


def test_the_environments_layer_is_the_default(build: Build, handbook: RagArchiveConfig, settings: RagSettings) -> None:
    pages = RagSettings(embeddings_url=settings.embeddings_url, default_layer="page")
    assert {hit.metadata["layer"] for hit in build(handbook, settings=pages).search("Heizung")} == {"page"}


def test_a_further_filter_narrows(build: Build, handbook: RagArchiveConfig) -> None:
    results = build(handbook).search(
        "Die Heizung", where={"page_number": {"$gte": 4, "$lt": 6}, "document_id": "doc-1"}
    )
    assert {hit.metadata["page_number"] for hit in results} == {4, 5}


def test_a_filter_that_cannot_be_sent_is_the_callers_error(build: Build, handbook: RagArchiveConfig) -> None:
    with pytest.raises(InvalidInput):
        build(handbook).search("x", where={"page_number": float("nan")})


@pytest.mark.parametrize(("asked", "given"), [(None, 5), (0, 1), (-3, 1), (3, 3), (20, 20), (500, 20)])
def test_top_k_is_brought_to_1_to_20(
    build: Build, archive: Callable[..., RagArchiveConfig], asked: int | None, given: int
) -> None:
    many = archive(*(chunk(number, f"Heizung Nummer {number}") for number in range(30)))
    assert len(build(many).search("Heizung", asked)) == given


def test_several_archives_are_ranked_as_one(build: Build, archive: Callable[..., RagArchiveConfig]) -> None:
    first = archive(chunk(0, "Heizung"), chunk(1, "Heizung Keller Wasser Dach"), chunk(2, "Garten"))
    second = archive(chunk(0, "Heizung Keller", document="doc-2"), chunk(1, "Parkplatz", document="doc-2"))
    results = build(first, second).search("Heizung", 3)
    assert texts(results) == ["Heizung", "Heizung Keller", "Heizung Keller Wasser Dach"]
    assert [hit.archive.name for hit in results] == ["Archiv 1", "Archiv 2", "Archiv 1"]


def test_the_same_span_and_the_same_text_come_once(build: Build, archive: Callable[..., RagArchiveConfig]) -> None:
    first = archive(
        chunk(0, "Heizung im Keller"), chunk(1, "Heizung im Dach"), chunk(9, "Heizung  im\nDach", document="copy")
    )
    second = archive(chunk(0, "Heizung im Keller"), chunk(5, "Aufzug"))
    results = build(first, second).search("Heizung im Keller", 20)
    assert sorted(" ".join(text.split()) for text in texts(results)) == [
        "Aufzug",
        "Heizung im Dach",
        "Heizung im Keller",
    ]


def test_duplicates_do_not_crowd_out_the_rest(build: Build, archive: Callable[..., RagArchiveConfig]) -> None:
    copies = [chunk(0, "Heizung", document=f"copy-{number}") for number in range(3)]
    results = build(archive(*copies, chunk(1, "Heizung Keller"), chunk(2, "Heizung Keller Dach"))).search("Heizung", 3)
    assert texts(results) == ["Heizung", "Heizung Keller", "Heizung Keller Dach"]


def test_archives_that_hold_the_same_documents_do_not_crowd_out_the_rest(
    build: Build, archive: Callable[..., RagArchiveConfig]
) -> None:
    documents = [chunk(number, f"Heizung {'Keller ' * number}") for number in range(5)]
    mirrors = [archive(*documents) for _ in range(3)]
    assert len(build(*mirrors).search("Heizung", 5)) == 5


def test_the_query_is_embedded_once_for_a_model(
    build: Build, archive: Callable[..., RagArchiveConfig], embedded: Asked, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "ragstore_client"):
        build(archive(chunk(0, "a")), archive(chunk(0, "b")), archive(chunk(0, "c"))).search(CANARY_QUERY)
    assert len(embedded()) == 1
    assert "reused for 2 collection queries" in caplog.text


def test_each_archive_is_searched_with_its_own_models_vector(
    build: Build, archive: Callable[..., RagArchiveConfig], embedded: Asked
) -> None:
    large = archive(chunk(0, "Heizung im Keller"))
    small = archive(chunk(0, "Heizung im Dach", dimension=32, document="doc-2"), embedding_model=SMALL)
    results = build(large, small).search("Heizung")
    assert results.skipped == []
    assert sorted(texts(results)) == ["Heizung im Dach", "Heizung im Keller"]
    assert sorted(str(asked["model"]) for asked in embedded()) == [SMALL, large.embedding_model]


def test_an_archive_of_another_dimension_is_skipped_with_a_warning(
    build: Build, archive: Callable[..., RagArchiveConfig], caplog: pytest.LogCaptureFixture
) -> None:
    good, other = archive(chunk(0, "Heizung")), archive(chunk(0, "Heizung", dimension=32))
    with caplog.at_level("WARNING", "ragstore_client"):
        results = build(good, other).search("Heizung")
    assert texts(results) == ["Heizung"]
    assert reasons(results)[0] in (SkipReason.DIMENSION, SkipReason.FAILED)  # a service before 0.2 sends no code
    assert f"Skipping archive Archiv 2 ({other.collection_name})" in caplog.text


def test_another_dimension_is_recognised_by_its_code_and_not_by_a_text(build: Build) -> None:
    failed = [
        {"collection": "repo_a", "status": 400, "detail": "x", "code": "dimension_mismatch"},
        {"collection": "repo_b", "status": 400, "detail": "another dimension", "code": "invalid_filter"},
    ]
    response = Answer(200, {"results": [], "count": 0, "errors": failed})
    with scripted(Answer(404, {}), response) as server:
        archives = [
            RagArchiveConfig(name=name, collection_name=name, chromadb_url=server.url) for name in ("repo_a", "repo_b")
        ]
        results = build(*archives).search("x")
    assert reasons(results) == [SkipReason.DIMENSION, SkipReason.FAILED]


def test_another_dimension_is_recognised_over_plain_chroma(build: Build, chroma_shelf: Shelf, name: str) -> None:
    chroma_shelf.put(name, [chunk(0, "Heizung", dimension=32)])
    results = build(RagArchiveConfig(name="a", collection_name=name, chromadb_url=chroma_shelf.url)).search("x")
    assert reasons(results) == [SkipReason.DIMENSION]
    chroma_shelf.drop(name)


def test_a_missing_collection_is_skipped_with_a_warning(
    build: Build, handbook: RagArchiveConfig, caplog: pytest.LogCaptureFixture
) -> None:
    missing = RagArchiveConfig(name="Weg", collection_name="repo_nowhere", chromadb_url=handbook.chromadb_url)
    with caplog.at_level("WARNING", "ragstore_client"):
        results = build(missing, handbook).search("Heizung")
    assert len(results) > 0
    assert reasons(results) == [SkipReason.NOT_FOUND]
    assert "Skipping archive Weg (repo_nowhere): collection not found" in caplog.text


def test_an_unreachable_service_is_skipped_with_a_warning(build: Build, handbook: RagArchiveConfig) -> None:
    away = RagArchiveConfig(name="Fern", collection_name="repo_x", chromadb_url=f"http://127.0.0.1:{free_port()}")
    results = build(away, handbook).search("Heizung")
    assert len(results) > 0
    assert reasons(results) == [SkipReason.UNREACHABLE]
    assert not results.unavailable
    assert build(away).search("Heizung").unavailable


def test_a_url_that_is_none_costs_its_own_archive(build: Build, handbook: RagArchiveConfig) -> None:
    odd = RagArchiveConfig(name="Krumm", collection_name="repo_x", chromadb_url="chromadb")
    results = build(odd, handbook).search("Heizung")
    assert len(results) > 0
    assert reasons(results) == [SkipReason.MISCONFIGURED]


def test_a_slow_archive_costs_its_own_results_and_not_the_answer(
    build: Build, archive: Callable[..., RagArchiveConfig], settings: RagSettings
) -> None:
    quick, slow = archive(chunk(0, "Heizung im Keller")), archive(chunk(0, "Heizung im Dach", document="doc-2"))
    with holding_up(quick.chromadb_url, slow.collection_name, 3.0) as proxy:
        hasty = RagSettings(embeddings_url=settings.embeddings_url, query_timeout=1.0)
        archives = [
            RagArchiveConfig(name=each.name, collection_name=each.collection_name, chromadb_url=proxy.url)
            for each in (quick, slow)
        ]
        started = time.monotonic()
        results = build(*archives, settings=hasty).search("Heizung")
        took = time.monotonic() - started
    assert texts(results) == ["Heizung im Keller"]
    assert reasons(results) == [SkipReason.TOO_SLOW]
    assert took < 2.5


def test_a_query_that_cannot_be_embedded_is_an_error(
    build: Build, handbook: RagArchiveConfig, endpoint: Embeddings, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.fault = "500"
    with caplog.at_level("ERROR", "ragstore_client"), pytest.raises(EmbeddingFailed):
        build(handbook).search(CANARY_QUERY)
    assert "the embeddings endpoint failed: ServerError (500)" in caplog.text


def test_a_model_that_fails_costs_its_own_archives(
    build: Build, archive: Callable[..., RagArchiveConfig], endpoint: Embeddings
) -> None:
    endpoint.fault = "other model fails"
    large = archive(chunk(0, "Heizung"))
    small = archive(chunk(0, "Heizung", dimension=32), embedding_model=SMALL)
    results = build(large, small).search("Heizung")
    assert [hit.archive for hit in results] == [small]
    assert reasons(results) == [SkipReason.NOT_EMBEDDED]


@pytest.mark.parametrize("query", ["", "  \n"])
def test_a_blank_query_finds_nothing_and_asks_nobody(
    build: Build, handbook: RagArchiveConfig, embedded: Asked, query: str
) -> None:
    results = build(handbook).search(query)
    assert len(results) == 0
    assert not results.unavailable
    assert embedded() == []


def test_an_empty_archive_gives_nothing(build: Build, archive: Callable[..., RagArchiveConfig]) -> None:
    results = build(archive()).search("Heizung")
    assert (results.hits, results.skipped, results.searched) == ([], [], 1)


def test_an_embedder_of_ones_own_is_asked(handbook: RagArchiveConfig, settings: RagSettings) -> None:
    class Own:
        connection = "in this process"

        async def embed(self, text: str, *, model: str) -> array[float]:
            return array("d", vector_of(text))

    retriever = Retriever(RagConfig(archives=[handbook]), settings=settings, embedder=Own(), cache=EmbeddingCache())
    assert len(retriever.search("Heizung")) > 0


def test_an_embedder_of_ones_own_may_fail_in_its_own_way(handbook: RagArchiveConfig, settings: RagSettings) -> None:
    class Own:
        connection = "broken"

        async def embed(self, text: str, *, model: str) -> list[float]:
            raise KeyError(text)

    retriever = Retriever(RagConfig(archives=[handbook]), settings=settings, embedder=Own(), cache=EmbeddingCache())
    with pytest.raises(EmbeddingFailed):
        retriever.search(CANARY_QUERY)


def test_archives_that_share_a_service_are_one_call(
    build: Build, ragstore_shelf: Shelf, embeddings: tuple[Embeddings, LocalServer]
) -> None:
    with holding_up(ragstore_shelf.url, "no such collection", 0.0) as proxy:
        archives = [
            RagArchiveConfig(name=str(number), collection_name=f"repo_{number}", chromadb_url=proxy.url)
            for number in range(4)
        ]
        build(*archives).search("Heizung")
    assert [request.path for request in proxy.requests] == ["/api/v2/heartbeat", "/query"]


def test_a_key_goes_to_ragstore_and_never_to_chroma(build: Build, ragstore_shelf: Shelf, chroma_shelf: Shelf) -> None:
    for shelf, expected in ((ragstore_shelf, "Bearer key"), (chroma_shelf, None)):
        sent: list[str | None] = []
        with holding_up(shelf.url, "none", 0.0) as proxy:
            build(RagArchiveConfig(name="a", collection_name="repo_x", chromadb_url=proxy.url), api_key="key").search(
                "Heizung"
            )
        sent = [request.headers.get("authorization") for request in proxy.requests if "heartbeat" not in request.path]
        assert set(sent) == {expected}


def test_a_key_that_is_not_accepted_is_told(build: Build) -> None:
    refused = Answer(401, {"title": "Unauthorized", "detail": "A key is needed"})
    with scripted(Answer(404, {}), refused) as server:
        results = build(RagArchiveConfig(name="a", collection_name="repo_x", chromadb_url=server.url)).search("x")
    assert reasons(results) == [SkipReason.FORBIDDEN]


def test_numbers_and_names_are_logged_and_nothing_else(
    build: Build, handbook: RagArchiveConfig, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        build(handbook).search(CANARY_QUERY)
    assert "Searched 1 archives, skipped 0: " in caplog.text
    assert CANARY_QUERY not in caplog.text
