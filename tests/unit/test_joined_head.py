"""The head of a response and its body are one write to the connection, unless the body may take long to begin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from litestar.types import ASGIApp, Receive, Scope, Send
from uvicorn import Config
from uvicorn.server import ServerState

from ragstore.kit.metrics import request_metrics
from ragstore.kit.server.http_protocol import protocol

LENGTH = (b"content-length", b"2")


class SpyTransport:
    """A transport that records what is written to it, and writes it.

    Args:
        transport: the connection's transport.
        writes: receives each write.
    """

    def __init__(self, transport: asyncio.Transport, writes: list[bytes]) -> None:
        self._transport = transport
        self._writes = writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        self._writes.append(bytes(data))
        self._transport.write(data)

    def writelines(self, data: list[bytes]) -> None:
        self._writes.append(b"".join(data))
        self._transport.writelines(data)


@asynccontextmanager
async def serving(app: ASGIApp, writes: list[bytes]) -> AsyncIterator[Callable[[bytes], Any]]:
    """A server of the application on a free port; a function that sends a request and reads all of its response."""
    config = Config(app, http=protocol(30.0, request_metrics("ragstore")), log_config=None, lifespan="off")
    config.load()
    kind = config.http_protocol_class

    class Spied(kind):  # type: ignore[misc, valid-type]  # chosen at run time
        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(SpyTransport(transport, writes))

    loop = asyncio.get_running_loop()
    state = ServerState()
    server = await loop.create_server(
        lambda: Spied(config=config, server_state=state, app_state={}, _loop=loop), "127.0.0.1", 0
    )

    async def exchange(request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(request)
        received = await asyncio.wait_for(reader.read(), 30)
        writer.close()
        return received

    async with server:
        yield exchange


def request(method: str = "GET") -> bytes:
    return f"{method} / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()


def responding(*headers: tuple[bytes, bytes], chunks: tuple[bytes, ...] = (b"ok",)) -> ASGIApp:
    """An application that sends a head and some chunks."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": list(headers)})
        for number, chunk in enumerate(chunks, 1):
            await send({"type": "http.response.body", "body": chunk, "more_body": number < len(chunks)})

    return app


@pytest.mark.parametrize("chunks", [(b"ok",), (b"o", b"k"), (b"", b"ok")], ids=["whole", "chunks", "empty chunk"])
async def test_a_head_with_a_length_is_written_with_the_first_chunk(chunks: tuple[bytes, ...]) -> None:
    writes: list[bytes] = []
    async with serving(responding(LENGTH, chunks=chunks), writes) as exchange:
        received = await exchange(request())
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert received.endswith(b"\r\n\r\nok")
    assert (len(writes), b"".join(writes)) == (len(chunks), received)


async def test_the_head_of_a_stream_is_sent_before_its_body_begins() -> None:
    head_written = asyncio.Event()
    writes: list[bytes] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        assert writes[0].endswith(b"\r\n\r\n")
        head_written.set()
        await send({"type": "http.response.body", "body": b"ok", "more_body": False})

    async with serving(app, writes) as exchange:
        received = await exchange(request())
    assert head_written.is_set()
    assert received.endswith(b"2\r\nok\r\n0\r\n\r\n")


async def test_the_response_to_head_is_its_head() -> None:
    async with serving(responding(LENGTH), []) as exchange:
        received = await exchange(request("HEAD"))
    assert received.endswith(b"\r\n\r\n")
    assert b"content-length: 2" in received


async def test_an_error_between_the_head_and_the_body_is_a_500() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [LENGTH]})
        raise RuntimeError("defect")

    async with serving(app, []) as exchange:
        received = await exchange(request())
    assert received.startswith(b"HTTP/1.1 500 ")
