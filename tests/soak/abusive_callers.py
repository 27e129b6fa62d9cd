"""Callers that vanish, dawdle, send too much and do not read, over plain sockets."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from tests.soak.load import COLLECTIONS, FAILED, LARGE, Told

BUDGET_SECONDS: Final = 3.0
"""The service's budget of a request."""

MAX_BODY: Final = 400_000
"""The service's largest body."""

PAUSE_SECONDS: Final = 0.2

PATIENCE: Final = 30.0

RESET: Final = struct.pack("ii", 1, 0)


def head(method: str, path: str, framing: str = "") -> bytes:
    """The head of a request."""
    kind = "Content-Type: application/json\r\n" if framing else ""
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{kind}{framing}\r\n".encode()


WRITE: Final = f"/collections/{COLLECTIONS[0]}/documents"
PAGE: Final = f"/collections/{LARGE}/documents?limit=40"


class RudeCaller:
    """Does one rude thing after another.

    Args:
        port: the service's.
        told: where it writes down what it was told.
    """

    def __init__(self, port: int, told: Told) -> None:
        self._port = port
        self._told = told

    async def work(self, stopped: asyncio.Event) -> None:
        """Be rude until told to stop."""
        ways: tuple[Callable[[], Awaitable[None]], ...] = (
            self._vanish_amid_body,
            self._send_too_much,
            self._send_too_much_in_chunks,
            self._vanish_amid_answer,
            self._trickle,
            self._send_nonsense,
            self._read_slowly,
            self._read_nothing,
            self._say_nothing,
        )
        while not stopped.is_set():
            for way in ways:
                if stopped.is_set():
                    return
                async with asyncio.timeout(PATIENCE):
                    await way()
                await asyncio.sleep(PAUSE_SECONDS)

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", self._port))
        return await asyncio.open_connection(sock=connection, limit=65536)

    async def _vanish(self, writer: asyncio.StreamWriter) -> None:
        """Leave with a reset, as a machine does that was switched off."""
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        writer.transport.abort()

    async def _expect(self, reader: asyncio.StreamReader, status: int, what: str) -> None:
        """Read the first line of an answer."""
        line = await reader.readline()
        got = int(line.split()[1]) if line else 0
        self._told.statuses[got] += 1
        self._told.expect(got == status or got in FAILED, f"{what}: {got}")

    async def _vanish_amid_body(self) -> None:
        _, writer = await self._connected()
        writer.write(head("PUT", WRITE, "Content-Length: 5000\r\n") + b'{"documents": [')
        await writer.drain()
        await self._vanish(writer)

    async def _send_too_much(self) -> None:
        reader, writer = await self._connected()
        writer.write(head("PUT", WRITE, f"Content-Length: {MAX_BODY + 1}\r\n") + b" " * 1000)
        await self._expect(reader, 413, "a body too large")
        await self._vanish(writer)

    async def _send_too_much_in_chunks(self) -> None:
        reader, writer = await self._connected()
        writer.write(head("PUT", WRITE, "Transfer-Encoding: chunked\r\n"))
        writer.write((b"4000\r\n" + b" " * 0x4000 + b"\r\n") * (MAX_BODY // 0x4000 + 1))
        await self._expect(reader, 413, "chunks too many")
        await self._vanish(writer)

    async def _vanish_amid_answer(self) -> None:
        reader, writer = await self._connected()
        writer.write(head("GET", PAGE))
        await self._expect(reader, 200, "a large page")
        await reader.read(10_000)
        await self._vanish(writer)

    async def _trickle(self) -> None:
        reader, writer = await self._connected()
        writer.write(head("PUT", WRITE, "Content-Length: 5000\r\n"))
        answer = asyncio.create_task(self._expect(reader, 408, "a body that trickles in"))
        with suppress(OSError):
            while not answer.done():
                writer.write(b" ")
                await writer.drain()
                await asyncio.wait([answer], timeout=0.2)
        await answer
        writer.close()

    async def _send_nonsense(self) -> None:
        reader, writer = await self._connected()
        writer.write(b"\x16\x03\x01 no http\r\n\r\n")
        await self._expect(reader, 400, "what is no HTTP")
        writer.close()

    async def _read_slowly(self) -> None:
        reader, writer = await self._connected()
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
        self._told.expect(received == length, f"reading slowly: {received} of {length} bytes")
        writer.close()

    async def _read_nothing(self) -> None:
        _, writer = await self._connected()
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a stream's transport can read, too
        writer.write(head("GET", PAGE))
        await asyncio.sleep(BUDGET_SECONDS * 2)
        await self._vanish(writer)

    async def _say_nothing(self) -> None:
        reader, writer = await self._connected()
        await reader.read()  # until the service closes
        writer.close()
