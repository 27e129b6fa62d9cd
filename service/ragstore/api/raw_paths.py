"""Routing on the path as it was sent, so that document ids may hold slashes."""

from __future__ import annotations

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send


class RawPathMiddleware:
    """Routes on the path as it was sent, percent-encoding and all.

    ASGI servers decode the path, which makes `a%2Fb` the same as `a/b`. Document ids may hold slashes, so routing
    leaves the path encoded; the dependencies of the routes decode its parts.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] == ScopeType.HTTP and scope.get("raw_path"):
            head, documents, document_id = scope["raw_path"].decode("latin-1").partition("/documents/")
            # An id is one segment for routing, so that no route claims the first word of `all/of/it`.
            scope["path"] = head + documents + document_id.replace("/", "%2F")
        await self._app(scope, receive, send)
