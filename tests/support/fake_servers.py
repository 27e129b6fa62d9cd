"""HTTP servers whose behaviour a test determines: in place of Chroma, or a proxy in front of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

Talk: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Handles one connection."""


@asynccontextmanager
async def listening(talk: Talk) -> AsyncIterator[str]:
    """A server that handles each connection with `talk`; yields its address."""
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
    """Read one HTTP request or response: its head and its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    lengths = [line.partition(":")[2] for line in head.splitlines() if line.lower().startswith("content-length:")]
    return head, await reader.readexactly(int(lengths[0]) if lengths else 0)


def answering(status: str, content: bytes) -> Talk:
    """A server that gives every request the same response."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_message(reader)
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)
            await writer.drain()

    return talk


def unchanged(head: str, response: str, content: bytes) -> tuple[str, bytes]:
    """A response as it is."""
    return response, content


def with_content(response: str, content: bytes, other: bytes) -> tuple[str, bytes]:
    """A response with another body and the matching content length."""
    return response.replace(f"content-length: {len(content)}", f"content-length: {len(other)}"), other


def between(
    url: str,
    seen: list[tuple[str, bytes]],
    *,
    requests_a_connection: int | None = None,
    change: Callable[[str, str, bytes], tuple[str, bytes] | None] = unchanged,
    is_held: Callable[[str], bool] = lambda head: False,
) -> Talk:
    """A proxy in front of Chroma that records requests.

    Args:
        url: Chroma's address.
        seen: gets the head and the body of each request.
        requests_a_connection: number of requests after which a connection is closed; None for no limit.
        change: makes the response to pass on, of a request's head and the head and body of Chroma's response; None
            closes the connection instead.
        is_held: whether a request, whose head it is given, gets no response.

    Returns:
        The handler of a connection.
    """

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        upstream, downstream = await asyncio.open_connection(host, int(port))
        served = 0
        try:
            while requests_a_connection is None or served < requests_a_connection:
                head, body = await read_message(reader)
                seen.append((head, body))
                if is_held(head):
                    await asyncio.Event().wait()
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
