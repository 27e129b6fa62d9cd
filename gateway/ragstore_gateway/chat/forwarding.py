"""Forwards a request to the upstream from a route that serves some of its requests itself."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response
from litestar.types import ASGIApp

from ragstore_gateway.chat.assembly import Chat
from ragstore_gateway.chat.calls import Call, upstream_target


class ForwardedResponse(Response[None]):
    """The upstream's response, as it comes.

    Args:
        app: sends the response.
    """

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(None)
        self._app = app

    def to_asgi_response(self, *_: Any, **__: Any) -> ASGIApp:  # type: ignore[override]  # Litestar calls any ASGI app
        """The application that sends the response."""
        return self._app


class UpstreamForwarder:
    """Forwards requests to the upstream.

    Args:
        chat: the parts of chat.
    """

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    def forward(self, request: Request[Any, Any, Any], body: bytes) -> Response[Any]:
        """Forward a request.

        Returns:
            The upstream's response, which is received when it is sent.
        """
        return ForwardedResponse(Call(self._chat, request.method, upstream_target(request.scope), body))
