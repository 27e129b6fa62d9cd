"""Connections that outlive a retriever, and a way into asyncio for synchronous callers.

A tool is made for each invocation of an agent and simply dropped after it. So nothing that has to be closed may hang
on it: each event loop has one pool of connections, which closes with the loop.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncGenerator, Coroutine
from typing import TypeVar

import httpx

from ragstore_client._httpx import ssl_context

T = TypeVar("T")

_LIMITS = httpx.Limits(max_connections=64, max_keepalive_connections=16, keepalive_expiry=30.0)

_pools: dict[asyncio.AbstractEventLoop, tuple[httpx.AsyncClient, AsyncGenerator[None, None]]] = {}


async def shared_http() -> httpx.AsyncClient:
    """The pool of the running event loop.

    Returns:
        A client that nobody may close. It carries no timeout of its own.
    """
    loop = asyncio.get_running_loop()
    if loop in _pools and not _pools[loop][0].is_closed:
        return _pools[loop][0]
    for old in [known for known in _pools if known.is_closed()]:
        del _pools[old]
    client = httpx.AsyncClient(timeout=None, limits=_LIMITS, verify=ssl_context())  # noqa: S113  # each request brings its own
    lifetime = _until_shutdown(loop, client)
    _pools[loop] = (client, lifetime)
    await anext(lifetime)
    return client


async def _until_shutdown(loop: asyncio.AbstractEventLoop, client: httpx.AsyncClient) -> AsyncGenerator[None, None]:
    # A loop closes the asynchronous generators that began in it before it ends (shutdown_asyncgens). That is the one
    # moment at which the connections can be closed properly without anybody having to remember it.
    try:
        yield
    finally:
        _pools.pop(loop, None)
        await client.aclose()


class LoopThread:
    """An event loop in a thread of its own, in which synchronous callers have coroutines run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0

    def run(self, coroutine: Coroutine[object, object, T]) -> T:
        """Run a coroutine and wait for it.

        Args:
            coroutine: what to run; it sees the caller's context variables.

        Returns:
            What it returns.
        """
        future = asyncio.run_coroutine_threadsafe(coroutine, self._running())
        try:
            return future.result()
        except BaseException:
            # An interrupted caller waits no longer, so the work must end too.
            future.cancel()
            raise

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            # Threads do not survive a fork: the child needs a loop of its own.
            if self._loop is None or self._process != os.getpid():
                self._loop = asyncio.new_event_loop()
                self._process = os.getpid()
                thread = threading.Thread(target=_serve, args=(self._loop,), name="ragstore-retriever", daemon=True)
                thread.start()
                atexit.register(_stop, self._loop, thread, self._process)
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, process: int) -> None:
    if process == os.getpid() and thread.is_alive():
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=1.0)


loop_thread = LoopThread()
