"""Bursts of raw requests whose responses are read, read slowly, or not read at all."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

Reading: TypeAlias = Literal["read", "slow", "unread"]

CHUNK_BYTES: Final = 256 * 1024
SLOW_BYTES: Final = 4 * 1024
SLOW_SECONDS: Final = 0.1
RECEIVE_BUFFER_BYTES: Final = 16 * 1024
"""Size of the receive buffer of a caller that does not read normally: the rest waits in the gateway."""


@dataclass(frozen=True)
class RawRequest:
    """A request.

    Attributes:
        target: its path and query.
        content_type: media type of the body.
    """

    method: str
    target: str
    body: bytes = b""
    content_type: str = "application/json"

    def head(self, key: str) -> bytes:
        """Its head, with a key."""
        lines = [
            f"{self.method} {self.target} HTTP/1.1",
            "Host: gateway",
            "Connection: close",
            f"X-API-Key: {key}",
            f"Content-Type: {self.content_type}",
            f"Content-Length: {len(self.body)}",
        ]
        return "\r\n".join([*lines, "", ""]).encode()


async def burst(url: str, key: str, requests: Sequence[RawRequest], reading: Reading, seconds: float) -> Counter[str]:
    """Send requests concurrently, each over a connection of its own.

    Args:
        url: address of the gateway.
        key: a key of it.
        reading: how the responses are read. Of one that is not read, the status is read.
        seconds: time after which all connections are closed. Connections that do not read are closed when all responses
            have begun.

    Returns:
        How often each status came; `none` for requests without a response in time.
    """
    parts = urlsplit(url)
    statuses: Counter[str] = Counter()
    all_begun = asyncio.Barrier(len(requests))

    async def send(request: RawRequest) -> None:
        status = "none"
        try:
            with socket.socket() as connection:
                connection.setblocking(False)
                if reading != "read":
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
                await asyncio.get_running_loop().sock_connect(connection, (parts.hostname, parts.port))
                sending = asyncio.create_task(_send(connection, request.head(key), request.body))
                try:
                    first = await asyncio.get_running_loop().sock_recv(connection, 12)
                    status = first[9:12].decode() or "none"
                    if reading == "unread":
                        # Until all responses have begun: then all that are not read are in the gateway.
                        await all_begun.wait()
                    else:
                        await _read(connection, reading)
                finally:
                    sending.cancel()
                    await asyncio.wait([sending])
        except OSError:
            pass
        finally:
            statuses[status] += 1

    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for request in requests:
                group.create_task(send(request))
    return statuses


async def _send(connection: socket.socket, head: bytes, body: bytes) -> None:
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        await loop.sock_sendall(connection, head)
        for start in range(0, len(body), CHUNK_BYTES):
            await loop.sock_sendall(connection, memoryview(body)[start : start + CHUNK_BYTES])


async def _read(connection: socket.socket, reading: Reading) -> None:
    loop = asyncio.get_running_loop()
    while await loop.sock_recv(connection, CHUNK_BYTES if reading == "read" else SLOW_BYTES):
        if reading == "slow":
            await asyncio.sleep(SLOW_SECONDS)
