"""Vector stores: created, read, listed, changed, deleted; on both databases."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI
from openai.types import VectorStore

from tests.gateway.conftest import Replicas
from tests.gateway.openai_vector_stores.conftest import BOILER, KEYS, Api, Handbook, upload
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
@starts_process
def api(request: pytest.FixtureRequest) -> Api:
    """A gateway over SQLite, and one of two replicas over PostgreSQL."""
    if request.param == "sqlite":
        gateway: Served = request.getfixturevalue("gateway")
        return Api(gateway.url)
    replicas: Replicas = request.getfixturevalue("replicas")
    return Api(replicas.gateways[0].url, replicas.keys["admin"])


def test_a_vector_store_shows_its_files_and_its_metadata(sdk: OpenAI, handbook: Handbook) -> None:
    store = sdk.vector_stores.retrieve(handbook.store.id)
    assert (store.object, store.name, store.status) == ("vector_store", "handbook", "completed")
    assert store.metadata == {"team": "housing"}
    counts = store.file_counts
    assert (counts.total, counts.completed, counts.in_progress, counts.failed, counts.cancelled) == (3, 3, 0, 0, 0)
    assert store.usage_bytes == sum(file.bytes for file in handbook.files.values())
    assert store.expires_after is None
    assert store.created_at <= (store.last_active_at or 0)


def test_a_vector_store_is_a_knowledge_base_with_its_id(plain: httpx.Client, handbook: Handbook) -> None:
    base = plain.get(f"/ragstore/rags/{handbook.store.id}").json()
    assert (base["name"], base["description"], base["minScore"]) == ("handbook", "For tenants", 0.0)
    documents = plain.get(f"/ragstore/rags/{handbook.store.id}/documents").json()
    assert [document["name"] for document in documents["documents"]] == sorted(handbook.files)


def test_a_vector_store_can_be_created_with_files(sdk: OpenAI) -> None:
    files = [upload(sdk, "a.txt", BOILER), upload(sdk, "b.txt", KEYS)]
    store = sdk.vector_stores.create(name="with files", file_ids=[file.id for file in files])
    assert store.file_counts.total == 2
    listed = sdk.vector_stores.files.list(store.id)
    assert {file.id for file in listed} == {file.id for file in files}
    sdk.vector_stores.delete(store.id)


def test_a_file_that_does_not_exist_creates_no_vector_store(sdk: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        sdk.vector_stores.create(name="not created", file_ids=["file-nowhere"])
    assert "not created" not in [store.name for store in sdk.vector_stores.list()]


def test_a_static_chunking_is_in_tokens(sdk: OpenAI, plain: httpx.Client) -> None:
    store = sdk.vector_stores.create(
        chunking_strategy={
            "type": "static",
            "static": {"max_chunk_size_tokens": 200, "chunk_overlap_tokens": 20},
        }
    )
    base = plain.get(f"/ragstore/rags/{store.id}").json()
    assert (base["chunkUnit"], base["chunkSize"], base["chunkOverlap"]) == ("tokens", 200, 20)
    file = sdk.vector_stores.files.create(
        store.id,
        file_id=upload(sdk, "a.txt", BOILER).id,
        chunking_strategy={
            "type": "static",
            "static": {"max_chunk_size_tokens": 200, "chunk_overlap_tokens": 20},
        },
    )
    assert file.chunking_strategy is not None
    assert file.chunking_strategy.to_dict() == {
        "type": "static",
        "static": {"max_chunk_size_tokens": 200, "chunk_overlap_tokens": 20},
    }
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.vector_stores.files.create(
            store.id,
            file_id=upload(sdk, "b.txt", BOILER).id,
            chunking_strategy={
                "type": "static",
                "static": {"max_chunk_size_tokens": 800, "chunk_overlap_tokens": 400},
            },
        )
    assert caught.value.param == "chunking_strategy"
    sdk.vector_stores.delete(store.id)


@pytest.mark.parametrize("strategy", [openai.omit, {"type": "auto"}])
def test_a_chunking_that_is_not_given_is_openais_default(sdk: OpenAI, plain: httpx.Client, strategy: Any) -> None:
    store = sdk.vector_stores.create(chunking_strategy=strategy)
    base = plain.get(f"/ragstore/rags/{store.id}").json()
    assert (base["chunkUnit"], base["chunkSize"], base["chunkOverlap"]) == ("tokens", 800, 400)
    file = sdk.vector_stores.files.create(store.id, file_id=upload(sdk, "a.txt", BOILER).id)
    assert file.chunking_strategy is not None
    assert file.chunking_strategy.to_dict() == {
        "type": "static",
        "static": {"max_chunk_size_tokens": 800, "chunk_overlap_tokens": 400},
    }
    sdk.vector_stores.delete(store.id)


def test_a_base_of_the_gateway_keeps_its_chunking_in_characters(sdk: OpenAI, plain: httpx.Client) -> None:
    created = plain.post("/ragstore/rags", json={"name": "in characters"}).raise_for_status()
    store_id = created.headers["Location"].partition("?")[0].rpartition("/")[2]
    file = sdk.vector_stores.files.create(
        store_id, file_id=upload(sdk, "a.txt", BOILER).id, chunking_strategy={"type": "auto"}
    )
    assert file.chunking_strategy is not None
    assert file.chunking_strategy.type == "other"
    sdk.vector_stores.delete(store_id)


def test_provider_store_and_chunking_of_the_base_can_be_given(sdk: OpenAI, plain: httpx.Client) -> None:
    extra = {"store_type": "in-memory", "chunk_strategy": "sentence", "chunk_size": 300, "min_score": 0.7}
    store = sdk.vector_stores.create(extra_body=extra)
    base = plain.get(f"/ragstore/rags/{store.id}").json()
    assert (base["storeType"], base["chunkStrategy"], base["chunkSize"], base["minScore"]) == (
        "in-memory",
        "sentence",
        300,
        0.7,
    )
    sdk.vector_stores.delete(store.id)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"name": " x"}, "name"),
        ({"name": "a\u2066b"}, "name"),
        ({"metadata": {f"k{n}": "v" for n in range(17)}}, "metadata"),
        ({"metadata": {"k": "v" * 513}}, "metadata"),
        (
            {
                "chunking_strategy": {
                    "type": "static",
                    "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 51},
                }
            },
            "chunking_strategy.static.chunk_overlap_tokens",
        ),
        ({"chunking_strategy": {"type": "none"}}, "chunking_strategy"),
        ({"store_type": "pgvector"}, "storeParameters.password"),
        ({"chunk_size": 0}, "chunk_size"),
    ],
)
def test_an_impossible_vector_store_is_an_error_that_names_the_field(
    plain: httpx.Client, body: dict[str, Any], param: str
) -> None:
    response = plain.post("/v1/vector_stores", json=body)
    assert response.status_code == 400
    assert param in (response.json()["error"]["param"] or "")


def test_names_of_vector_stores_may_repeat(sdk: OpenAI, plain: httpx.Client) -> None:
    first, second = (sdk.vector_stores.create(name="twice", metadata={"n": n}) for n in "12")
    assert (first.name, second.name) == ("twice", "twice")
    assert sdk.vector_stores.retrieve(second.id).metadata == {"n": "2"}
    bases = [plain.get(f"/ragstore/rags/{store.id}").json()["name"] for store in (first, second)]
    assert bases[0] == "twice"
    assert bases[1].startswith("twice (")
    # The name that it has is no change.
    assert sdk.vector_stores.update(second.id, name="twice", metadata={}).metadata == {}
    third = sdk.vector_stores.create(name="other")
    assert sdk.vector_stores.update(third.id, name="twice").name == "twice"
    assert sdk.vector_stores.update(third.id, name="own").name == "own"
    assert plain.get(f"/ragstore/rags/{third.id}").json()["name"] == "own"
    for store in (first, second, third):
        sdk.vector_stores.delete(store.id)


def test_a_vector_store_has_the_new_name_of_its_base(sdk: OpenAI, plain: httpx.Client) -> None:
    first, second = (sdk.vector_stores.create(name="n" * 128) for _ in "12")
    assert second.name == "n" * 128
    body = plain.get(f"/ragstore/rags/{second.id}").json()
    body["name"] = "renamed"
    plain.put(f"/ragstore/rags/{second.id}", params={"version": 1}, json=body).raise_for_status()
    assert sdk.vector_stores.retrieve(second.id).name == "renamed"
    for store in (first, second):
        sdk.vector_stores.delete(store.id)


def test_explicit_nulls_create_a_vector_store_with_defaults(plain: httpx.Client) -> None:
    nulls = {"name": None, "file_ids": None, "expires_after": None, "chunking_strategy": None, "metadata": None}
    created = plain.post("/v1/vector_stores", json=nulls)
    assert created.status_code == 200
    assert created.json()["name"].startswith("vector-store-")
    assert created.json() == {**created.json(), "expires_after": None, "expires_at": None, "metadata": {}}
    plain.delete(f"/v1/vector_stores/{created.json()['id']}").raise_for_status()


def test_name_and_metadata_can_be_changed(sdk: OpenAI, plain: httpx.Client, store: VectorStore) -> None:
    changed = sdk.vector_stores.update(store.id, name="renamed", metadata={"a": "1"})
    assert (changed.name, changed.metadata) == ("renamed", {"a": "1"})
    assert sdk.vector_stores.update(store.id, name="renamed").metadata == {"a": "1"}
    refused = plain.post(f"/v1/vector_stores/{store.id}", json={"name": "a\u202eb"})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "name")
    assert sdk.vector_stores.update(store.id, metadata={}).metadata == {}
    current = plain.get(f"/ragstore/rags/{store.id}").headers["X-Resource-URI"]
    assert current == f"/ragstore/rags/{store.id}?version=2"


def test_vector_stores_are_listed_in_pages_by_cursor(sdk: OpenAI) -> None:
    created = [sdk.vector_stores.create(name=f"page {number}") for number in range(5)]
    ids = [store.id for store in created]
    newest = sdk.vector_stores.list(limit=2)
    assert [store.id for store in newest.data] == ids[:2:-1]
    assert newest.has_more
    following = sdk.vector_stores.list(limit=2, after=newest.data[-1].id)
    assert [store.id for store in following.data] == [ids[2], ids[1]]
    previous = sdk.vector_stores.list(limit=2, before=ids[1])
    assert [store.id for store in previous.data] == [ids[3], ids[2]]
    ascending = sdk.vector_stores.list(limit=100, order="asc", after=ids[1])
    assert [store.id for store in ascending.data] == ids[2:]
    assert not ascending.has_more
    between = sdk.vector_stores.list(order="asc", after=ids[0], before=ids[3])
    assert [store.id for store in between.data] == ids[1:3]
    assert [store.id for store in sdk.vector_stores.list(limit=2) if store.id in ids] == ids[::-1]
    for store in created:
        sdk.vector_stores.delete(store.id)


def test_a_cursor_that_does_not_exist_is_404(sdk: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        sdk.vector_stores.list(after="nowhere")


def test_a_deleted_vector_store_is_gone_and_its_name_is_free(sdk: OpenAI, plain: httpx.Client) -> None:
    store = sdk.vector_stores.create(name="short-lived", metadata={"a": "b"})
    file = upload(sdk, "a.txt", BOILER)
    sdk.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id, poll_interval_ms=50)
    deleted = sdk.vector_stores.delete(store.id)
    assert (deleted.id, deleted.deleted, deleted.object) == (store.id, True, "vector_store.deleted")
    for call in (sdk.vector_stores.retrieve, sdk.vector_stores.delete, sdk.vector_stores.files.list):
        with pytest.raises(openai.NotFoundError):
            call(store.id)
    assert plain.get(f"/ragstore/rags/{store.id}?version=1").status_code == 404
    assert sdk.files.retrieve(file.id).filename == "a.txt"
    sdk.vector_stores.delete(sdk.vector_stores.create(name="short-lived").id)


def test_paths_of_this_api_are_never_sent_to_the_upstream(plain: httpx.Client) -> None:
    # This gateway has no upstream: what is not served here is 503, and not 404 or 405.
    assert plain.post("/v1/something", json={}).status_code == 503
    for method, path in (
        ("GET", "/v1/vector_stores/a/nothing"),
        ("POST", "/v1/vector_stores/a/files/b/nothing"),
        ("GET", "/v1/files/a/nothing"),
        ("PUT", "/v1/files"),
        ("PATCH", "/v1/vector_stores/a"),
    ):
        assert plain.request(method, path).status_code in (404, 405), path
