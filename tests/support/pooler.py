"""A proxy in front of PostgreSQL with the restrictions of PgBouncer's transaction pooling.

- pgbouncer.org/config (`ignore_startup_parameters`): a connection with other parameters than these is rejected.
- pgbouncer.org/features: statements that one transaction prepares, and settings of its session, do not exist in the
  next one. Here such statements are noted: a statement with a name, and `SET` without `LOCAL`.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

ALLOWED = frozenset({"user", "database", "client_encoding", "application_name", "datestyle", "timezone"})
"""Startup parameters that PgBouncer tracks."""

_ENCRYPTION_REQUESTS = (80877103, 80877104)
_CANCEL_REQUEST = 80877102


@dataclass
class Pooler:
    """A running proxy.

    Attributes:
        socket: path of PostgreSQL's socket.
        port: port of the proxy.
        connections: number of connections that were accepted.
        violations: what a pooled connection would not support.
    """

    socket: str
    port: int = 0
    connections: int = 0
    violations: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection."""
        try:
            startup = await self._startup(reader, writer)
            if startup is None:
                return
            server_reader, server_writer = await asyncio.open_unix_connection(self.socket)
            server_writer.write(startup)
            await asyncio.gather(_copy(server_reader, writer), self._requests(reader, server_writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _startup(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes | None:
        """The message that begins a connection; None if it is rejected."""
        while True:
            head = await reader.readexactly(8)
            length, code = struct.unpack("!ii", head)
            message = head + await reader.readexactly(length - 8)
            if code not in _ENCRYPTION_REQUESTS:
                break
            writer.write(b"N")
        if code == _CANCEL_REQUEST:
            return message
        names = {name.decode().lower() for name in message[8:].split(b"\0")[0::2] if name}
        if names <= ALLOWED:
            self.connections += 1
            return message
        self.violations.append(f"startup parameters {sorted(names - ALLOWED)}")
        fields = b"SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter\0\0"
        writer.write(b"E" + struct.pack("!i", len(fields) + 4) + fields)
        return None

    async def _requests(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readexactly(5)
                (length,) = struct.unpack("!i", head[1:])
                body = await reader.readexactly(length - 4)
                if head[:1] == b"P" and not body.startswith(b"\0"):
                    self.violations.append("a prepared statement")
                query = body.lstrip(b"\0").upper()
                if head[:1] in (b"P", b"Q") and query.startswith(b"SET ") and not query.startswith(b"SET LOCAL"):
                    self.violations.append("a setting of the session")
                server.write(head + body)
        finally:
            server.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)


@asynccontextmanager
async def pooler(socket: str) -> AsyncIterator[Pooler]:
    """A proxy on a free port.

    Args:
        socket: path of PostgreSQL's socket.
    """
    running = Pooler(socket)
    server = await asyncio.start_server(running.serve, "127.0.0.1", 0)
    running.port = server.sockets[0].getsockname()[1]
    try:
        yield running
    finally:
        server.close()
