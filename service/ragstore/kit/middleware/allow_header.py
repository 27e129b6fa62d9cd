"""The `Allow` header of responses to OPTIONS, and HEAD on pages and probes."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final, cast

from litestar import Litestar
from litestar.enums import HttpMethod, ScopeType
from litestar.routes import HTTPRoute
from litestar.types import Message, Receive, Scope, Send

from ragstore.kit.health import LIVE_PATH, READY_PATH

HEAD_PATHS: Final = frozenset({LIVE_PATH, READY_PATH, "/docs"})
"""The paths that monitors and browsers request by HEAD."""


class AllowHeaderMiddleware:
    """Lists every method of a path in the response to OPTIONS. Responds to HEAD as to GET, for monitors that send it.

    Litestar 2.25 builds that response when the first handler of a path is registered, and omits the later ones.

    Args:
        app: the application.
    """

    def __init__(self, app: Litestar) -> None:
        self._app = app
        self._methods = {
            route.path_format or "/": sorted(route.methods) for route in app.routes if isinstance(route, HTTPRoute)
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""

        async def send_corrected(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == HTTPStatus.NO_CONTENT:
                allowed = ", ".join(self._methods.get(scope.get("path_template", ""), ["OPTIONS"]))
                others = [(name, value) for name, value in message["headers"] if name.lower() != b"allow"]
                message["headers"] = [*others, (b"allow", allowed.encode())]
            await send(message)

        if scope["type"] == ScopeType.HTTP and scope["method"] == "HEAD" and scope["path"] in HEAD_PATHS:
            # The server sends no body in response to HEAD.
            reading: dict[str, Any] = {**scope, "method": HttpMethod.GET}
            await self._app(cast("Scope", reading), receive, send)
            return
        is_options = scope["type"] == ScopeType.HTTP and scope["method"] == "OPTIONS"
        await self._app(scope, receive, send_corrected if is_options else send)
