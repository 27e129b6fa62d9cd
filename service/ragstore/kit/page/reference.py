"""`/docs`: the API reference, a page over the OpenAPI document. A service without the page has it, too."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, Router, get
from litestar.openapi.plugins import OpenAPIRenderPlugin

from ragstore.kit.auth.roles import PUBLIC
from ragstore.kit.page.built_files import HEADERS, INDEX, REFERENCE, built_files, named_file


class DocsPage(OpenAPIRenderPlugin):
    """The page, as Litestar's plugin."""

    def __init__(self) -> None:
        super().__init__(path="/")

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        """The page. Its links are relative, so that a proxy may serve it below another path."""
        content = built_files(REFERENCE)[INDEX].content
        if request.scope["raw_path"].endswith(b"/"):
            return content
        # A browser resolves the links of /docs from the folder above.
        return content.replace(b'="./', b'="docs/').replace(b'="../', b'="./')


# Litestar's router of plugins finds no path with a parameter.
@get(
    [f"/{name}" for name in built_files(REFERENCE) if name != INDEX],
    include_in_schema=False,
    opt=PUBLIC,
    sync_to_thread=False,
)
def reference_file(request: Request[Any, Any, Any]) -> Response[bytes]:
    """A file of the page."""
    return named_file(request, request.scope["path"].rstrip("/").rpartition("/")[2], REFERENCE)


def with_policy(response: Response[Any]) -> Response[Any]:
    """Set the content security policy of the page."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def docs_router() -> Router:
    """The router of the page and its files, for `OpenAPIConfig.openapi_router`."""
    return Router(
        "/docs", route_handlers=[reference_file], include_in_schema=False, opt=PUBLIC, after_request=with_policy
    )
