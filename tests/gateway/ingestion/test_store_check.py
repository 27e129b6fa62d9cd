"""`StoreCheck`: a store with none of the collections of the gateway's documents is another store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from sqlalchemy import URL

from ragstore_client import AsyncClient
from ragstore_gateway.database.database import Database
from ragstore_gateway.ingestion import store_check
from ragstore_gateway.ingestion.store_check import SAMPLE, StoreCheck
from ragstore_gateway.ingestion.tables import CollectionDocumentRow, CollectionRow, DocumentRow
from ragstore_gateway.settings import Settings
from ragstore_gateway.store.store import Store

NOW: Final = datetime(2026, 11, 26, tzinfo=UTC)
MISSING: Final = {"title": "Not found", "status": 404, "code": "collection_not_found", "detail": "There is none"}


class FakeStore:
    """A store with some collections.

    Attributes:
        names: its collections.
        looked_up: the collections that were requested.
        is_away: whether each response is 503.
        was_found: set when a collection was found.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.looked_up: list[str] = []
        self.is_away = False
        self.was_found = asyncio.Event()

    def respond(self, request: httpx.Request) -> httpx.Response:
        """The response to `GET /collections/NAME`."""
        self.looked_up.append(name := request.url.path.rpartition("/")[2])
        if self.is_away:
            return httpx.Response(503, json={"title": "Away", "status": 503, "code": "chroma_unavailable"})
        if name not in self.names:
            return httpx.Response(404, json=MISSING)
        self.was_found.set()
        return httpx.Response(200, json={"name": name, "count": 1, "metadata": {}, "distance": "cosine"})


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """An empty state."""
    found = Database(URL.create("sqlite+aiosqlite", database=str(tmp_path / "gateway.db")))
    async with found.running():
        yield found


@pytest.fixture
def fake() -> FakeStore:
    """A store without collections."""
    return FakeStore()


@asynccontextmanager
async def checked(database: Database, fake: FakeStore) -> AsyncIterator[tuple[StoreCheck, Store]]:
    """A check of a store, which has not run yet."""
    store = Store(Settings(), threading.Event(), "http://store.example")
    transport = httpx.MockTransport(fake.respond)
    async with httpx.AsyncClient(transport=transport) as http, AsyncClient("http://store.example", http=http) as client:
        store.client = client
        yield StoreCheck(database, store), store


async def add(database: Database, *names: str, chunks: int = 1, **columns: Any) -> None:
    """Add collections with one document each to the state, the oldest one first."""
    for number, name in enumerate(names):
        created = NOW + timedelta(seconds=number)
        collection = CollectionRow(
            id=name,
            base_id=name,
            base_version=1,
            fingerprint="",
            provider="local",
            embedding_parameters={},
            chunking={},
            dimension=2,
            created_on=created,
            **{"state": "active", "store_type": "ragstore", "store_parameters": {}, **columns},
        )
        document = DocumentRow(
            id=name,
            base_id=name,
            name="a",
            current_revision="r",
            current_sequence=1,
            last_sequence=1,
            last_ingestion="r",
            media_type="text/plain",
            bytes=1,
            content_hash="",
            chunks=chunks,
            created_on=created,
            modified_on=created,
        )
        async with database.session() as session:
            session.add_all([collection, document])
            await session.flush()
            session.add(CollectionDocumentRow(collection_id=name, document_id=name, revision="r", chunks=chunks))


async def test_a_store_with_the_newest_collection_is_the_right_one(database: Database, fake: FakeStore) -> None:
    await add(database, "kb_old", "kb_new")
    fake.names = {"kb_new"}
    async with checked(database, fake) as (check, store):
        assert await check.check()
        assert (store.problem, fake.looked_up) == ("", ["kb_new"])


async def test_a_store_that_has_lost_some_collections_is_the_right_one(database: Database, fake: FakeStore) -> None:
    await add(database, "kb_old", "kb_new")
    fake.names = {"kb_old"}
    async with checked(database, fake) as (check, store):
        assert await check.check()
        assert store.problem == ""


async def test_a_store_with_none_of_them_cannot_be_used(database: Database, fake: FakeStore) -> None:
    await add(database, *(f"kb_{number}" for number in range(SAMPLE + 2)))
    async with checked(database, fake) as (check, store):
        assert await check.check()
        assert f"such as 'kb_{SAMPLE + 1}'" in store.problem
        assert "RAGSTORE_GATEWAY_CHECK_STORE=false" in store.problem
    assert len(fake.looked_up) == SAMPLE


@pytest.mark.parametrize(
    "collection",
    [
        {"chunks": 0},
        {"state": "building"},
        {"store_type": "in-memory"},
    ],
    ids=["without chunks", "building", "in another engine"],
)
async def test_other_collections_are_not_looked_up(
    database: Database, fake: FakeStore, collection: dict[str, Any]
) -> None:
    await add(database, "kb_a", **collection)
    async with checked(database, fake) as (check, store):
        assert await check.check()
        assert (store.problem, fake.looked_up) == ("", [])


async def test_a_base_in_an_existing_collection_is_looked_up_by_the_name_of_the_collection(
    database: Database, fake: FakeStore
) -> None:
    await add(database, "kb_a", store_parameters={"collection": "memory", "shared": True})
    async with checked(database, fake) as (check, _):
        await check.check()
    assert fake.looked_up == ["memory"]


async def test_a_store_that_does_not_respond_is_not_another_one(database: Database, fake: FakeStore) -> None:
    await add(database, "kb_a")
    fake.is_away = True
    async with checked(database, fake) as (check, store):
        assert not await check.check()
        assert store.problem == ""


@pytest.mark.parametrize(
    "before", [lambda fake: None, lambda fake: setattr(fake, "is_away", True)], ids=["another store", "away"]
)
async def test_the_check_is_repeated_until_the_store_has_the_collections(
    database: Database, fake: FakeStore, monkeypatch: pytest.MonkeyPatch, before: Callable[[FakeStore], None]
) -> None:
    monkeypatch.setattr(store_check, "RETRY_SECONDS", 0.0)
    await add(database, "kb_a")
    before(fake)
    async with checked(database, fake) as (check, store), check.running():
        fake.names, fake.is_away = {"kb_a"}, False
        fake.was_found.clear()
        await fake.was_found.wait()
        # The check ends after the response.
        for _ in range(10):
            await asyncio.sleep(0)
        assert store.problem == ""
