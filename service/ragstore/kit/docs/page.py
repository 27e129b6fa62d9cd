"""`/docs`: Swagger UI over the OpenAPI document at `/openapi.json`, with its files from this package.

`static/` holds files of the npm package swagger-ui-dist, unchanged; `scripts/swagger_ui.py` fetches and verifies them.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any, Final

from litestar import Request, Response, Router, get
from litestar.openapi.plugins import OpenAPIRenderPlugin

from ragstore.kit.auth.roles import PUBLIC
from ragstore.kit.middleware.security_headers import PAGE

STATIC: Final = Path(__file__).with_name("static")

MEDIA_TYPES: Final = {
    "start.js": "text/javascript",
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
}
"""The files that the page loads. The others are licences."""

HTML: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{base}swagger-ui.css">
</head>
<body>
<div id="page"><noscript>This page needs JavaScript. The OpenAPI document is at /openapi.json.</noscript></div>
<script src="{base}swagger-ui-bundle.js"></script>
<script src="{base}start.js"></script>
</body>
</html>
"""


class DocsPage(OpenAPIRenderPlugin):
    """The page, as Litestar's plugin.

    Args:
        title: title of the page.
    """

    def __init__(self, title: str) -> None:
        super().__init__(path="/")
        self._title = escape(title)

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        """The page. Its links are relative, so that a proxy may serve it below another path."""
        base = "" if request.scope["raw_path"].endswith(b"/") else "docs/"
        return HTML.format(title=self._title, base=base).encode()


@get([f"/{name}" for name in MEDIA_TYPES], include_in_schema=False, opt=PUBLIC, sync_to_thread=False)
def static_file(request: Request[Any, Any, Any]) -> Response[bytes]:
    """A file of the page."""
    name = request.scope["path"].rstrip("/").rpartition("/")[2]
    return Response((STATIC / name).read_bytes(), media_type=MEDIA_TYPES[name])


def with_policy(response: Response[Any]) -> Response[Any]:
    """Set the content security policy of the page."""
    response.headers["Content-Security-Policy"] = PAGE
    return response


def docs_router() -> Router:
    """The router of the page and its files, for `OpenAPIConfig.openapi_router`."""
    return Router("/docs", route_handlers=[static_file], include_in_schema=False, opt=PUBLIC, after_request=with_policy)
