"""`McpEndpoint`: requests to `/mcp`. The SDK is loaded by the first one."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from litestar.types import HTTPScope, Message, Receive, Scope, Send

from ragstore.kit.context import renew_deadline
from ragstore.kit.disconnect import CallerWatch
from ragstore.kit.errors import CallerGone, Forbidden, Unauthorized
from ragstore.kit.extras import MissingExtra, require_extra
from ragstore_gateway.api.inner_bodies import receiving
from ragstore_gateway.chat.caller import origin_of
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.errors import NotConfigured
from ragstore_gateway.keys import GatewayKey, key_of
from ragstore_gateway.mcp.documents import VisibleDocuments
from ragstore_gateway.mcp.tools import Tools
from ragstore_gateway.settings import Settings

if TYPE_CHECKING:
    from ragstore_gateway.mcp.server import McpServer

EXTRA: Final = "ragstore-gateway[mcp]"
SERVER_MODULE: Final = "ragstore_gateway.mcp.server"


class McpEndpoint:
    """Serves requests to `/mcp` while its block of `running` runs.

    Args:
        settings: the gateway's settings.
        bases: the knowledge bases.
        documents: the documents that exist for a caller.
        is_authorized: whether a key is still in force, with the same rights.
        budget_seconds: maximum time until the first byte of a response, and between two chunks.
    """

    def __init__(
        self,
        settings: Settings,
        tools: Tools,
        bases: Configurations[KnowledgeBase],
        documents: VisibleDocuments,
        is_authorized: Callable[[GatewayKey | None], bool],
        budget_seconds: float,
    ) -> None:
        self._settings = settings
        self._tools = tools
        self._bases = bases
        self._documents = documents
        self._is_authorized = is_authorized
        self._budget_seconds = budget_seconds
        self._loading: asyncio.Task[McpServer] | None = None
        self._serving: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Serve, and end all requests in progress at the end."""
        try:
            yield
        finally:
            self._stopping.set()
            tasks = [task for task in (self._loading, self._serving) if task is not None]
            await asyncio.gather(*tasks, return_exceptions=True)

    def check(self, scope: HTTPScope) -> None:
        """Check what the protocol demands of a request before its body is read.

        Raises:
            Forbidden: a web page of another origin sent it.
            NotConfigured: the SDK is not installed.
        """
        origin = next((value for name, value in scope["headers"] if name == b"origin"), b"").decode("latin-1")
        own = urlsplit(origin_of(scope, self._settings)).netloc
        if origin and origin not in self._settings.origins and origin.partition("://")[2] != own:
            raise Forbidden("The request comes from a web page of another origin")
        try:
            require_extra(EXTRA, "The Model Context Protocol", "mcp")
        except MissingExtra as error:
            raise NotConfigured(str(error)) from None

    def responding(self, body: bytes) -> McpCall:
        """The application that responds to a request with this body."""
        return McpCall(self, body)

    async def respond(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Respond to a request with this body, until its caller leaves."""
        server = await self._server()
        renew_deadline(self._budget_seconds)
        key = key_of(scope)
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            async with CallerWatch(receive, lambda: self._is_authorized(key)):
                await server.sessions.handle_request(scope, receiving(body), sending)  # type: ignore[arg-type]  # ASGI's types of Starlette
        except (CallerGone, Unauthorized):
            # A response that has begun cannot become an error.
            if not started:
                raise

    async def _server(self) -> McpServer:
        if self._loading is None or (self._loading.done() and self._loading.exception() is not None):
            self._loading = asyncio.create_task(self._load(), name="load-mcp")
        # Others wait for the same server.
        return await asyncio.shield(self._loading)

    async def _load(self) -> McpServer:
        # In a thread: the first import takes most of a second.
        module = await asyncio.to_thread(importlib.import_module, SERVER_MODULE)
        server: McpServer = module.McpServer(self._settings, self._tools, self._bases, self._documents)
        ready = asyncio.Event()

        async def serve() -> None:
            async with server.sessions.run():
                ready.set()
                await self._stopping.wait()

        self._serving = asyncio.create_task(serve(), name="serve-mcp")
        await ready.wait()
        return server


class McpCall:
    """Responds to one request.

    Args:
        endpoint: serves it.
    """

    def __init__(self, endpoint: McpEndpoint, body: bytes) -> None:
        self._endpoint = endpoint
        self._body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond."""
        await self._endpoint.respond(scope, self._body, receive, send)
