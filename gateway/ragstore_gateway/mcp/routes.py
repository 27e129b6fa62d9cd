"""The route of the Model Context Protocol, and the metadata of this protected resource (RFC 9728)."""

from __future__ import annotations

from typing import Any, Final

from litestar import Request, get, post
from litestar.di import NamedDependency
from litestar.params import SkipValidation
from litestar.types import ASGIApp, ControllerRouterHandler
from msgspec import Struct

from ragstore.kit.auth.roles import PUBLIC, READS
from ragstore_gateway.chat.caller import origin_of
from ragstore_gateway.keys import READER
from ragstore_gateway.mcp.authentication import METADATA_PATH, PATH
from ragstore_gateway.mcp.endpoint import McpEndpoint
from ragstore_gateway.settings import Settings

EndpointDependency = SkipValidation[NamedDependency[McpEndpoint]]
SettingsDependency = SkipValidation[NamedDependency[Settings]]


class ResourceMetadata(Struct, frozen=True):
    """The metadata of `/mcp`. There is no authorization server: an admin of the gateway makes its keys."""

    resource: str
    resource_name: str = "ragstore-gateway"
    bearer_methods_supported: tuple[str, ...] = ("header",)


# `remember` records its write itself.
@post(PATH, opt={**READER, **READS}, include_in_schema=False, status_code=200)
async def serve_mcp(request: Request[Any, Any, Any], mcp: EndpointDependency) -> ASGIApp:
    """A message of the Model Context Protocol, by Streamable HTTP."""
    mcp.check(request.scope)
    return mcp.responding(await request.body())


@get([METADATA_PATH, METADATA_PATH + PATH], opt=PUBLIC, include_in_schema=False, sync_to_thread=False)
def read_resource_metadata(request: Request[Any, Any, Any], settings: SettingsDependency) -> ResourceMetadata:
    """The metadata of the protected resource `/mcp`."""
    return ResourceMetadata(origin_of(request.scope, settings) + PATH)


ROUTES: Final[list[ControllerRouterHandler]] = [serve_mcp, read_resource_metadata]
"""The routes."""
