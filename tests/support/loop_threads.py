"""Servers in a thread with an event loop of its own, for fixtures that are not asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def in_thread(server: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[T]:
    """Run a server in a thread.

    Args:
        server: starts the server, and stops it at the end of its block.
    """
    started: SimpleQueue[T | BaseException] = SimpleQueue()
    loop = asyncio.new_event_loop()
    stopping = asyncio.Event()

    async def serve() -> None:
        try:
            async with server() as running:
                started.put(running)
                await stopping.wait()
        except BaseException as error:
            started.put(error)
            raise

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    running = started.get()
    if isinstance(running, BaseException):
        raise running
    try:
        yield running
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join()
        loop.close()
