"""Routing on the percent-encoded path, so that document ids may contain slashes."""

from __future__ import annotations

import re
from typing import Final

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send

_ABOVE_DOCUMENT: Final = re.compile("/collections/[^/]*/documents/")
"""The path above a document. A collection may be called `documents`, too."""


def split_document_path(path: str) -> tuple[str, str]:
    """Split a percent-encoded path into what is above a document's id, and the id.

    Returns:
        The two; the whole path and no id if it is not below a collection's documents.
    """
    above = _ABOVE_DOCUMENT.match(path)
    return (path, "") if above is None else (path[: above.end()], path[above.end() :])


class RawPathMiddleware:
    """Routes requests on the percent-encoded path.

    ASGI servers decode the path, after which `a%2Fb` and `a/b` are the same. Document ids may contain slashes, so the
    path stays encoded for routing, and the dependencies of the routes decode its segments.

    A document id may also be the last segment of another route, such as `all` or `stream`. These routes have other
    methods than GET, so the id of a GET request is encoded further than the client did, and matches none of them.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection."""
        if scope["type"] == ScopeType.HTTP and scope.get("raw_path"):
            above, document_id = split_document_path(scope["raw_path"].decode("latin-1"))
            # An id is one segment for routing, so that no route matches the first segment of `all/of/it`.
            segment = document_id.replace("/", "%2F")
            if scope["method"] == "GET" and segment:
                segment = f"%{ord(segment[0]):02X}{segment[1:]}"
            scope["path"] = above + segment
        await self._app(scope, receive, send)
