"""The table of stored responses: what it keeps, for how long, and how much."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw
from sqlalchemy import func, make_url, select, update

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import ResponseNotFound
from ragstore_gateway.responses import stored_responses as module
from ragstore_gateway.responses.stored_responses import MAX_INPUT_BYTES, NO_TURNS, StoredResponses
from ragstore_gateway.responses.tables import StoredResponseRow


@pytest.fixture
async def database(tmp_path: Path) -> Any:
    """A database."""
    database = Database(make_url(f"sqlite+aiosqlite:///{tmp_path / 'gateway.db'}"))
    async with database.running():
        yield database


async def written(stored: StoredResponses, number: int, previous: int | None = None) -> str:
    """Store a response, and return its id."""
    id = f"resp_ragstore_{number:032x}"
    earlier = NO_TURNS if previous is None else await stored.earlier(f"resp_ragstore_{previous:032x}", "key")
    await stored.write(id, "key", earlier, [Raw(b'{"role":"user","content":"Tea?"}')], b'{"output":[]}')
    return id


async def is_stored(stored: StoredResponses, id: str) -> bool:
    """Whether a response is stored."""
    try:
        await stored.read(id, "key")
    except ResponseNotFound:
        return False
    return True


async def test_a_conversation_is_purged_when_its_last_response_is_too_old(database: Database) -> None:
    stored = StoredResponses(database, timedelta(days=30), 10_000)
    first, second, other = (
        await written(stored, 1),
        await written(stored, 2, 1),
        await written(stored, 3),
    )
    async with database.session() as session:
        old = update(StoredResponseRow).where(StoredResponseRow.id.in_([first, other]))
        await session.execute(old.values(created_on=datetime.now(UTC) - timedelta(days=31)))
    assert await stored.purge() == 1
    assert len((await stored.earlier(second, "key")).items) == 2
    with pytest.raises(ResponseNotFound):
        await stored.read(other, "key")


async def test_beyond_the_maximum_of_a_key_the_conversations_that_ended_first_are_removed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = StoredResponses(database, timedelta(days=1), 10_000)
    first, other = await written(stored, 1), await written(stored, 2)
    last = await written(stored, 3, 1)
    async with database.reading() as session:
        size = await session.scalar(select(func.max(module._SIZE)))
    monkeypatch.setattr(module, "MAX_KEY_BYTES", 2 * (size or 0))
    assert await stored.purge() == 1
    assert len((await stored.earlier(last, "key")).items) == 2
    with pytest.raises(ResponseNotFound):
        await stored.read(other, "key")
    monkeypatch.setattr(module, "MAX_KEY_BYTES", 1)
    assert await stored.purge() == 2
    with pytest.raises(ResponseNotFound):
        await stored.read(first, "key")


async def test_much_that_is_written_begins_a_purge(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = StoredResponses(database, timedelta(days=1), 10_000)
    monkeypatch.setattr(module, "EARLY_PURGE_BYTES", 1)
    monkeypatch.setattr(module, "MAX_KEY_BYTES", 1)
    async with stored.running(), asyncio.timeout(20):
        await asyncio.sleep(0.1)
        id = await written(stored, 1)
        while await is_stored(stored, id):  # noqa: ASYNC110  # nothing signals the end of a purge
            await asyncio.sleep(0.05)


async def test_a_retention_of_zero_stores_nothing_and_purges_everything(database: Database) -> None:
    await written(StoredResponses(database, timedelta(days=1), 10_000), 1)
    stored = StoredResponses(database, timedelta(0), 10_000)
    assert not stored.stores(b"{}", None)
    assert await stored.purge() == 1


async def test_a_conversation_has_a_maximum_size_and_length(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = StoredResponses(database, timedelta(days=1), 100)
    assert not stored.stores(b" " * (MAX_INPUT_BYTES + 1), True)
    await written(stored, 1)
    await written(stored, 2, 1)
    last = await written(stored, 3, 2)
    with pytest.raises(InvalidRequest, match="exceeds 100 bytes"):
        await stored.earlier(last, "key")
    monkeypatch.setattr(module, "MAX_TURNS", 2)
    with pytest.raises(InvalidRequest, match="more than 2 responses"):
        await StoredResponses(database, timedelta(days=1), 10_000).earlier(last, "key")


async def test_a_response_that_cannot_be_stored_does_not_fail(tmp_path: Path) -> None:
    closed = Database(make_url(f"sqlite+aiosqlite:///{tmp_path / 'gateway.db'}"))
    await written(StoredResponses(closed, timedelta(days=1), 100), 1)
