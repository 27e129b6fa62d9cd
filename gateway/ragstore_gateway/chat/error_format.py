"""Errors under `/v1` in OpenAI's shape, wherever they come from."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import msgspec
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPResponseStartEvent, Message, Receive, Scope, Send

from ragstore.kit.problems import MEDIA_TYPE, Problem
from ragstore_gateway.api.openai_errors import openai_error

PREFIX: Final = "/v1/"

FROM_UPSTREAM: Final = "ragstore_gateway.from_upstream"
"""Key of the scope of a request whose response is the upstream's, and so is not changed."""


class OpenAIErrorsMiddleware:
    """Changes the problem documents of responses under `/v1` into OpenAI's errors.

    It is outside of all other middleware, so that it also covers what the limits and the router respond.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] == ScopeType.HTTP and scope["path"].startswith(PREFIX):
            await self._app(scope, receive, _Rewriting(scope, send))
        else:
            await self._app(scope, receive, send)


class _Rewriting:
    """Sends messages, and problem documents as OpenAI's errors."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._start: HTTPResponseStartEvent | None = None
        self._content = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_problem(message) and FROM_UPSTREAM not in self._scope:
            self._start = message
            return
        if self._start is None or message["type"] != "http.response.body":
            await self._send(message)
            return
        self._content += message["body"]
        if message.get("more_body"):
            return
        start, self._start = self._start, None
        body = msgspec.json.encode(openai_error(msgspec.json.decode(self._content, type=Problem)))
        changed = (b"content-type", b"content-length")
        kept = [(name, value) for name, value in start["headers"] if name.lower() not in changed]
        own = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        start["headers"] = [*kept, *own]
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body, "more_body": False})


def _is_problem(message: HTTPResponseStartEvent) -> bool:
    media_type = MEDIA_TYPE.encode()
    return message["status"] >= HTTPStatus.BAD_REQUEST and any(
        name.lower() == b"content-type" and value.startswith(media_type) for name, value in message["headers"]
    )
