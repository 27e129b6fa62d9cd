"""Routing on the percent-encoded path, so that document ids may contain slashes."""

from __future__ import annotations

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send


class RawPathMiddleware:
    """Routes requests on the percent-encoded path.

    ASGI servers decode the path, after which `a%2Fb` and `a/b` are the same. Document ids may contain slashes, so the
    path stays encoded for routing, and the dependencies of the routes decode its segments.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection."""
        if scope["type"] == ScopeType.HTTP and scope.get("raw_path"):
            head, documents, document_id = scope["raw_path"].decode("latin-1").partition("/documents/")
            # An id is one segment for routing, so that no route matches the first segment of `all/of/it`.
            scope["path"] = head + documents + document_id.replace("/", "%2F")
        await self._app(scope, receive, send)
