"""Two stores on one Chroma server, as two replicas of the service are: what one does, the other serves right."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Literal

import httpx
import pytest

from ragstore.chroma import first_write
from ragstore.chroma.operations import CreateCollection, GetCollection, ListCollections
from ragstore.errors import CollectionNotFound, DimensionMismatch, DocumentsExist, InvalidName
from ragstore.model.documents import EVERYTHING, Write
from ragstore.operations.write_documents import write_batch
from ragstore.store.protocol import Store
from tests.support.factories import add_documents, batch, make_query, of_where, upsert_documents
from tests.support.process_fixtures import starts_process
from tests.support.stores import STORES, TENANT, StoreLocation, http_backend

pytestmark = pytest.mark.process

REMOTE = [kind for kind in STORES if "remote" in kind]


@pytest.fixture(scope="module", params=REMOTE)
@starts_process
async def replicas(request: pytest.FixtureRequest, location: StoreLocation) -> AsyncIterator[tuple[Store, Store]]:
    """Two stores that know nothing of each other."""
    one, other = STORES[request.param](location), STORES[request.param](location)
    await one.start()
    await other.start()
    yield one, other
    await one.close()
    await other.close()


async def _replace(one: Store, other: Store, name: str) -> None:
    """Let one store know a collection of dimension 2 which the other then replaces by one of dimension 3."""
    await one.create_collection(name, {"was": "first"}, "l2")
    await add_documents(one, name, batch("a", "b", dimension=2))
    await one.query(name, [make_query(1, 2)])
    await other.delete_collection(name)
    await other.create_collection(name, {"is": "second"}, "ip")
    await add_documents(other, name, batch("c", dimension=3))


async def test_a_collection_made_again_elsewhere_is_read(replicas: tuple[Store, Store], name: str) -> None:
    await _replace(*replicas, name)
    assert (await replicas[0].get(name, EVERYTHING)).ids == ["c"]
    assert await replicas[0].count(name) == 1
    assert await replicas[0].count(name, of_where({"a": {"$ne": 1}})) == 1


async def test_a_collection_made_again_elsewhere_is_queried(replicas: tuple[Store, Store], name: str) -> None:
    await _replace(*replicas, name)
    found = await replicas[0].query(name, [make_query(1, 2, 3)])
    assert found.matches[0].ids == ["c"]
    assert (found.collection.distance, found.collection.metadata) == ("ip", {"is": "second"})


async def test_a_collection_made_again_elsewhere_refuses_the_dimension_it_had(
    replicas: tuple[Store, Store], name: str
) -> None:
    await _replace(*replicas, name)
    with pytest.raises(DimensionMismatch, match="dimension 2 does not match the collection's dimension 3"):
        await replicas[0].query(name, [make_query(1, 2)])
    with pytest.raises(DimensionMismatch):
        await upsert_documents(replicas[0], name, batch("d", dimension=2))


@pytest.mark.parametrize("operation", ["add", "upsert"])
async def test_a_collection_made_again_elsewhere_is_written(
    replicas: tuple[Store, Store], name: str, operation: Literal["add", "upsert"]
) -> None:
    await _replace(*replicas, name)
    await write_batch(replicas[0], name, Write(operation, batch("d", dimension=3)))
    assert (await replicas[1].get(name, EVERYTHING)).ids == ["c", "d"]


async def test_a_collection_made_again_elsewhere_is_emptied(replicas: tuple[Store, Store], name: str) -> None:
    await _replace(*replicas, name)
    assert await replicas[0].delete(name, EVERYTHING) == 1


async def test_a_collection_made_again_elsewhere_is_deleted(replicas: tuple[Store, Store], name: str) -> None:
    await _replace(*replicas, name)
    await replicas[0].delete_collection(name)
    with pytest.raises(CollectionNotFound):
        await replicas[1].get_collection(name)


async def test_a_collection_made_again_elsewhere_has_its_metadata_updated(
    replicas: tuple[Store, Store], name: str
) -> None:
    await _replace(*replicas, name)
    updated = await replicas[0].update_metadata(name, {"more": 1}, merge=True)
    assert (updated.metadata, updated.distance) == ({"is": "second", "more": 1}, "ip")


async def test_a_collection_deleted_elsewhere_is_not_found(replicas: tuple[Store, Store], name: str) -> None:
    one, other = replicas
    await one.create_collection(name, {}, "l2")
    await add_documents(one, name, batch("a"))
    await other.delete_collection(name)
    with pytest.raises(CollectionNotFound):
        await one.get(name, EVERYTHING)
    with pytest.raises(CollectionNotFound):
        await upsert_documents(one, name, batch("a"))


async def test_a_collection_made_again_through_chromas_own_api_is_served(
    replicas: tuple[Store, Store], location: StoreLocation, name: str
) -> None:
    store = replicas[0]
    await store.create_collection(name, {}, "cosine")
    await add_documents(store, name, batch("a"))
    api = f"{location.chroma_url}/api/v2/tenants/{TENANT}/databases/{location.database}/collections"
    async with httpx.AsyncClient() as chroma:
        (await chroma.delete(f"{api}/{name}")).raise_for_status()
        made = (await chroma.post(api, json={"name": name})).raise_for_status().json()
        record = {"ids": ["theirs"], "embeddings": [[1, 2, 3]], "metadatas": [None]}
        (await chroma.post(f"{api}/{made['id']}/upsert", json=record)).raise_for_status()
    found = await store.get(name, EVERYTHING)
    assert (found.ids, found.texts, found.metadatas) == (["theirs"], [""], [{}])
    assert (await store.query(name, [make_query(1, 2, 3)])).matches[0].texts == [""]
    assert (await store.get_collection(name)).distance == "l2"


async def test_an_id_added_elsewhere_is_taken(replicas: tuple[Store, Store], name: str) -> None:
    one, other = replicas
    await one.create_collection(name, {}, "l2")
    await add_documents(other, name, batch("a"))
    with pytest.raises(DocumentsExist):
        await add_documents(one, name, batch("a"))


@pytest.mark.parametrize("kind", ["add", "upsert"])
async def test_of_first_writes_of_two_dimensions_one_is_acknowledged_and_stored_as_sent(
    replicas: tuple[Store, Store], name: str, kind: Literal["add", "upsert"]
) -> None:
    for number in range(15):
        collection = f"{name}-{number}"
        await replicas[0].create_collection(collection, {}, "l2")
        sent = [batch("two", dimension=2), batch("three", dimension=3)]
        writes = [
            write_batch(replica, collection, Write(kind, documents))
            for replica, documents in zip(replicas, sent, strict=True)
        ]
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        (accepted,) = [
            documents for documents, outcome in zip(sent, outcomes, strict=True) if not isinstance(outcome, Exception)
        ]
        assert {type(outcome) for outcome in outcomes if outcome is not None} == {DimensionMismatch}
        found = await replicas[1].get(collection, EVERYTHING, with_embeddings=True)
        assert found.ids == accepted.ids
        assert found.embeddings is not None
        assert found.embeddings.tolist() == accepted.embeddings[:].tolist()
        assert (await replicas[0].get_collection(collection)).dimension == accepted.dimension
        await replicas[0].delete_collection(collection)


async def test_first_writes_of_one_dimension_are_all_acknowledged(
    replicas: tuple[Store, Store], name: str, location: StoreLocation
) -> None:
    await replicas[0].create_collection(name, {}, "l2")
    await asyncio.gather(*(upsert_documents(replicas[number % 2], name, batch(str(number))) for number in range(10)))
    assert await replicas[0].count(name) == 10
    backend = http_backend(location.chroma_url, location.database)
    await backend.start()
    names = {found.name for found in await backend.call(ListCollections())}
    assert not [found for found in names if found.startswith(first_write.LOCK_PREFIX)]
    await backend.close()
    await replicas[0].delete_collection(name)


async def test_the_lock_of_a_first_write_whose_holder_ended_is_removed(
    replicas: tuple[Store, Store], name: str, location: StoreLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_write, "LEASE_SECONDS", 0.1)
    collection = await replicas[0].create_collection(name, {}, "l2")
    backend = http_backend(location.chroma_url, location.database)
    await backend.start()
    lock = first_write.LOCK_PREFIX + collection.id
    await backend.call(CreateCollection(lock, {}, "l2"))
    assert lock not in {found.name for found in await replicas[0].list_collections(None, 0)}
    await add_documents(replicas[0], name, batch("a"))
    with pytest.raises(CollectionNotFound):
        await backend.call(GetCollection(lock))
    await backend.close()
    await replicas[0].delete_collection(name)


async def test_no_collection_may_have_the_name_of_a_lock(replicas: tuple[Store, Store]) -> None:
    with pytest.raises(InvalidName):
        await replicas[0].create_collection(f"{first_write.LOCK_PREFIX}x", {}, "l2")
