"""Servers that speak HTTP as a test tells them to: in place of Chroma, or between it and the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

Talk: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""What is spoken on one connection."""


@asynccontextmanager
async def listening(talk: Talk) -> AsyncIterator[str]:
    """A server that speaks as told on each connection; its address."""
    talking: set[asyncio.Task[None]] = set()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talking.add(task)
        try:
            await talk(reader, writer)
        except (asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            talking.discard(task)

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in talking:
            task.cancel()


async def read_message(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    """One HTTP request or answer: its head and its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    lengths = [line.partition(":")[2] for line in head.splitlines() if line.lower().startswith("content-length:")]
    return head, await reader.readexactly(int(lengths[0]) if lengths else 0)


def answering(status: str, content: bytes) -> Talk:
    """A server that answers everything alike."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_message(reader)
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)
            await writer.drain()

    return talk


def as_it_is(head: str, answer: str, content: bytes) -> tuple[str, bytes]:
    """An answer, passed on."""
    return answer, content


def with_content(answer: str, content: bytes, other: bytes) -> tuple[str, bytes]:
    """An answer with another body, whose length its head tells."""
    return answer.replace(f"content-length: {len(content)}", f"content-length: {len(other)}"), other


def between(
    url: str,
    seen: list[tuple[str, bytes]],
    *,
    requests_a_connection: int | None = None,
    change: Callable[[str, str, bytes], tuple[str, bytes] | None] = as_it_is,
) -> Talk:
    """A proxy before Chroma that keeps what it saw.

    Args:
        url: Chroma's address.
        seen: gets the head and the body of each request.
        requests_a_connection: after how many requests a connection is closed; None for never.
        change: makes what is passed on of a request's head, and the head and body of its answer; None to close the
            connection instead.

    Returns:
        What a server speaks.
    """

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        upstream, downstream = await asyncio.open_connection(host, int(port))
        served = 0
        try:
            while requests_a_connection is None or served < requests_a_connection:
                head, body = await read_message(reader)
                seen.append((head, body))
                downstream.write(head.encode("latin-1") + body)
                changed = change(head, *await read_message(upstream))
                if changed is None:
                    return
                writer.write(changed[0].encode("latin-1") + changed[1])
                await writer.drain()
                served += 1
        finally:
            downstream.close()

    return talk
