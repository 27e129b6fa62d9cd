"""Collections."""

from __future__ import annotations

import httpx
import pytest
from chromadb.api import ClientAPI
from chromadb.errors import ChromaError, NotFoundError, UniqueConstraintError

from tests.chroma_quirks.bare import Instance, get_collection, new_collection, new_name
from tests.chroma_quirks.quirk import Quirk, shows
from tests.support.servers import Served


@shows(
    Quirk(
        name="create-conflict-has-no-type",
        summary=(
            "Creating a collection that exists raises `InternalError` or `ChromaError`, and not the "
            "`UniqueConstraintError` that Chroma has for it."
        ),
        workaround="The text `already exists` is matched.",
        works_around=("ragstore.chroma.errors:translate_error",),
    )
)
def test_a_collection_that_exists_is_an_untyped_error(client: ClientAPI) -> None:
    collection = new_collection(client)
    with pytest.raises(ChromaError, match=r"already exists$") as raised:
        new_collection(client, name=collection.name)
    assert not isinstance(raised.value, UniqueConstraintError)


@shows(
    Quirk(
        name="list-in-collection-metadata-panics",
        summary=(
            "A list as a value of a collection's metadata panics: the server drops the connection, and embedded "
            "Chroma raises a `BaseException`, which passes every `except Exception`."
        ),
        workaround=(
            "400 before Chroma is called; every exception of embedded Chroma is converted to an error of ragstore."
        ),
        works_around=(
            "ragstore.model.metadata:validate_collection_metadata",
            "ragstore.chroma.embedded.process:_translates_errors",
        ),
    )
)
def test_a_list_in_collection_metadata_panics(client: ClientAPI) -> None:
    with pytest.raises(BaseException) as raised:  # pyo3's PanicException cannot be imported
        client.create_collection(new_name(), metadata={"list": [1]}, embedding_function=None)
    if isinstance(raised.value, Exception):
        assert isinstance(raised.value, httpx.RemoteProtocolError)
    else:
        assert type(raised.value).__name__ == "PanicException"


@shows(
    Quirk(
        name="modify-replaces-metadata",
        summary="`modify` replaces all metadata of a collection, where an update of a document merges.",
        workaround="The stored metadata is read, and merged if the request says so.",
        works_around=("ragstore.chroma.chroma_store:update_metadata",),
        upstream="#1247: Collection metadata update should merge metadata",
    )
)
def test_modify_replaces_all_metadata(client: ClientAPI) -> None:
    collection = new_collection(client, metadata={"old": "1"})
    collection.modify(metadata={"new": "2"})
    assert get_collection(client, collection.name).metadata == {"new": "2"}


@shows(
    Quirk(
        name="metadata-cannot-be-emptied",
        summary="`{}` as the new metadata of a collection is rejected. A null is accepted, and stores nothing.",
        workaround="A null is sent under a key that only ragstore uses.",
        works_around=("ragstore.chroma.collection_config:EMPTY_METADATA",),
    )
)
def test_a_collections_metadata_is_emptied_by_a_null_alone(client: ClientAPI) -> None:
    collection = new_collection(client, metadata={"old": "1"})
    with pytest.raises(ValueError, match="non-empty dict"):
        collection.modify(metadata={})
    collection.modify(metadata={"any": None})
    assert not get_collection(client, collection.name).metadata


