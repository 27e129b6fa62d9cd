"""`GET /`: a description of the gateway for programs, and the page for browsers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.params import SkipValidation
from msgspec import Meta, Struct

from ragstore.kit.auth.roles import PUBLIC
from ragstore.kit.page.routes import PAGE_RESPONSE, at_root, links_of
from ragstore_gateway import __version__
from ragstore_gateway.settings import Settings


class GatewayInfo(Struct, frozen=True):
    """Name, version and links of the gateway."""

    name: Literal["ragstore-gateway"]
    version: Annotated[str, Meta(description="The gateway's version.")]
    links: Annotated[dict[str, str], Meta(description="Paths by name.")]


@get(
    "/",
    opt=PUBLIC,
    operation_id="describeService",
    summary="Service info",
    tags=["service"],
    responses={303: PAGE_RESPONSE},
    sync_to_thread=False,
)
def describe(
    request: Request[Any, Any, Any], settings: SkipValidation[NamedDependency[Settings]]
) -> Response[GatewayInfo]:
    """Name, version and links. A browser is redirected to the page, if the gateway has one."""
    info = GatewayInfo("ragstore-gateway", __version__, links_of(has_page=settings.ui))
    return at_root(request, info, has_page=settings.ui)
