"""Receives bodies within limits: of each body by its route, and of all bodies in flight together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final, Protocol, runtime_checkable

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPReceiveMessage, HTTPScope, Message, Receive, Scope, Send

from ragstore.kit.byte_budget import FREE_BYTES, ByteBudget, Share, request_shares
from ragstore.kit.errors import BodyTimeout, BodyTooLarge, Overloaded
from ragstore.kit.health import UNLIMITED_PATHS
from ragstore.kit.problems import send_problem

BODY: Final = "body"
LARGE_BODY: Final[dict[str, Any]] = {BODY: "large"}
"""Option of a route whose body may be large."""

STREAMED_BODY: Final[dict[str, Any]] = {BODY: "streamed"}
"""Option of a route that receives its body in chunks, and reports by `byte_budget.hold` how much of it it holds."""

CONNECTION: Final = "connection"
"""Key of the connection in the scope's extensions."""


@runtime_checkable
class Connection(Protocol):
    """A connection to a caller that reads a response."""

    def unread_bytes(self) -> int:
        """Number of bytes that were sent and not read."""

    def abort(self) -> None:
        """Close the connection without sending the rest."""


class BodiesMiddleware:
    """Receives bodies as a whole, within the limits of their routes and the budget of all.

    Args:
        app: the application.
        budget: the budget of all bodies.
        max_body_bytes: maximum size of a large body.
        max_small_body_bytes: maximum size of other bodies.
    """

    def __init__(self, app: ASGIApp, budget: ByteBudget, *, max_body_bytes: int, max_small_body_bytes: int) -> None:
        self._app = app
        self._budget = budget
        self._max_body_bytes = max_body_bytes
        self._max_small_body_bytes = min(max_small_body_bytes, max_body_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != ScopeType.HTTP or scope["path"] in UNLIMITED_PATHS:
            await self._app(scope, receive, send)
            return
        body = _Body(scope, receive, self._budget, self._max_small_body_bytes, self._max_body_bytes)
        response = Share()

        async def send_counted(message: Message) -> None:
            size = len(message.get("body", b"")) if message["type"] == "http.response.body" else 0
            if size <= FREE_BYTES:
                await send(message)
                return
            unreserved = max(0, size - response.size)
            self._budget.add(response, unreserved)
            _watch_reader(response, scope, size)
            try:
                await send(message)
            finally:
                response.complete()
                self._budget.release(response, unreserved)

        try:
            await self._budget.wait_for_room()
        except Overloaded as error:
            await send_problem(send, error)
            return
        with request_shares(self._budget, body.share, response):
            await self._app(scope, body.receive, send_counted)


def _watch_reader(share: Share, scope: Scope, size: int) -> None:
    connection: object = (scope.get("extensions") or {}).get(CONNECTION)
    if isinstance(connection, Connection):
        share.watch(lambda: size - connection.unread_bytes(), connection.abort)


class _Body:
    """The body of one request, whose route is known when the application receives it.

    Args:
        scope: the request.
        receive: receives its chunks.
        budget: the budget of all bodies.
        max_small_bytes: maximum size unless the route takes large bodies.
        max_large_bytes: maximum size if it does.
    """

    def __init__(
        self, scope: HTTPScope, receive: Receive, budget: ByteBudget, max_small_bytes: int, max_large_bytes: int
    ) -> None:
        self.share = Share()
        self._scope = scope
        self._receive = receive
        self._budget = budget
        self._max_small_bytes = max_small_bytes
        self._max_large_bytes = max_large_bytes
        self._received = 0
        self._is_whole = False

    async def receive(self) -> HTTPReceiveMessage:
        """Receive the body as one message, a streamed one in chunks, and after it the disconnect.

        Raises:
            BodyTooLarge: it is larger than its route allows.
            BodyTimeout: it came too slowly while others waited.
            Overloaded: too many bytes of bodies are in flight.
        """
        if self._is_whole:
            return await self._receive_chunk()
        kind = self._kind()
        if kind == "streamed":
            return await self._receive_streamed()
        limit = self._max_large_bytes if kind == "large" else self._max_small_bytes
        message = await self._receive_all(limit)
        self._is_whole = True
        return message

    def _kind(self) -> str:
        options: Mapping[str, Any] = getattr(self._scope.get("route_handler"), "opt", {})
        return str(options.get(BODY, ""))

    async def _receive_all(self, limit: int) -> HTTPReceiveMessage:
        announced = _content_length(self._scope)
        if announced is not None and announced > limit:
            raise _too_large(limit)
        if announced is None:
            limit = min(limit, self._budget.max_bytes)
        elif announced > FREE_BYTES:
            await self._budget.take(self.share, announced)
        message = await self._receive_chunk()
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            self._count(message, limit)
            return message
        try:
            async with asyncio.timeout(None) as pace:
                self.share.watch(lambda: self._received, lambda: pace.reschedule(0))
                return await self._receive_rest(message, limit, is_announced=announced is not None)
        except TimeoutError:
            raise _too_slow() from None
        finally:
            self.share.complete()

    async def _receive_rest(self, first: HTTPReceiveMessage, limit: int, *, is_announced: bool) -> HTTPReceiveMessage:
        """Receive the chunks after the first one, and join all."""
        message = first
        # Its buffer becomes the body without a copy: joined chunks would need twice the memory, and the time of a copy.
        content = BytesIO()
        while True:
            self._count(message, limit)
            content.write(_chunk_of(message))
            if not message.get("more_body"):
                break
            if not (is_announced or self.share.size) and self._received > FREE_BYTES:
                await self._budget.take(self.share, limit)
            message = await self._receive_chunk()
            if message["type"] == "http.disconnect":
                return message
        if self.share.size > self._received:
            self._budget.release(self.share, self.share.size - self._received)
        return {"type": "http.request", "body": content.getvalue(), "more_body": False}

    def _count(self, message: HTTPReceiveMessage, limit: int) -> None:
        self._received += len(_chunk_of(message))
        if self._received > limit:
            raise _too_large(limit)

    async def _receive_streamed(self) -> HTTPReceiveMessage:
        try:
            async with asyncio.timeout(None) as pace:
                self.share.watch(lambda: self._received, lambda: pace.reschedule(0))
                message = await self._receive_chunk()
        except TimeoutError:
            raise _too_slow() from None
        finally:
            self.share.complete()
        self._received += len(_chunk_of(message))
        return message

    async def _receive_chunk(self) -> HTTPReceiveMessage:
        return await self._receive()  # type: ignore[return-value]  # as of HTTP


def _chunk_of(message: HTTPReceiveMessage) -> bytes:
    return message["body"] if message["type"] == "http.request" else b""


def _content_length(scope: HTTPScope) -> int | None:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value)
    return None


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"The body of this request must not be larger than {limit} bytes")


def _too_slow() -> BodyTimeout:
    return BodyTimeout("The request's body came too slowly while others waited")
