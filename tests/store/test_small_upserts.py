"""A small upsert of new documents is one call to embedded Chroma, and replaces documents that exist as any other."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ragstore.chroma.operations import GetRecords, UpsertRecords
from ragstore.chroma.upserting import MAX_ONLY_NEW
from ragstore.model.documents import EVERYTHING
from ragstore.store.protocol import Store
from tests.support.factories import batch, upsert_documents
from tests.support.process_fixtures import starts_process
from tests.support.spies import SpyBackend
from tests.support.stores import TENANT, exact

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
@starts_process
async def backend(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SpyBackend]:
    """Embedded Chroma, which records the calls."""
    found = SpyBackend(str(tmp_path_factory.mktemp("upserts")), TENANT, "upserts", 30.0)
    await found.start()
    yield found
    await found.close()


@pytest.fixture
async def store(backend: SpyBackend, name: str) -> Store:
    """A store with a collection, whose document `old` has metadata."""
    store = exact(backend)
    await store.create_collection(name, {}, "l2")
    await upsert_documents(store, name, batch("old", text="old", metadata={"kept": 1, "removed": 2}))
    backend.operations.clear()
    return store


def calls(backend: SpyBackend) -> list[str]:
    """The reads and writes of records."""
    return [type(each).__name__ for each in backend.operations if isinstance(each, (GetRecords, UpsertRecords))]


async def test_an_upsert_of_new_documents_is_one_call(store: Store, backend: SpyBackend, name: str) -> None:
    await upsert_documents(store, name, batch("a", "b"))
    assert calls(backend) == ["UpsertRecords"]
    assert (await store.get(name, EVERYTHING)).ids == ["old", "a", "b"]


async def test_an_upsert_of_new_and_old_documents_replaces_the_old_ones(
    store: Store, backend: SpyBackend, name: str
) -> None:
    await upsert_documents(store, name, batch("a", "old", text="new", metadata={"kept": 3}))
    assert calls(backend) == ["UpsertRecords", "UpsertRecords"]
    found = await store.get(name, EVERYTHING)
    assert (sorted(found.ids), found.texts) == (["a", "old"], ["new", "new"])
    assert list(found.metadatas) == [{"kept": 3}, {"kept": 3}]


async def test_an_upsert_that_is_sent_again_after_its_response_was_lost_changes_nothing(
    store: Store, name: str
) -> None:
    for _ in range(2):
        await upsert_documents(store, name, batch("a", text="new", metadata={"key": 1}))
    found = await store.get(name, EVERYTHING)
    assert list(zip(found.ids, found.texts, found.metadatas, strict=True))[1:] == [("a", "new", {"key": 1})]


async def test_the_documents_of_a_larger_upsert_are_looked_up_first(
    store: Store, backend: SpyBackend, name: str
) -> None:
    await upsert_documents(store, name, batch(*(str(number) for number in range(MAX_ONLY_NEW + 1))))
    assert calls(backend) == ["GetRecords", "UpsertRecords"]
