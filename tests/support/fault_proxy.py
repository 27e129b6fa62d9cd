"""A TCP proxy that injects the faults of a network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

Fault: TypeAlias = Literal["none", "delay", "cut", "half-close", "truncate", "garble", "silence"]

DELAY_SECONDS: Final = 0.05


@dataclass
class FaultProxy:
    """Forwards bytes between clients and a server, and injects faults.

    Attributes:
        target: port of the server.
        port: port of the proxy.
        fault: the current fault: `delay` holds chunks back, `cut` closes both sides immediately, `half-close` ends one
            direction only, `truncate` forwards half a chunk and closes, `garble` inserts bytes that are not UTF-8,
            `silence` forwards nothing and keeps the connection open.
        every: the fault applies to each chunk whose number is a multiple of this, so that some requests succeed.
        faults: number of faults so far.
    """

    target: int
    port: int = 0
    fault: Fault = "none"
    every: int = 4
    faults: int = 0
    _chunks: int = 0
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _connections: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection."""
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, server_writer}
        await asyncio.gather(
            self._forward(reader, server_writer, writer), self._forward(server_reader, writer, server_writer)
        )
        for each in (writer, server_writer):
            self._writers.discard(each)
            each.close()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, back: asyncio.StreamWriter
    ) -> None:
        """Forward one direction, until it ends or a fault ends it."""
        try:
            while chunk := await reader.read(65536):
                self._chunks += 1
                is_hit = self.fault != "none" and (self.fault == "silence" or self._chunks % self.every == 0)
                self.faults += is_hit
                if is_hit and self.fault in ("cut", "half-close", "truncate"):
                    if self.fault == "truncate":
                        writer.write(chunk[: len(chunk) // 2])
                    if self.fault == "half-close":
                        writer.write_eof()
                        return
                    back.close()
                    break
                if is_hit and self.fault == "silence":
                    continue
                if is_hit and self.fault == "delay":
                    await asyncio.sleep(DELAY_SECONDS)
                if is_hit and self.fault == "garble":
                    middle = len(chunk) // 2
                    chunk = chunk[:middle] + b"\xff" * min(8, len(chunk) - middle) + chunk[middle + 8 :]
                writer.write(chunk)
                await writer.drain()
            writer.close()
        except (OSError, RuntimeError):
            writer.close()

    def close(self) -> None:
        """Close all connections."""
        for writer in self._writers:
            writer.close()

    async def wait_closed(self) -> None:
        """Close all connections and wait until they are closed."""
        self.close()
        await asyncio.gather(*self._connections, return_exceptions=True)


@asynccontextmanager
async def fault_proxy(target: int) -> AsyncIterator[FaultProxy]:
    """Run a proxy in front of a port while the block runs."""
    proxy = FaultProxy(target)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.wait_closed()
