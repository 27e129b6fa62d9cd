"""A real HTTP server in place of an embedding provider: a test determines its responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec
from aiohttp import web
from yarl import URL


@dataclass(frozen=True)
class Received:
    """A request that the server received.

    Attributes:
        path: its path with the query, encoded as it was sent.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> object:
        """The body, decoded."""
        return msgspec.json.decode(self.body)


Respond: TypeAlias = Callable[[Received], Awaitable[web.StreamResponse]]


@dataclass
class FakeProvider:
    """A provider.

    Attributes:
        respond: makes the response to a request; a test may replace it.
        url: the server's address.
        received: the requests so far.
        left: number of requests whose caller disconnected before the response.
    """

    respond: Respond
    url: str = ""
    received: list[Received] = field(default_factory=list)
    left: int = 0
    _runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen: on a free port, and on the same one after a stop."""
        app = web.Application(client_max_size=1 << 28)
        app.router.add_route("*", "/{path:.*}", self.handle)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", URL(self.url).port if self.url else 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Close all connections, and refuse others."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Respond to a request."""
        received = Received(request.method, request.raw_path, dict(request.headers), await request.read())
        self.received.append(received)
        try:
            return await self.respond(received)
        except asyncio.CancelledError:
            self.left += 1
            raise


@asynccontextmanager
async def fake_provider(respond: Respond) -> AsyncIterator[FakeProvider]:
    """A provider on a free port.

    Args:
        respond: makes its responses.
    """
    provider = FakeProvider(respond)
    await provider.start()
    try:
        yield provider
    finally:
        await provider.stop()


def json_response(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """A response with a JSON body."""
    return web.Response(body=msgspec.json.encode(body), status=status, headers=headers, content_type="application/json")


def vectors_of(received: Received, dimension: int = 4) -> web.Response:
    """The response of Text Embeddings Inference: a vector for each text, made from its length."""
    body = msgspec.convert(received.json, dict[str, object])
    texts = msgspec.convert(body["inputs"], list[str])
    return json_response([[float(len(text)), 1.0, *[0.5] * (dimension - 2)] for text in texts])
