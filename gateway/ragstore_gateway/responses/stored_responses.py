"""`StoredResponses`: responses that their callers can continue, for as long as the retention says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import sqlalchemy as sa
import structlog
from msgspec import Raw, Struct
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from ragstore.kit.background import in_background
from ragstore.kit.byte_budget import FREE_BYTES, reserve
from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.database.database import Database
from ragstore_gateway.database.purge import purge
from ragstore_gateway.database.repetition import forever
from ragstore_gateway.errors import DatabaseUnavailable, ResponseNotFound
from ragstore_gateway.responses.tables import StoredResponseRow as Row

OWN_ID: Final = re.compile(r"resp_ragstore_[0-9a-f]{32}")
"""The ids of the gateway's responses. The upstream has others."""

MAX_INPUT_BYTES: Final = 8 * 1024 * 1024
"""Largest body of a request whose response is stored."""

MAX_TURNS: Final = 1000
"""Maximum number of responses of a conversation."""

MAX_KEY_BYTES: Final = 256 * 1024 * 1024
"""Maximum size of the responses of one key. Beyond it, the conversations that ended first are removed."""

EARLY_PURGE_BYTES: Final = 64 * 1024 * 1024
"""Number of bytes of new responses after which the next purge begins early, so that one key cannot fill the disk."""

WRITE_SECONDS: Final = 3.0
"""Time limit for a write: the end of the response waits for it."""

UPKEEP_SECONDS: Final = 600.0
_COPIES: Final = 3
"""Number of copies of a conversation that exist while a request is made of it."""

NOT_FOUND: Final = "There is no stored response of this id: it was not stored, was deleted, or belongs to another key"

_log: Final = structlog.get_logger(__name__)


class _Output(Struct, frozen=True):
    output: list[Raw]


