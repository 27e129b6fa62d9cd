"""Clients for the tests: the asynchronous one without awaiting, so that one test serves both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from threading import Thread
from typing import Any, TypeVar

from ragstore_client import AsyncClient, Client
from ragstore_client.gateway import AsyncConfigurations, AsyncGatewayClient

T = TypeVar("T")

ClientFactory = Callable[..., Client]


class BlockingAsyncClient:
    """`AsyncClient`, or `AsyncGatewayClient`, with methods that block."""

    def __init__(
        self, url: str, kind: type[AsyncClient] | type[AsyncGatewayClient] = AsyncClient, /, **options: object
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._client: AsyncClient | AsyncGatewayClient | AsyncConfigurations[Any]
        self._client = self._run(self._new_client(kind, url, options))
        self._owns_loop = True

    def with_options(self, **options: object) -> BlockingAsyncClient:
        return self._beside(self._client.with_options(**options))  # type: ignore[union-attr, arg-type]  # a client, with the test's own options

    def _beside(self, client: AsyncClient | AsyncGatewayClient | AsyncConfigurations[Any]) -> BlockingAsyncClient:
        other = object.__new__(BlockingAsyncClient)
        other._loop, other._thread, other._client, other._owns_loop = self._loop, self._thread, client, False
        return other

    def __getattr__(self, name: str) -> Callable[..., object] | BlockingAsyncClient:
        method = getattr(self._client, name)
        if isinstance(method, AsyncConfigurations):
            return self._beside(method)

        def call(*args: object, **named: object) -> object:
            result = method(*args, **named)
            return self._iterate(result) if isinstance(result, AsyncIterator) else self._run(result)

        return call

    def close(self) -> None:
        self._run(self._client.aclose())  # type: ignore[union-attr]  # a client
        if not self._owns_loop:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _new_client(
        self, kind: type[AsyncClient] | type[AsyncGatewayClient], url: str, options: dict[str, object]
    ) -> AsyncClient | AsyncGatewayClient:
        return kind(url, **options)  # type: ignore[arg-type]  # the test's own options

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
