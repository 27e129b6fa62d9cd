"""Archives in a plain Chroma server."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstore_client import (
    BackendDetector,
    ChromaProvider,
    Distance,
    EmbeddingCache,
    InvalidInput,
    RagArchiveConfig,
    RagConfig,
    RagSettings,
    RagstoreProvider,
    Retriever,
    SkipReason,
)
from ragstore_client.rag.chroma._calls import to_chroma_where
from tests.client.archive_stores import ArchiveStore
from tests.client.corpus import chunk
from tests.client.fake_servers import LocalServer, Request, Response
from tests.support.servers import Served


@pytest.mark.parametrize(
    ("where", "chroma_where"),
    [
        ({}, {}),
        ({"a": 1}, {"a": 1}),
        ({"a": 1, "b": 2}, {"$and": [{"a": 1}, {"b": 2}]}),
        ({"n": {"$gte": 1, "$lt": 9}}, {"$and": [{"n": {"$gte": 1}}, {"n": {"$lt": 9}}]}),
        ({"$and": [{"a": 1}]}, {"a": 1}),
        ({"$and": []}, {}),
        ({"$and": [{}, {"a": 1}]}, {"a": 1}),
        ({"$or": [{"a": 1}, {"b": 2, "c": 3}]}, {"$or": [{"a": 1}, {"$and": [{"b": 2}, {"c": 3}]}]}),
        ({"$or": [{"a": 1}, {}]}, {}),
        (
            {"a": {"$in": [1, 2]}, "$or": [{"b": 1}, {"c": 1}]},
            {"$and": [{"a": {"$in": [1, 2]}}, {"$or": [{"b": 1}, {"c": 1}]}]},
        ),
    ],
)
def test_a_filter_is_translated_into_chromas_stricter_language(
    where: dict[str, object], chroma_where: dict[str, object]
) -> None:
    assert to_chroma_where(where) == chroma_where  # type: ignore[arg-type]  # literals of several types


@pytest.mark.parametrize("wrong", [{"$and": {"a": 1}}, {"$or": ["a"]}, {"$or": 5}, {"a": float("inf")}])
def test_an_invalid_filter_is_rejected(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        to_chroma_where(wrong)  # type: ignore[arg-type]  # literals of several types


SCALARS = st.one_of(st.integers(0, 3), st.sampled_from("ab"))
CONDITIONS = st.one_of(
    SCALARS,
    st.dictionaries(st.sampled_from(["$eq", "$ne", "$gt", "$lte"]), st.integers(0, 3), min_size=1, max_size=3),
)
FILTERS = st.recursive(
    st.dictionaries(st.sampled_from(["x", "y"]), CONDITIONS, max_size=2),
    lambda inner: st.dictionaries(
        st.sampled_from(["$and", "$or"]), st.lists(inner, min_size=1, max_size=3), max_size=2
    ),
    max_leaves=5,
)


@given(FILTERS)
def test_every_filter_is_translated_into_one_that_chroma_accepts(where: dict[str, object]) -> None:
    def check(chroma_where: dict[str, object]) -> None:
        ((field, condition),) = chroma_where.items()
        if field in ("$and", "$or"):
            assert isinstance(condition, list)
            assert len(condition) >= 2
            for clause in condition:
                check(clause)
        elif isinstance(condition, dict):
            assert len(condition) == 1

    chroma_where = to_chroma_where(where)  # type: ignore[arg-type]  # of several types
    if chroma_where:
        check(chroma_where)


@pytest.mark.parametrize("distance", ["cosine", "l2", "ip"])
def test_distances_and_scores_are_those_of_ragstore(
    ragstore_archives: ArchiveStore,
    chroma_archives: ArchiveStore,
    settings: RagSettings,
    cache: EmbeddingCache,
    archive_name: str,
    distance: Distance,
) -> None:
    documents = [chunk(0, "Heizung im Keller"), chunk(1, "Heizung im Dach des Hauses"), chunk(2, "Aufzug")]
    found = []
    for archive_store in (ragstore_archives, chroma_archives):
        archive_store.create(archive_name, documents, distance)
        archive = RagArchiveConfig(name="a", collection_name=archive_name, chromadb_url=archive_store.url)
        retriever = Retriever(RagConfig(archives=[archive]), settings=settings, cache=cache)
        found.append(
            [
                (passage.id, passage.text, passage.metadata, passage.distance, passage.score)
                for passage in retriever.search("Heizung")
            ]
        )
        archive_store.delete(archive_name)
    over_ragstore, over_chroma = found
    assert [passage[:3] for passage in over_ragstore] == [passage[:3] for passage in over_chroma]
    assert [passage[3] for passage in over_ragstore] == pytest.approx([passage[3] for passage in over_chroma], abs=1e-6)
    assert [passage[4] for passage in over_ragstore] == pytest.approx([passage[4] for passage in over_chroma], abs=1e-6)


def test_records_without_text_metadata_or_distance_are_read(settings: RagSettings, cache: EmbeddingCache) -> None:
    def respond(request: Request) -> Response:
        if request.path.endswith("/heartbeat"):
            return Response(200, {"nanosecond heartbeat": 1})
        if request.path.endswith("/query"):
            columns = {"ids": [["a", "b"]], "documents": [[None, "x"]], "metadatas": [[None, {"k": None, "n": 1}]]}
            return Response(200, {**columns, "distances": [[None, 0.5]]})
        return Response(200, {"id": "c-1", "name": "abc", "dimension": None, "configuration_json": {}})

    with LocalServer(respond) as server:
        archive = RagArchiveConfig(name="a", collection_name="abc", chromadb_url=server.url)
        passages = Retriever(RagConfig(archives=[archive]), settings=settings, cache=cache).search("x").passages
    assert [(passage.id, passage.text, passage.metadata, passage.distance) for passage in passages] == [
        ("b", "x", {"n": 1}, 0.5),
        ("a", "", {}, None),
    ]


@pytest.mark.process
@pytest.mark.parametrize(("before", "after"), [("ragstore", "chroma"), ("chroma", "ragstore")])
def test_the_backend_behind_a_url_may_change(
    request: pytest.FixtureRequest, settings: RagSettings, archive_name: str, before: str, after: str
) -> None:
    stores: dict[str, ArchiveStore] = {each: request.getfixturevalue(f"{each}_archives") for each in (before, after)}
    for archive_store in stores.values():
        archive_store.create(archive_name, [chunk(0, "Heizung")])
    current = [before]
    detector = BackendDetector()
    with httpx.Client(timeout=30) as http:

        def respond(request: Request) -> Response:
            url = stores[current[0]].url + request.path
            media_type = {"content-type": "application/json"} if request.body else {}
            response = http.request(request.method, url, content=request.body, headers=media_type)
            return Response(response.status_code, response.content)

        with LocalServer(respond) as server:
            archive = RagArchiveConfig(name="a", collection_name=archive_name, chromadb_url=server.url)
            retriever = Retriever(RagConfig(archives=[archive]), settings=settings, detector=detector)
            assert len(retriever.search("Heizung")) == 1
            current[0] = after
            assert len(retriever.search("Heizung")) == 1
            assert detector.cached(server.url) == after
    for archive_store in stores.values():
        archive_store.delete(archive_name)


def test_the_backend_of_a_failing_server_is_not_cached(settings: RagSettings) -> None:
    detector = BackendDetector()
    with LocalServer(lambda _: Response(503)) as server:
        archive = RagArchiveConfig(name="a", collection_name="abc", chromadb_url=server.url)
        results = Retriever(RagConfig(archives=[archive]), settings=settings, detector=detector).search("x")
        assert [skipped.reason for skipped in results.skipped] == [SkipReason.UNREACHABLE]
        assert detector.cached(server.url) is None


async def test_chroma_as_a_provider(chroma: Served, chroma_archives: ArchiveStore, archive_name: str) -> None:
    chroma_archives.create(archive_name, [chunk(number, f"text {number}") for number in range(7)])
    provider = ChromaProvider.connect({"url": chroma.url})
    assert archive_name in await provider.collections()
    health = await provider.health()
    assert (health.status, health.error) == ("healthy", None)
    assert health.collection_count
    assert len(await provider.documents(archive_name, where={"layer": "chunk"}, limit=5)) == 5
    chroma_archives.delete(archive_name)


@pytest.mark.parametrize("wanted", [499, 500, 501, 1000])
async def test_documents_are_read_in_pages(
    chroma_archives: ArchiveStore, ragstore_archives: ArchiveStore, archive_name: str, wanted: int
) -> None:
    many = [chunk(number, f"text {number}", dimension=2) for number in range(520)]
    for archive_store, provider in ((chroma_archives, ChromaProvider), (ragstore_archives, RagstoreProvider)):
        archive_store.create(archive_name, many)
        documents = await provider.connect({"url": archive_store.url, "timeout": 30.0}).documents(
            archive_name, limit=wanted
        )
        assert [document.id for document in documents] == [document.id for document in many][:wanted]
        archive_store.delete(archive_name)