_SIZE: Final = sa.func.length(Row.input) + sa.func.length(Row.response)
_items: Final = msgspec.json.Decoder(list[Raw]).decode
_output: Final = msgspec.json.Decoder(_Output).decode


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A response, and the items of its request.

    Attributes:
        input: the items.
        response: the response, as JSON.
    """

    id: str
    input: Sequence[Raw]
    response: bytes


@dataclass(frozen=True, slots=True)
class EarlierTurns:
    """The conversation that a request continues.

    Attributes:
        previous: id of the response that it continues; empty if it continues none.
        thread: id of the first response; empty if there is none.
        items: the items of all requests and responses, the oldest one first.
    """

    previous: str = ""
    thread: str = ""
    items: Sequence[Raw] = ()


NO_TURNS: Final = EarlierTurns()


class StoredResponses:
    """Stored responses. Each one exists for the key of its caller only.

    Args:
        retention: how long a conversation is kept after its last response; nothing is stored if it is zero.
        max_bytes: maximum size of a conversation that can be continued.
    """

    def __init__(self, database: Database, retention: timedelta, max_bytes: int) -> None:
        self._database = database
        self._retention = retention
        self._max_bytes = max_bytes
        self._written_bytes = 0
        self._has_written_much = asyncio.Event()

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Purge old conversations in the background."""
        upkeep = forever(self._upkeep, UPKEEP_SECONDS, "responses not purged", self._has_written_much)
        async with in_background(upkeep):
            yield

    def stores(self, body: bytes, wanted: bool | None) -> bool:
        """Whether the response to a request is stored.

        Args:
            wanted: the field `store`; None if it is absent.
        """
        return wanted is not False and bool(self._retention) and len(body) <= MAX_INPUT_BYTES

    async def write(self, id: str, key: str, earlier: EarlierTurns, items: Sequence[Raw], response: bytes) -> None:
        """Store a response. If that fails, a line of the log says so, and the caller cannot continue it.

        Args:
            key: name of the caller's key.
            earlier: the conversation before the request.
            items: the items of the request.
            response: the response, as JSON.
        """
        row = Row(
            id=id,
            thread=earlier.thread or id,
            previous=earlier.previous,
            key=key,
            created_on=datetime.now(UTC),
            input=msgspec.json.encode(items),
            response=response,
        )
        try:
            async with asyncio.timeout(WRITE_SECONDS), self._database.session() as session:
                session.add(row)
            self._written_bytes += len(row.input) + len(response)
            if self._written_bytes > EARLY_PURGE_BYTES:
                self._has_written_much.set()
        except (DatabaseUnavailable, TimeoutError) as error:
            _log.warning("response not stored", error=type(error).__name__)

    async def earlier(self, id: str, key: str) -> EarlierTurns:
        """The conversation up to a response.

        Raises:
            InvalidRequest: the response is not stored, or an earlier one was deleted, or the conversation is too large.
        """
        try:
            turns, thread = await self._conversation(id, key)
        except ResponseNotFound as error:
            raise InvalidRequest.at("$.previous_response_id", error.detail) from None
        items: list[Raw] = []
        for turn in turns:
            items += [*turn.input, *_output(turn.response).output]
        return EarlierTurns(id, thread, items)

    async def read(self, id: str, key: str) -> bytes:
        """A response, as JSON.

        Raises:
            ResponseNotFound: it is not stored.
        """
        async with self._database.reading() as session:
            size = await session.scalar(sa.select(sa.func.length(Row.response)).where(*_own(id, key)))
        if size is not None and size > FREE_BYTES:
            await reserve(size)
        async with self._database.reading() as session:
            response = await session.scalar(sa.select(Row.response).where(*_own(id, key)))
        if response is None:
            raise ResponseNotFound(NOT_FOUND)
        return response

    async def input_items(self, id: str, key: str) -> list[dict[str, Any]]:
        """The items of a request, and of the conversation before it, the oldest one first, each with an id.

        Raises:
            InvalidRequest: the conversation is too large.
            ResponseNotFound: the response is not stored, or an earlier one was deleted.
        """
        turns, _ = await self._conversation(id, key)
        found: list[dict[str, Any]] = []
        for turn in turns:
            found += [_item(raw, f"{turn.id.removeprefix('resp_')}_{at}") for at, raw in enumerate(turn.input)]
            if turn.id != id:
                found += [_item(raw, "") for raw in _output(turn.response).output]
        return found

    async def delete(self, id: str, key: str) -> None:
        """Delete a response. Later responses of its conversation cannot be continued.

        Raises:
            ResponseNotFound: it is not stored.
        """
        async with self._database.session() as session:
            await self._database.overwrite_deleted(session)
            deleted = await session.scalar(sa.delete(Row).where(*_own(id, key)).returning(Row.id))
        if deleted is None:
            raise ResponseNotFound(NOT_FOUND)
        await self._database.checkpoint()

    async def purge(self) -> int:
        """Remove conversations whose last response is older than the retention, and those beyond the maximum of a key.

        Returns:
            The number of responses removed.
        """
        oldest = datetime.now(UTC) - self._retention
        later = aliased(Row)
        is_live = sa.exists().where(later.thread == Row.thread, later.created_on >= oldest)
        expired = sa.select(Row.id).where(Row.created_on < oldest, ~is_live)
        purged = await self._remove(expired)
        for key, thread in await self._beyond_maximum():
            purged += await self._remove(sa.select(Row.id).where(Row.key == key, Row.thread == thread))
        if purged:
            await self._database.checkpoint()
        return purged

    async def _beyond_maximum(self) -> list[tuple[str, str]]:
        """The keys and the conversations that exceed the maximum size of their key; the last ones are kept."""
        size = sa.func.sum(_SIZE)
        last = sa.func.max(Row.created_on).desc()
        found: list[tuple[str, str]] = []
        async with self._database.reading() as session:
            keys = sa.select(Row.key).group_by(Row.key).having(size > MAX_KEY_BYTES)
            for key in (await session.scalars(keys)).all():
                total = 0
                threads = sa.select(Row.thread, size).where(Row.key == key).group_by(Row.thread).order_by(last)
                for thread, own in await session.execute(threads):
                    total += own
                    if total > MAX_KEY_BYTES:
                        found.append((key, thread))
        return found

    async def _remove(self, chosen: sa.Select[str]) -> int:
        """Remove the responses whose ids a query selects; their number."""
        return await purge(
            self._database, chosen, lambda rows: [sa.delete(Row).where(Row.id.in_([id for (id,) in rows]))]
        )

    async def _conversation(self, id: str, key: str) -> tuple[list[StoredTurn], str]:
        """The responses up to one, the oldest one first, and the id of the first one."""
        async with self._database.reading() as session:
            ids, size = await _ids(session, id, key)
        if len(ids) > MAX_TURNS:
            raise InvalidRequest.at("$.previous_response_id", f"There are more than {MAX_TURNS} responses before it")
        if size > self._max_bytes:
            raise InvalidRequest.at("$.previous_response_id", f"The conversation exceeds {self._max_bytes} bytes")
        if size > FREE_BYTES:
            await reserve(_COPIES * size)
        async with self._database.reading() as session:
            rows = {row.id: row for row in await session.scalars(sa.select(Row).where(Row.id.in_(ids)))}
        if len(rows) < len(ids):
            raise ResponseNotFound(NOT_FOUND)
        turns = [StoredTurn(each, _items(rows[each].input), rows[each].response) for each in reversed(ids)]
        return turns, rows[id].thread

    async def _upkeep(self) -> None:
        self._written_bytes = 0
        if purged := await self.purge():
            _log.info("responses purged", count=purged)


def _own(id: str | sa.ColumnElement[str], key: str) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    return Row.id == id, Row.key == key


async def _ids(session: AsyncSession, id: str, key: str) -> tuple[list[str], int]:
    """The ids of a conversation, the newest one first, and the size of its responses.

    Raises:
        ResponseNotFound: a response is not stored.
    """
    turns = (
        sa.select(Row.id, Row.previous, _SIZE.label("size"), sa.literal(0).label("depth"))
        .where(*_own(id, key))
        .cte("turns", recursive=True)
    )
    turns = turns.union_all(
        sa.select(Row.id, Row.previous, _SIZE, turns.c.depth + 1).where(
            *_own(turns.c.previous, key), turns.c.depth < MAX_TURNS
        )
    )
    found = (await session.execute(sa.select(turns).order_by(turns.c.depth))).all()
    if not found or (found[-1].previous and len(found) <= MAX_TURNS):
        raise ResponseNotFound(NOT_FOUND)
    return [row.id for row in found], sum(row.size for row in found)


def _item(raw: Raw, id: str) -> dict[str, Any]:
    """An item as OpenAI's API lists it: with a type, an id, and a list as its content."""
    item: dict[str, Any] = msgspec.json.decode(raw)
    kind = item.setdefault("type", "message")
    item.setdefault("id", f"{'msg' if kind == 'message' else 'item'}_{id}")
    if isinstance(content := item.get("content"), str):
        item["content"] = [
            {"type": "output_text" if item.get("role") == "assistant" else "input_text", "text": content}
        ]
    return item
