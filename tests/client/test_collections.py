"""Collections through both clients, against the real service."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest

from ragstore_client import (
    BadRequest,
    Client,
    Collection,
    Conflict,
    HnswParameters,
    IndexCheck,
    InvalidInput,
    NewDocument,
    NotFound,
    Scalar,
    Where,
)

pytestmark = pytest.mark.process


def test_a_created_collection_is_returned(client: Client, archive_name: str) -> None:
    created = client.create_collection(archive_name, metadata={"owner": "team a", "year": 2024, "live": True})
    assert (created.status, created.name, created.distance) == ("created", archive_name, "cosine")
    assert created.metadata["year"] == 2024
    assert created.metadata["live"] is True
    client.delete_collection(archive_name)


def test_embedding_fields_become_metadata(client: Client, archive_name: str) -> None:
    client.create_collection(archive_name, embedding_provider="tei", embedding_model="jina", distance="l2")
    collection = client.get_collection(archive_name)
    assert collection.metadata == {"embedding_provider": "tei", "embedding_model": "jina"}
    assert (collection.count, collection.dimension, collection.distance) == (0, None, "l2")
    client.delete_collection(archive_name)


def test_an_existing_name_is_a_conflict(client: Client, client_collection: str) -> None:
    with pytest.raises(Conflict) as caught:
        client.create_collection(client_collection)
    assert caught.value.status == 409
    assert client_collection in caught.value.detail
    assert caught.value.request_id


def test_get_or_create_returns_an_existing_collection(client: Client, client_collection: str) -> None:
    assert client.create_collection(client_collection, get_or_create=True).status == "exists"


def test_a_bad_name_is_a_bad_request(client: Client) -> None:
    with pytest.raises(BadRequest) as caught:
        client.create_collection("a/b")
    assert caught.value.title
    assert caught.value.errors[0].path == "$.name"


def test_a_missing_collection_is_not_found(client: Client) -> None:
    with pytest.raises(NotFound, match="Collection 'nowhere' not found"):
        client.get_collection("nowhere")


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_change_the_path_is_not_sent(client: Client, name: str) -> None:
    with pytest.raises(InvalidInput):
        client.delete_collection(name)


def test_collections_come_in_pages(client: Client, store: Client, archive_name: str) -> None:
    names = [f"{archive_name}-{number}" for number in range(5)]
    for each in names:
        store.create_collection(each)
    page = client.list_collections(limit=2, offset=1)
    assert (page.count, len(page.collections)) == (2, 2)
    assert page.total >= 5
    assert {each.name for each in client.iter_collections(page_size=2)} >= set(names)
    counts = {each.name: each.count for each in client.iter_collections(page_size=2)}
    assert [counts[each] for each in names] == [0] * 5
    for each in names:
        store.delete_collection(each)


def test_collections_are_counted_in_lists_unless_counts_is_false(client: Client, client_collection: str) -> None:
    def count(found: Iterable[Collection]) -> int | None:
        return next(each.count for each in found if each.name == client_collection)

    assert count(client.list_collections().collections) == 0
    assert count(client.list_collections(counts=False).collections) is None
    assert count(client.iter_collections()) == 0
    assert count(client.iter_collections(counts=False)) is None
    assert client.list_collections().uncounted == 0


def test_metadata_is_merged_unless_merge_is_false(client: Client, client_collection: str) -> None:
    client.update_collection_metadata(client_collection, {"a": 1, "b": 2})
    merged = client.update_collection_metadata(client_collection, {"b": None, "c": 3})
    assert (merged.metadata, merged.merge) == ({"a": 1, "c": 3}, True)
    replaced = client.update_collection_metadata(client_collection, {"d": 4}, merge=False)
    assert (replaced.metadata, replaced.merge) == ({"d": 4}, False)


def test_a_deleted_collection_is_gone(client: Client, archive_name: str) -> None:
    client.create_collection(archive_name)
    assert client.delete_collection(archive_name).status == "deleted"
    with pytest.raises(NotFound):
        client.delete_collection(archive_name)


def test_metadata_values_are_distinct_and_sorted(client: Client, client_collection: str) -> None:
    client.upsert_documents(
        client_collection,
        [
            NewDocument(id=str(number), text="x", embedding=[1.0, 0.0], metadata={"part": part})
            for number, part in enumerate("bab")
        ],
    )
    values = client.metadata_values(client_collection, "part")
    assert (values.field, values.values, values.count) == ("part", ["a", "b"], 2)
    assert client.metadata_values(client_collection, "part", limit=1).values == ["a"]


def test_an_index_is_rebuilt_in_place(client: Client, client_collection: str) -> None:
    document = NewDocument(id="a", text="x", embedding=[1.0, 0.0])
    client.upsert_documents(client_collection, [document])
    with pytest.raises(NotFound) as error:
        client.get_rebuild(client_collection)
    assert error.value.code == "rebuild_not_found"
    started = client.start_rebuild(client_collection, hnsw=HnswParameters(max_neighbors=32), sample=5)
    assert (started.collection, started.status, started.before) == (client_collection, "running", None)
    state = started
    for _ in range(500):
        time.sleep(0.02)
        state = client.get_rebuild(client_collection)
        if state.status != "running":
            break
    assert (state.status, state.done, state.total, state.error) == ("completed", 1, 1, None)
    assert state.before == state.after == IndexCheck(sampled=1, lost=0)
    found = client.get_collection(client_collection)
    assert (found.count, found.hnsw) == (1, HnswParameters(max_neighbors=32))


def test_typed_metadata_values_select_the_documents_that_have_them(client: Client, client_collection: str) -> None:
    metadata: list[dict[str, Scalar]] = [{"page": 10}, {"page": 9}, {"page": "9"}, {"page": True}, {"page": 2.5}]
    client.upsert_documents(
        client_collection,
        [
            NewDocument(id=str(number), text="x", embedding=[1.0, 0.0], metadata=one)
            for number, one in enumerate(metadata)
        ],
    )
    found = client.metadata_values(client_collection, "page", typed=True)
    assert found.typed_values == [True, 2.5, 9, 10, "9"]
    assert client.metadata_values(client_collection, "page").typed_values is None
    for value in found.typed_values or []:
        where: Where = {"page": value}
        selected = client.list_documents(client_collection, where=where).documents
        assert [document.metadata["page"] for document in selected] == [value]


def test_a_map_has_the_nearest_neighbours_of_each_document(client: Client, client_collection: str) -> None:
    vectors = {"a": [1.0, 0.0], "b": [0.9, 0.1], "c": [0.0, 1.0], "d": [0.1, 0.9]}
    client.add_documents(
        client_collection,
        [NewDocument(id=key, text=key, embedding=vector, metadata={"kind": key}) for key, vector in vectors.items()],
    )
    found = client.map_collection(client_collection, color="kind")
    assert found.ids == found.color == ["a", "b", "c", "d"]
    assert [row[0] for row in found.neighbours] == [1, 0, 3, 2]
    assert found.distances[0] == sorted(found.distances[0])
    assert (found.x[0] - found.x[2]) ** 2 > (found.x[0] - found.x[1]) ** 2
    filtered = client.map_collection(client_collection, points=1, where={"kind": {"$ne": "a"}})
    assert (len(filtered.ids), filtered.total, filtered.color) == (1, 3, None)


def test_info_health_and_probes_are_returned(client: Client) -> None:
    assert client.info().name == "ragstore"
    health = client.health()
    assert health.status == "healthy"
    assert health.timestamp.tzinfo is not None
    assert health.details.store == "embedded"
    assert client.live().status == "alive"
    assert client.ready().status == "ready"


def test_openapi_docs_and_metrics_are_texts(client: Client) -> None:
    assert '"openapi"' in client.openapi()
    assert "<html" in client.api_docs().lower()
    assert "# HELP" in client.metrics()
