"""Streamed responses have no overall limit as long as they make progress, whatever the budget of a request."""

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
from ragstore.kit.metrics import rejections, request_metrics
from ragstore.kit.middleware.limits import LAST_RESORT_SECONDS, LimitsMiddleware
from ragstore.kit.server.http_protocol import protocol
from tests.support.ledger import TIMEOUT_SECONDS, wait_until

BUDGET: Final = 0.5
CHUNKS: Final = 12
LARGE: Final = b"x" * 1_000_000


@get("/steady")
async def steady() -> Stream:
    """A chunk every half budget, for several budgets and the last resort."""

    async def chunks() -> AsyncIterator[bytes]:
        for number in range(CHUNKS):
            await asyncio.sleep(BUDGET / 2)
            yield b"%d\n" % number

    return Stream(chunks())


@get("/stuck")
async def stuck() -> Stream:
    """One chunk, and never another."""

    async def chunks() -> AsyncIterator[bytes]:
        yield b"0\n"
        await asyncio.sleep(TIMEOUT_SECONDS)

    return Stream(chunks())


class Endless:
    """An response without end, that counts its streams in flight."""

    def __init__(self) -> None:
        self.running = 0

    async def chunks(self) -> AsyncIterator[bytes]:
        """The chunks of the response."""
        self.running += 1
        try:
            while True:
                await asyncio.sleep(0)
                yield LARGE
        finally:
            self.running -= 1


@asynccontextmanager
async def served(*, endless: Endless | None = None) -> AsyncIterator[str]:
    """Serve the routes above with the service's limits, over a real socket."""

    @get("/endless")
    async def endlessly() -> Stream:
        assert endless is not None
        return Stream(endless.chunks())

    app = LimitsMiddleware(
        Litestar([steady, stuck, endlessly], openapi_config=None, logging_config=None),
        max_requests=8,
        timeout_seconds=BUDGET,
        stopping=threading.Event(),
        timeout_error=Overloaded("The request took too long"),
        rejections=rejections("streams"),
    )
    config = uvicorn.Config(
        app,
        port=0,
        http=protocol(BUDGET, request_metrics("streams")),
        log_config=None,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    await wait_until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await running


async def test_a_streamed_response_that_makes_progress_may_exceed_the_budget() -> None:
    assert BUDGET / 2 * CHUNKS > BUDGET + LAST_RESORT_SECONDS
    async with served() as url, httpx.AsyncClient(timeout=TIMEOUT_SECONDS) as client:
        response = await client.get(f"{url}/steady")
    assert response.text.split() == [str(number) for number in range(CHUNKS)]


async def test_a_streamed_response_without_progress_is_cut() -> None:
    async with served() as url, httpx.AsyncClient(timeout=TIMEOUT_SECONDS) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(f"{url}/stuck")


async def test_a_streamed_response_that_is_not_read_is_cut() -> None:
    endless = Endless()
    async with served(endless=endless) as url:
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]), limit=1000)
        writer.write(b"GET /endless HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await wait_until(lambda: endless.running == 1)
        await wait_until(lambda: endless.running == 0)
        writer.close()
