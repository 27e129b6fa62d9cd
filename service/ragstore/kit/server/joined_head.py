"""Joins the head of a response with its body.

uvicorn writes the two one after the other, and uvloop sends each write immediately. As one write, they cost one system
call, one packet, and one wake-up of the caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from litestar.types import Message, Scope
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


def precedes_body(message: Message, scope: Scope) -> bool:
    """Whether a message is a head that may be sent with the body, which follows immediately.

    The head of a stream announces no length, and is sent by itself: its body may take long to begin.

    Args:
        message: a message of the response.
        scope: the request.
    """
    if message["type"] != "http.response.start" or scope.get("method") == "HEAD":
        return False
    return any(name == b"content-length" for name, _ in message["headers"])


@contextmanager
def joined_writes(cycle: RequestResponseCycle, scope: Scope, flow: FlowControl) -> Iterator[None]:
    """Join the first two writes of a response, its head and its body.

    Nothing is joined while writing is paused, since the application then waits between the two, nor if a later request
    of the connection was parsed.

    Args:
        cycle: the latest request of the connection, and its response.
        scope: the request that is responded to.
        flow: the flow control of the connection.
    """
    current: object = cycle.scope
    if current is not scope or flow.write_paused:
        yield
        return
    transport = cycle.transport
    cycle.transport = _HeadFirst(transport)
    try:
        yield
    finally:
        cycle.transport = transport


class _HeadFirst(asyncio.Transport):
    """A transport that keeps the first write and sends it with the second one.

    Args:
        transport: the connection's transport.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._head: bytes | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep the head, or send it with the body."""
        if self._head is None:
            self._head = bytes(data)
        else:
            self._transport.writelines([self._head, data])

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether the connection is closing."""
        return self._transport.is_closing()
