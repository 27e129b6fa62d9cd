"""Answers that come in parts: they may last as long as they get on, whatever the budget of a request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpx
import pytest
import uvicorn
from litestar import Litestar, get
from litestar.response import Stream

from ragstore.kit.errors import Overloaded
from ragstore.kit.middleware.limits import LAST_RESORT_SECONDS, LimitsMiddleware
from ragstore.kit.server.http_protocol import protocol
from tests.support.ledger import TIMEOUT_SECONDS, wait_until

BUDGET: Final = 0.5
PARTS: Final = 12
LARGE: Final = b"x" * 1_000_000


@get("/steady")
async def steady() -> Stream:
    """A part every half budget, for several budgets and the last resort."""

    async def parts() -> AsyncIterator[bytes]:
        for number in range(PARTS):
            await asyncio.sleep(BUDGET / 2)
            yield b"%d\n" % number

    return Stream(parts())


@get("/stuck")
async def stuck() -> Stream:
    """One part, and never another."""

    async def parts() -> AsyncIterator[bytes]:
        yield b"0\n"
        await asyncio.sleep(TIMEOUT_SECONDS)

    return Stream(parts())


class Endless:
    """An answer without end, that knows how many are under way."""

    def __init__(self) -> None:
        self.running = 0

    async def parts(self) -> AsyncIterator[bytes]:
        """The answer."""
        self.running += 1
        try:
            while True:
                await asyncio.sleep(0)
                yield LARGE
        finally:
            self.running -= 1


@asynccontextmanager
async def served(*, endless: Endless | None = None) -> AsyncIterator[str]:
    """The routes above within the service's limits, over a real socket."""

    @get("/endless")
    async def endlessly() -> Stream:
        assert endless is not None
        return Stream(endless.parts())

    app = LimitsMiddleware(
        Litestar([steady, stuck, endlessly], openapi_config=None, logging_config=None),
        8,
        BUDGET,
        threading.Event(),
        Overloaded("The request took too long"),
    )
    config = uvicorn.Config(
        app, port=0, http=protocol(BUDGET), log_config=None, lifespan="off", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    await wait_until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await running


async def test_an_answer_that_gets_on_may_last_longer_than_the_budget() -> None:
    assert BUDGET / 2 * PARTS > BUDGET + LAST_RESORT_SECONDS
    async with served() as url, httpx.AsyncClient(timeout=TIMEOUT_SECONDS) as client:
        answer = await client.get(f"{url}/steady")
    assert answer.text.split() == [str(number) for number in range(PARTS)]


async def test_an_answer_that_does_not_get_on_is_ended() -> None:
    async with served() as url, httpx.AsyncClient(timeout=TIMEOUT_SECONDS) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(f"{url}/stuck")


async def test_an_answer_in_parts_that_nobody_reads_is_ended() -> None:
    endless = Endless()
    async with served(endless=endless) as url:
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]), limit=1000)
        writer.write(b"GET /endless HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await wait_until(lambda: endless.running == 1)
        await wait_until(lambda: endless.running == 0)
        writer.close()
