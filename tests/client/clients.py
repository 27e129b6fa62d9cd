"""Clients for the tests: the asynchronous one without awaiting, so that one test serves both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from threading import Thread
from typing import TypeVar

from ragstore_client import AsyncClient, Client

T = TypeVar("T")

ClientFactory = Callable[..., Client]


class BlockingAsyncClient:
    """`AsyncClient` with methods that block."""

    def __init__(self, url: str, **options: object) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._client = self._run(self._new_client(url, options))
        self._owns_loop = True

    def with_options(self, **options: object) -> BlockingAsyncClient:
        other = object.__new__(BlockingAsyncClient)
        other._loop, other._thread = self._loop, self._thread
        other._client = self._client.with_options(**options)  # type: ignore[arg-type]  # the test's own options
        other._owns_loop = False
        return other

    def __getattr__(self, name: str) -> Callable[..., object]:
        method = getattr(self._client, name)

        def call(*args: object, **named: object) -> object:
            result = method(*args, **named)
            return self._iterate(result) if isinstance(result, AsyncIterator) else self._run(result)

        return call

    def close(self) -> None:
        self._run(self._client.aclose())
        if not self._owns_loop:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _new_client(self, url: str, options: dict[str, object]) -> AsyncClient:
        return AsyncClient(url, **options)  # type: ignore[arg-type]  # the test's own options

    def _run(self, coroutine: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _iterate(self, generator: AsyncIterator[object]) -> Iterator[object]:
        try:
            while True:
                try:
                    yield self._run(_next(generator))
                except StopAsyncIteration:
                    return
        finally:
            self._run(generator.aclose())  # type: ignore[attr-defined]  # iterations and ingestions have it


async def _next(iterator: AsyncIterator[object]) -> object:
    return await anext(iterator)
