"""Requests of a caller that has left are not begun.

The protocol runs in the test's own process, so that the test can determine what is read, and when.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from litestar.types import HTTPScope, Receive, Send
from uvicorn import Config
from uvicorn.server import ServerState

from ragstore.kit.metrics import request_metrics
from ragstore.kit.server.http_protocol import protocol
from tests.support.ledger import TIMEOUT_SECONDS
from tests.support.raw_http import get


class Application:
    """An application that records the requests that it begins, and completes them when it may.

    Attributes:
        begun: the paths of the requests.
        ended: the types of the messages that came after a request.
        may_respond: set when it may.
    """

    def __init__(self, *, waits_for_disconnect: bool = False) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.may_respond = asyncio.Event()
        self._waits_for_disconnect = waits_for_disconnect

    async def __call__(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        self.begun.append(scope["path"])
        # A route without a body receives nothing, so that nothing is read while pipelined requests wait.
        if self._waits_for_disconnect:
            await receive()
            self.ended.append((await receive())["type"])
        await self.may_respond.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok", "more_body": False})


@asynccontextmanager
async def connected(application: Application) -> AsyncIterator[tuple[socket.socket, ServerState]]:
    """A connection to the application: the caller's end, and the state of the server."""
    metrics = request_metrics("departed")
    config = Config(application, http=protocol(TIMEOUT_SECONDS, metrics), log_config=None, lifespan="off")
    config.load()
    loop = asyncio.get_running_loop()
    listener = socket.create_server(("127.0.0.1", 0))
    caller = socket.create_connection(listener.getsockname())
    accepted, _ = listener.accept()
    state = ServerState()
    await loop.connect_accepted_socket(
        lambda: protocol(TIMEOUT_SECONDS, metrics)(config=config, server_state=state, app_state={}, _loop=loop),
        accepted,
    )
    try:
        yield caller, state
    finally:
        caller.close()
        listener.close()
        application.may_respond.set()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while state.connections or state.tasks:  # noqa: ASYNC110  # uvicorn sets no event
                await asyncio.sleep(0.005)


async def test_a_request_whose_caller_left_before_it_was_read_is_not_begun(caplog: pytest.LogCaptureFixture) -> None:
    application = Application()
    with caplog.at_level(logging.ERROR):
        async with connected(application) as (caller, _):
            caller.sendall(get("/one"))
            caller.close()

    assert application.begun == []
    assert not caplog.records


async def test_pipelined_requests_of_a_caller_that_left_are_not_begun(caplog: pytest.LogCaptureFixture) -> None:
    application = Application()
    with caplog.at_level(logging.ERROR):
        async with connected(application) as (caller, _):
            caller.sendall(b"".join(get(f"/{number}") for number in range(20)))
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not application.begun:  # noqa: ASYNC110  # an application sets no event
                    await asyncio.sleep(0.005)
            caller.close()

    assert application.begun == ["/0"]
    assert not caplog.records


async def test_pipelined_requests_of_a_caller_that_stays_are_all_begun() -> None:
    application = Application()
    application.may_respond.set()
    async with connected(application) as (caller, _):
        caller.sendall(b"".join(get(f"/{number}") for number in range(20)))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while len(application.begun) < 20:  # noqa: ASYNC110  # an application sets no event
                await asyncio.sleep(0.005)

    assert application.begun == [f"/{number}" for number in range(20)]


async def test_a_request_in_progress_sees_the_disconnect_although_a_later_one_was_parsed() -> None:
    application = Application(waits_for_disconnect=True)
    async with connected(application) as (caller, _):
        caller.sendall(get("/first") + get("/second"))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not application.begun:  # noqa: ASYNC110  # an application sets no event
                await asyncio.sleep(0.005)
        caller.close()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not application.ended:  # noqa: ASYNC110  # an application sets no event
                await asyncio.sleep(0.005)

    assert (application.begun, application.ended) == (["/first"], ["http.disconnect"])
