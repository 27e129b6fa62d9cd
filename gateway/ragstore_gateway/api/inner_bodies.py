"""Bodies for applications within this process."""

from __future__ import annotations

import asyncio

from litestar.types import Receive, ReceiveMessage


def receiving(body: bytes) -> Receive:
    """An ASGI callable for an application within this process. It receives a body, and then nothing more.

    The caller of the whole request is watched where the request was received.
    """
    messages: list[ReceiveMessage] = [{"type": "http.request", "body": body, "more_body": False}]
    never: asyncio.Future[ReceiveMessage] = asyncio.get_running_loop().create_future()

    async def receive() -> ReceiveMessage:
        return messages.pop() if messages else await asyncio.shield(never)

    return receive
