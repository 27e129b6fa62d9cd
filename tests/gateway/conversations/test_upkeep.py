"""The upkeep of conversations: contexts that are too old are purged while the gateway runs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from sqlalchemy import make_url, text

from ragstore_gateway.conversations import assembly as conversations_module
from ragstore_gateway.conversations.assembly import Conversations
from ragstore_gateway.database.database import Database
from ragstore_gateway.settings import Settings
from tests.gateway.conversations.factories import step
from tests.support.ledger import wait_until

SECONDS = 30
FAILING = "CREATE TRIGGER failing BEFORE DELETE ON conversation_context BEGIN SELECT RAISE(ABORT, 'no'); END"


async def _until_purged(database: Database, count: int) -> None:
    """Wait until a number of contexts is left."""
    async with asyncio.timeout(SECONDS):
        while True:
            async with database.reading() as session:
                if await session.scalar(text("SELECT count(*) FROM conversation_context")) == count:
                    return
            await asyncio.sleep(0.02)


def _purged() -> float:
    return REGISTRY.get_sample_value("ragstore_gateway_purged_contexts_total") or 0.0


async def _execute(database: Database, statement: str) -> None:
    async with database.session() as session:
        await session.execute(text(statement))


async def test_contexts_are_purged_periodically_also_after_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations_module, "UPKEEP_SECONDS", 0.05)
    database = Database(make_url(f"sqlite+aiosqlite:///{tmp_path / 'gateway.db'}"))
    old = datetime.now(UTC) - timedelta(days=2)
    before = _purged()
    async with database.running():
        conversations = Conversations(database, Settings(retention_days=1, keep_contexts=True))
        async with conversations.running():
            await conversations.repository.write([step(1, created_on=old), step(2)])
            await _until_purged(database, 1)
            await _execute(database, FAILING)
            await conversations.repository.write([step(3, created_on=old)])
            # The purge fails several times.
            await asyncio.sleep(0.3)
            await _until_purged(database, 2)
            await _execute(database, "DROP TRIGGER failing")
            await _until_purged(database, 1)
            await wait_until(lambda: _purged() == before + 2)  # the metric follows the transaction
