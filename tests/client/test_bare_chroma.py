"""What is particular to an archive whose URL names a plain Chroma server."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.conftest import Shelf
from client.corpus import chunk
from client.fake_servers import Answer, LocalServer, Request
from ragstore_client import (
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
from ragstore_client.rag._chroma_calls import to_chroma_where
from ragstore_client.rag._detection import shared_detector
from serving import Served


@pytest.mark.parametrize(
    ("said", "meant"),
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
def test_a_filter_is_said_in_chromas_stricter_language(said: dict[str, object], meant: dict[str, object]) -> None:
    assert to_chroma_where(said) == meant  # type: ignore[arg-type]  # literals of many shapes


@pytest.mark.parametrize("wrong", [{"$and": {"a": 1}}, {"$or": ["a"]}, {"$or": 5}, {"a": float("inf")}])
def test_what_is_no_filter_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        to_chroma_where(wrong)  # type: ignore[arg-type]  # literals of many shapes


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
def test_every_filter_is_said_so_that_chroma_takes_it(where: dict[str, object]) -> None:
    def check(said: dict[str, object]) -> None:
        ((field, condition),) = said.items()
        if field in ("$and", "$or"):
            assert isinstance(condition, list)
            assert len(condition) >= 2
            for part in condition:
                check(part)
        elif isinstance(condition, dict):
            assert len(condition) == 1

    said = to_chroma_where(where)  # type: ignore[arg-type]  # of many shapes
    if said:
        check(said)


@pytest.mark.parametrize("distance", ["cosine", "l2", "ip"])
def test_distances_and_scores_are_those_of_ragstore(
    ragstore_shelf: Shelf,
    chroma_shelf: Shelf,
    settings: RagSettings,
    cache: EmbeddingCache,
    name: str,
    distance: Distance,
) -> None:
    documents = [chunk(0, "Heizung im Keller"), chunk(1, "Heizung im Dach des Hauses"), chunk(2, "Aufzug")]
    found = []
    for shelf in (ragstore_shelf, chroma_shelf):
        shelf.put(name, documents, distance)
        archive = RagArchiveConfig(name="a", collection_name=name, chromadb_url=shelf.url)
        retriever = Retriever(RagConfig(archives=[archive]), settings=settings, cache=cache)
        found.append([(hit.id, hit.text, hit.metadata, hit.distance, hit.score) for hit in retriever.search("Heizung")])
        shelf.drop(name)
    ours, theirs = found
    assert [hit[:3] for hit in ours] == [hit[:3] for hit in theirs]
    assert [hit[3] for hit in ours] == pytest.approx([hit[3] for hit in theirs], abs=1e-6)
    assert [hit[4] for hit in ours] == pytest.approx([hit[4] for hit in theirs], abs=1e-6)


def test_records_without_text_metadata_or_distance_are_read(settings: RagSettings, cache: EmbeddingCache) -> None:
    def respond(request: Request) -> Answer:
        if request.path.endswith("/heartbeat"):
            return Answer(200, {"nanosecond heartbeat": 1})
        if request.path.endswith("/query"):
            columns = {"ids": [["a", "b"]], "documents": [[None, "x"]], "metadatas": [[None, {"k": None, "n": 1}]]}
            return Answer(200, {**columns, "distances": [[None, 0.5]]})
        return Answer(200, {"id": "c-1", "name": "abc", "dimension": None, "configuration_json": {}})

    with LocalServer(respond) as server:
        archive = RagArchiveConfig(name="a", collection_name="abc", chromadb_url=server.url)
        hits = Retriever(RagConfig(archives=[archive]), settings=settings, cache=cache).search("x").hits
    assert [(hit.id, hit.text, hit.metadata, hit.distance) for hit in hits] == [
        ("b", "x", {"n": 1}, 0.5),
        ("a", "", {}, None),
    ]


@pytest.mark.parametrize(("before", "after"), [("ragstore", "chroma"), ("chroma", "ragstore")])
def test_what_is_behind_a_url_may_change(
    request: pytest.FixtureRequest, settings: RagSettings, name: str, before: str, after: str
) -> None:
    shelves: dict[str, Shelf] = {each: request.getfixturevalue(f"{each}_shelf") for each in (before, after)}
    for shelf in shelves.values():
        shelf.put(name, [chunk(0, "Heizung")])
    now = [before]
    with httpx.Client(timeout=30) as http:

        def respond(request: Request) -> Answer:
            url = shelves[now[0]].url + request.path
            kind = {"content-type": "application/json"} if request.body else {}
            answer = http.request(request.method, url, content=request.body, headers=kind)
            return Answer(answer.status_code, answer.content)

        with LocalServer(respond) as server:
            archive = RagArchiveConfig(name="a", collection_name=name, chromadb_url=server.url)
            retriever = Retriever(RagConfig(archives=[archive]), settings=settings, cache=EmbeddingCache())
            assert len(retriever.search("Heizung")) == 1
            now[0] = after
            assert len(retriever.search("Heizung")) == 1
            assert shared_detector.known(server.url) == after
    for shelf in shelves.values():
        shelf.drop(name)


def test_a_server_out_of_order_is_not_taken_for_anything(settings: RagSettings) -> None:
    with LocalServer(lambda _: Answer(503)) as server:
        archive = RagArchiveConfig(name="a", collection_name="abc", chromadb_url=server.url)
        results = Retriever(RagConfig(archives=[archive]), settings=settings, cache=EmbeddingCache()).search("x")
        assert [skipped.reason for skipped in results.skipped] == [SkipReason.UNREACHABLE]
        assert shared_detector.known(server.url) is None


async def test_chroma_as_a_provider(chroma: Served, chroma_shelf: Shelf, name: str) -> None:
    chroma_shelf.put(name, [chunk(number, f"text {number}") for number in range(7)])
    provider = ChromaProvider.connect({"url": chroma.url})
    assert name in await provider.collections()
    health = await provider.health()
    assert (health.status, health.error) == ("healthy", None)
    assert health.collection_count
    assert len(await provider.documents(name, where={"layer": "chunk"}, limit=5)) == 5
    chroma_shelf.drop(name)


@pytest.mark.parametrize("wanted", [499, 500, 501, 1000])
async def test_documents_are_read_in_pages(chroma_shelf: Shelf, ragstore_shelf: Shelf, name: str, wanted: int) -> None:
    many = [chunk(number, f"text {number}", dimension=2) for number in range(520)]
    for shelf, provider in ((chroma_shelf, ChromaProvider), (ragstore_shelf, RagstoreProvider)):
        shelf.put(name, many)
        documents = await provider.connect({"url": shelf.url, "timeout": 30.0}).documents(name, limit=wanted)
        assert [document.id for document in documents] == [document.id for document in many][:wanted]
        shelf.drop(name)
