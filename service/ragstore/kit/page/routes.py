"""The routes of the web page: `/ui/` and its files, and the redirect of browsers from `/`."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final, TypeVar

from litestar import Request, Response, Router, get
from litestar.openapi import ResponseSpec
from litestar.params import FromPath

from ragstore.kit.auth.roles import PUBLIC
from ragstore.kit.page.built_files import INDEX, REVALIDATED, built_files, file_response, named_file

T = TypeVar("T")

HTML: Final = "text/html"

LINKS: Final = {
    "documentation": "/docs",
    "openapi": "/openapi.json",
    "access": "/access",
    "health": "/health",
    "metrics": "/metrics",
}
"""Paths that each service has."""

PAGE_RESPONSE: Final = ResponseSpec(
    None, description="The page, for a caller that accepts `text/html`.", generate_examples=False
)
"""The redirect of `GET /`, for the OpenAPI document."""


@get("/", include_in_schema=False, opt=PUBLIC, sync_to_thread=False)
def index(request: Request[Any, Any, Any]) -> Response[bytes]:
    """The page. Its links are relative, so that a proxy may serve it below another path."""
    if not request.scope["raw_path"].endswith(b"/"):
        return Response(b"", status_code=HTTPStatus.PERMANENT_REDIRECT, headers={"Location": "ui/"})
    return file_response(request, built_files()[INDEX], REVALIDATED)


@get("/{name:str}", include_in_schema=False, opt=PUBLIC, sync_to_thread=False)
def file(request: Request[Any, Any, Any], name: FromPath[str]) -> Response[bytes]:
    """A file of the page.

    Raises:
        NotFound: it has no file of that name.
    """
    return named_file(request, name)


def page_router() -> Router:
    """The routes of the page."""
    return Router("/ui", route_handlers=[index, file], include_in_schema=False, opt=PUBLIC)


def links_of(*, has_page: bool, **others: str) -> dict[str, str]:
    """The links of a service, by name.

    Args:
        has_page: whether the service has the page.
        others: paths that only this service has, by name.
    """
    return {**LINKS, **others, **({"page": "/ui/"} if has_page else {})}


def at_root(request: Request[Any, Any, Any], info: T, *, has_page: bool) -> Response[T]:
    """The response to `GET /`: a description of the service, or for a browser a redirect to the page.

    Args:
        info: the description.
        has_page: whether the service has the page.
    """
    if not has_page:
        return Response(info)
    accepted = (each.partition(";")[0].strip() for each in request.headers.get("accept", "").split(","))
    headers = {"Vary": "Accept"}
    if HTML not in accepted:
        return Response(info, headers=headers)
    redirect: Response[Any] = Response(b"", status_code=HTTPStatus.SEE_OTHER, headers={**headers, "Location": "ui/"})
    return redirect
