"""Abusive clients, over plain sockets: they disconnect, are slow, send too much or do not read."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from tests.soak.load import COLLECTIONS, FAILED, LARGE, Responses

BUDGET_SECONDS: Final = 3.0
"""The service's budget of a request."""

MAX_BODY: Final = 400_000
"""The service's maximum body."""

PAUSE_SECONDS: Final = 0.2

TIMEOUT_SECONDS: Final = 30.0

RESET: Final = struct.pack("ii", 1, 0)


def head(method: str, path: str, framing: str = "") -> bytes:
    """The head of a request."""
    kind = "Content-Type: application/json\r\n" if framing else ""
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{kind}{framing}\r\n".encode()


WRITE: Final = f"/collections/{COLLECTIONS[0]}/documents"
PAGE: Final = f"/collections/{LARGE}/documents?limit=40"


class AbusiveClient:
    """A client that misbehaves in one way after another.

    Args:
        port: the service's port.
        responses: records the statuses and errors.
    """

    def __init__(self, port: int, responses: Responses) -> None:
        self._port = port
        self._responses = responses

    async def work(self, stopped: asyncio.Event) -> None:
        """Misbehave until `stopped` is set."""
        abuses: tuple[Callable[[], Awaitable[None]], ...] = (
            self._disconnect_during_body,
            self._send_too_much,
            self._send_too_much_in_chunks,
            self._disconnect_during_response,
            self._trickle,
            self._send_invalid_http,
            self._read_slowly,
            self._read_nothing,
            self._send_nothing,
        )
        while not stopped.is_set():
            for abuse in abuses:
                if stopped.is_set():
                    return
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    await abuse()
                await asyncio.sleep(PAUSE_SECONDS)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", self._port))
        return await asyncio.open_connection(sock=connection, limit=65536)

    async def _disconnect(self, writer: asyncio.StreamWriter) -> None:
        """Reset the connection, as a client that crashed."""
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        writer.transport.abort()

    async def _expect(self, reader: asyncio.StreamReader, status: int, what: str) -> None:
        """Read the status line of a response."""
        line = await reader.readline()
        got = int(line.split()[1]) if line else 0
        self._responses.statuses[got] += 1
        self._responses.expect(got == status or got in FAILED, f"{what}: {got}")

    async def _disconnect_during_body(self) -> None:
        _, writer = await self._connect()
        writer.write(head("PUT", WRITE, "Content-Length: 5000\r\n") + b'{"documents": [')
        await writer.drain()
        await self._disconnect(writer)

    async def _send_too_much(self) -> None:
        reader, writer = await self._connect()
        writer.write(head("PUT", WRITE, f"Content-Length: {MAX_BODY + 1}\r\n") + b" " * 1000)
        await self._expect(reader, 413, "a body too large")
        await self._disconnect(writer)

    async def _send_too_much_in_chunks(self) -> None:
        reader, writer = await self._connect()
        writer.write(head("PUT", WRITE, "Transfer-Encoding: chunked\r\n"))
        writer.write((b"4000\r\n" + b" " * 0x4000 + b"\r\n") * (MAX_BODY // 0x4000 + 1))
        await self._expect(reader, 413, "chunks too many")
        await self._disconnect(writer)

    async def _disconnect_during_response(self) -> None:
        reader, writer = await self._connect()
        writer.write(head("GET", PAGE))
        await self._expect(reader, 200, "a large page")
        await reader.read(10_000)
        await self._disconnect(writer)

    async def _trickle(self) -> None:
        reader, writer = await self._connect()
        writer.write(head("PUT", WRITE, "Content-Length: 5000\r\n"))
        response = asyncio.create_task(self._expect(reader, 408, "a body that trickles in"))
        with suppress(OSError):
            while not response.done():
                writer.write(b" ")
                await writer.drain()
                await asyncio.wait([response], timeout=0.2)
        await response
        writer.close()

    async def _send_invalid_http(self) -> None:
        reader, writer = await self._connect()
        writer.write(b"\x16\x03\x01 no http\r\n\r\n")
        await self._expect(reader, 400, "invalid HTTP")
        writer.close()

    async def _read_slowly(self) -> None:
        reader, writer = await self._connect()
        writer.write(head("GET", PAGE, "Connection: close\r\n"))
        line = await reader.readline()
        length, received = 0, 0
        while line.strip():
            line = await reader.readline()
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        slow_until = asyncio.get_running_loop().time() + BUDGET_SECONDS * 2
        while chunk := await reader.read(65536):
            received += len(chunk)
            if asyncio.get_running_loop().time() < slow_until:
                await asyncio.sleep(0.2)
        self._responses.expect(received == length, f"reading slowly: {received} of {length} bytes")
        writer.close()

    async def _read_nothing(self) -> None:
        _, writer = await self._connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a stream's transport can read, too
        writer.write(head("GET", PAGE))
        await asyncio.sleep(BUDGET_SECONDS * 2)
        await self._disconnect(writer)

    async def _send_nothing(self) -> None:
        reader, writer = await self._connect()
        await reader.read()  # until the service closes
        writer.close()
