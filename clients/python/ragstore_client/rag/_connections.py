"""HTTP connections of asynchronous code, and an event loop for synchronous callers.

Retrievers, providers and embedders are made for each invocation of an agent and simply dropped after it. So they own
nothing that has to be closed: they use the httpx client that they are given, or the pool of the event loop, which
closes with the loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Coroutine
from typing import TypeVar

import httpx

from ragstore_client._httpx import ssl_context
from ragstore_client._retries import RetryPolicy

T = TypeVar("T")

_LIMITS = httpx.Limits(max_connections=64, max_keepalive_connections=16, keepalive_expiry=30.0)

_pools: dict[asyncio.AbstractEventLoop, tuple[httpx.AsyncClient, AsyncGenerator[None, None]]] = {}


def search_retries(timeout: float) -> RetryPolicy:
    """The retry policy of calls that a user waits for: one quick retry within the time limit.

    It is the only retry of such a call: the transport owns it, and no caller of the transport repeats a call.

    Args:
        timeout: time limit of the call, in seconds, retry included.

    Returns:
        The policy.
    """
    return RetryPolicy(attempts=2, base=0.1, budget=timeout)


async def connections(http: httpx.AsyncClient | None) -> httpx.AsyncClient:
    """The httpx client to use.

    Args:
        http: the client that the caller was given, if any.

    Returns:
        That client, or the pool of the running event loop. The caller must not close it. The pool has no timeout of
        its own.
    """
    if http is not None:
        return http
    loop = asyncio.get_running_loop()
    if loop in _pools and not _pools[loop][0].is_closed:
        return _pools[loop][0]
    for old in [known for known in _pools if known.is_closed()]:
        del _pools[old]
    pool = httpx.AsyncClient(timeout=None, limits=_LIMITS, verify=ssl_context())  # noqa: S113  # set for each request
    lifetime = _until_shutdown(loop, pool)
    _pools[loop] = (pool, lifetime)
    await anext(lifetime)
    return pool


async def _until_shutdown(loop: asyncio.AbstractEventLoop, pool: httpx.AsyncClient) -> AsyncGenerator[None, None]:
    # Before it ends, a loop closes the asynchronous generators that were started in it (shutdown_asyncgens). At no
    # other moment can the connections be closed properly without an explicit call.
    try:
        yield
    finally:
        _pools.pop(loop, None)
        await pool.aclose()


class LoopThread:
    """An event loop in a thread, which runs coroutines for synchronous callers.

    The thread starts with the first call. It ends when the object is garbage collected, or with the process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0

    def run(self, coroutine: Coroutine[object, object, T]) -> T:
        """Run a coroutine and wait for its result.

        Args:
            coroutine: the coroutine; it sees the caller's context variables.

        Returns:
            Its result.
        """
        future = asyncio.run_coroutine_threadsafe(coroutine, self._running_loop())
        try:
            return future.result()
        except BaseException:
            # An interrupted caller no longer waits for the result, so the coroutine must end as well.
            future.cancel()
            raise

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            # Threads do not survive a fork: the child process needs a loop of its own.
            if self._loop is None or self._process != os.getpid():
                self._loop = asyncio.new_event_loop()
                self._process = os.getpid()
                thread = threading.Thread(target=_serve, args=(self._loop,), name="ragstore-retriever", daemon=True)
                thread.start()
                weakref.finalize(self, _stop, self._loop, thread, self._process)
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, process: int) -> None:
    if process == os.getpid() and thread.is_alive():
        loop.call_soon_threadsafe(loop.stop)
        if threading.current_thread() is not thread:
            thread.join(timeout=1.0)
