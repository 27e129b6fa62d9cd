"""A TCP proxy that does to a connection what networks do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

Fault: TypeAlias = Literal["none", "delay", "cut", "half-close", "truncate", "garble", "silence"]

DELAY_SECONDS: Final = 0.05


@dataclass
class Proxy:
    """Passes bytes between callers and a server, and now and then does not.

    Attributes:
        target: port of the server.
        port: the proxy's own.
        fault: what happens now: `delay` holds chunks back, `cut` closes both sides at once, `half-close` ends one
            direction only, `truncate` passes half a chunk and closes, `garble` puts bytes in that no text holds,
            `silence` passes nothing on and keeps the connection.
        every: one chunk in so many meets the fault, so that some requests get through in between.
        met: how often it happened.
    """

    target: int
    port: int = 0
    fault: Fault = "none"
    every: int = 4
    met: int = 0
    _chunks: int = 0
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _talks: set[asyncio.Task[None]] = field(default_factory=set)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        talk = asyncio.current_task()
        assert talk is not None
        self._talks.add(talk)
        talk.add_done_callback(self._talks.discard)
        try:
            their_reader, their_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, their_writer}
        await asyncio.gather(self._pass(reader, their_writer, writer), self._pass(their_reader, writer, their_writer))
        for each in (writer, their_writer):
            self._writers.discard(each)
            each.close()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, back: asyncio.StreamWriter
    ) -> None:
        """One direction, until it ends or a fault ends it."""
        try:
            while chunk := await reader.read(65536):
                self._chunks += 1
                hit = self.fault != "none" and (self.fault == "silence" or self._chunks % self.every == 0)
                self.met += hit
                if hit and self.fault in ("cut", "half-close", "truncate"):
                    if self.fault == "truncate":
                        writer.write(chunk[: len(chunk) // 2])
                    if self.fault == "half-close":
                        writer.write_eof()
                        return
                    back.close()
                    break
                if hit and self.fault == "silence":
                    continue
                if hit and self.fault == "delay":
                    await asyncio.sleep(DELAY_SECONDS)
                if hit and self.fault == "garble":
                    middle = len(chunk) // 2
                    chunk = chunk[:middle] + b"\xff" * min(8, len(chunk) - middle) + chunk[middle + 8 :]
                writer.write(chunk)
                await writer.drain()
            writer.close()
        except (OSError, RuntimeError):
            writer.close()

    def close(self) -> None:
        """Cut every connection."""
        for writer in self._writers:
            writer.close()

    async def end(self) -> None:
        """Cut every connection, and wait until that is done."""
        self.close()
        await asyncio.gather(*self._talks, return_exceptions=True)


@asynccontextmanager
async def proxied(target: int) -> AsyncIterator[Proxy]:
    """A proxy before a port, for a while."""
    proxy = Proxy(target)
    server = await asyncio.start_server(proxy.talk, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.end()
