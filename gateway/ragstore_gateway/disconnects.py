"""Ends the work for a caller that has left."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from litestar import Request

T = TypeVar("T")


class CallerLeft(Exception):
    """The caller closed the connection: nobody reads a response."""


async def until_disconnect(request: Request[Any, Any, Any], work: Coroutine[Any, Any, T]) -> T:
    """Do something for a request whose body was read, as long as its caller waits.

    Args:
        request: the request.
        work: the work. It is cancelled when the caller leaves.

    Returns:
        Its result.

    Raises:
        CallerLeft: the caller left.
    """
    task = asyncio.create_task(work)
    watcher = asyncio.create_task(_disconnect(request))
    try:
        await asyncio.wait((task, watcher), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise CallerLeft
        return task.result()
    finally:
        for each in (task, watcher):
            if not each.done():
                each.cancel()
        await asyncio.gather(task, watcher, return_exceptions=True)


async def _disconnect(request: Request[Any, Any, Any]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
