"""A verification of the ledger by a request: one at a time, in bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import make_url

from ragstore_gateway.conversations import assembly as conversations_module
from ragstore_gateway.conversations.assembly import Conversations
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import TooManyVerifications, VerificationTimeout
from ragstore_gateway.settings import Settings
from tests.gateway.conversations.factories import step

pytestmark = pytest.mark.process


@pytest.fixture
async def conversations(database_url: str) -> AsyncIterator[Conversations]:
    """Conversations with a step."""
    database = Database(make_url(database_url))
    async with database.running():
        found = Conversations(database, Settings())
        await found.repository.write([step(1)])
        yield found


async def test_a_second_verification_is_refused_while_one_is_in_progress(conversations: Conversations) -> None:
    results = await asyncio.gather(conversations.verify(None), conversations.verify(None), return_exceptions=True)
    assert [type(each).__name__ for each in results] == ["ChainCheck", TooManyVerifications.__name__]
    assert (await conversations.verify(None)).intact


async def test_a_verification_ends_in_bounded_time(
    conversations: Conversations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations_module, "VERIFY_SECONDS", 0.0)
    with pytest.raises(VerificationTimeout, match="audit verify"):
        await conversations.verify(None)
    monkeypatch.undo()
    assert (await conversations.verify(None)).head.count == 1