@shows(
    Quirk(
        name="space-in-metadata-lies",
        summary=(
            "The server stores another `hnsw:space` in the metadata of a collection, and keeps computing the old "
            "distance. The Python client rejects the key, also with the value that it has."
        ),
        workaround="400 when the distance would change.",
        works_around=("ragstore.chroma.chroma_store:update_metadata",),
        upstream='#2515: Unable to modify (update) collection metadata - "hnsw:space" will be lost (closed)',
        stores=("server",),
    )
)
def test_the_server_stores_a_distance_that_it_does_not_compute(client: ClientAPI, http: httpx.Client) -> None:
    collection = new_collection(client, "l2")
    with pytest.raises(ValueError, match="Changing the distance function"):
        collection.modify(metadata={"hnsw:space": "l2"})
    changed = http.put(f"/collections/{collection.id}", json={"new_metadata": {"hnsw:space": "cosine"}})
    assert changed.status_code == 200
    assert get_collection(client, collection.name).metadata == {"hnsw:space": "cosine"}
    collection.add(ids=["a"], embeddings=[[1.0, 0.0]])
    assert collection.query(query_embeddings=[[3.0, 0.0]])["distances"] == [[4.0]]


@shows(
    Quirk(
        name="listing-in-random-order",
        summary="Collections are listed in the order of their ids, which are random.",
        workaround="All are read and sorted by name, whatever page is wanted.",
        works_around=("ragstore.chroma.chroma_store:list_collections",),
    )
)
def test_collections_are_listed_neither_by_name_nor_by_age(client: ClientAPI) -> None:
    made = [new_collection(client).name for _ in range(12)]
    listed = [collection for collection in client.list_collections() if collection.name in made]
    names = [collection.name for collection in listed]
    assert names not in (made, sorted(made), made[::-1], sorted(made, reverse=True))
    ids = [str(collection.id) for collection in listed]
    assert ids == sorted(ids)


@shows(
    Quirk(
        name="another-id-when-made-again",
        summary=(
            "Documents are reached by the id of their collection alone, which is another one when the collection is "
            "deleted and created again."
        ),
        workaround="Ids are kept for a second, and looked up again when Chroma does not know them any more.",
        works_around=("ragstore.chroma.collection_cache",),
    )
)
def test_a_collection_that_is_made_again_has_another_id(client: ClientAPI) -> None:
    first = new_collection(client)
    client.delete_collection(first.name)
    second = new_collection(client, name=first.name)
    assert second.id != first.id
    with pytest.raises(NotFoundError):
        first.count()


@shows(
    Quirk(
        name="deleted-collections-stay-on-disk-and-open",
        summary=(
            "A collection costs four open files from its first write on, and 2.6 MiB of memory as measured. "
            "Deleting it gives nothing back until Chroma restarts, and its folder of 160 KiB stays permanently."
        ),
        workaround="None: documented.",
        works_around=(),
        upstream=(
            "#3296: Resource leak in `delete_collection` (Single-Node Chroma); #5259: HNSW directories do not get "
            "deleted when the collection is deleted"
        ),
    )
)
def test_deleted_collections_leave_their_folders_and_open_files(instance: Instance, client: ClientAPI) -> None:
    folders, files = instance.folders(), instance.open_files()
    for _ in range(10):
        collection = new_collection(client)
        collection.add(ids=["a"], embeddings=[[1.0, 0.0]])
        collection.query(query_embeddings=[[1.0, 0.0]])
        client.delete_collection(collection.name)
    assert instance.folders() == folders + 10
    assert instance.open_files() >= files + 40


@shows(
    Quirk(
        name="absent-database-looks-empty",
        summary=(
            "A database that does not exist has no collections and a count of 0. Only creating a collection fails, "
            "with `InvalidArgumentError`."
        ),
        workaround="The tenant and database are made at the start, and again when that text comes back.",
        works_around=("ragstore.chroma.http.connection:preflight", "ragstore.chroma.http.connection:_request"),
        stores=("server",),
    )
)
def test_a_database_that_does_not_exist_looks_empty(server: Served) -> None:
    database = f"{server.url}/api/v2/tenants/default_tenant/databases/absent"
    assert httpx.get(f"{database}/collections").json() == []
    assert httpx.get(f"{database}/collections_count").json() == 0
    created = httpx.post(f"{database}/collections", json={"name": new_name()})
    assert created.json() == {"error": "InvalidArgumentError", "message": "Database [absent] does not exist"}
