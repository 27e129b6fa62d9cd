"""`ResourceMetadataMiddleware`: a response 401 of `/mcp` names the metadata of the protected resource (RFC 9728)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from ragstore_gateway.chat.caller import origin_of
from ragstore_gateway.settings import Settings

PATH: Final = "/mcp"
METADATA_PATH: Final = "/.well-known/oauth-protected-resource"

_CHALLENGE: Final = b"www-authenticate"


class ResourceMetadataMiddleware:
    """Adds the address of the metadata to `WWW-Authenticate`.

    Args:
        app: the application.
        settings: the gateway's settings.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != ScopeType.HTTP or scope["path"].rstrip("/") != PATH:
            await self._app(scope, receive, send)
            return
        address = f"{origin_of(scope, self._settings)}{METADATA_PATH}{PATH}".encode()

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == HTTPStatus.UNAUTHORIZED:
                message["headers"] = [
                    (name, value + b', resource_metadata="' + address + b'"' if name.lower() == _CHALLENGE else value)
                    for name, value in message["headers"]
                ]
            await send(message)

        await self._app(scope, receive, sending)
