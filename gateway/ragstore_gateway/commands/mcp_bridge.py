"""`bridge`: forwards calls of the Model Context Protocol from standard input and output to a gateway."""

from __future__ import annotations

import os
from typing import Any, Final

import httpx2
import mcp_types as types
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

from ragstore_gateway import __version__
from ragstore_gateway.commands.running import TIMEOUT_SECONDS
from ragstore_gateway.settings import KEY_VARIABLE

PATH: Final = "/mcp"


class Bridge:
    """The server for the program that has started the command. Its handlers call the gateway's server.

    Args:
        gateway: a client of the gateway.
    """

    def __init__(self, gateway: Client) -> None:
        self._gateway = gateway
        self.server: Server[Any] = Server(
            "ragstore-gateway",
            version=__version__,
            title="ragstore",
            instructions=gateway.instructions,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )

    async def run(self) -> None:
        """Serve until standard input ends."""
        async with stdio_server() as (reading, writing):
            await self.server.run(reading, writing, self.server.create_initialization_options())

    async def _list_tools(
        self, _: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return await self._gateway.list_tools(cursor=_cursor(params))

    async def _call_tool(
        self, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        return await self._gateway.call_tool(
            params.name, params.arguments, progress_callback=context.session.report_progress
        )

    async def _list_resources(
        self, _: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return await self._gateway.list_resources(cursor=_cursor(params))

    async def _list_templates(
        self, _: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return await self._gateway.list_resource_templates(cursor=_cursor(params))

    async def _read_resource(
        self, _: ServerRequestContext[Any, Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await self._gateway.read_resource(params.uri)


async def bridge(url: str) -> None:
    """Forward calls until standard input ends.

    Args:
        url: address of the gateway. The key is `RAGSTORE_GATEWAY_API_KEY` of the environment.
    """
    async with httpx2.AsyncClient(headers=_key_headers(), timeout=TIMEOUT_SECONDS) as http:
        transport = streamable_http_client(url.rstrip("/") + PATH, http_client=http)
        # Tools and documents may change at any time.
        async with Client(transport, cache=None) as gateway:
            await Bridge(gateway).run()


def _cursor(params: types.PaginatedRequestParams | None) -> str | None:
    return None if params is None else params.cursor


def _key_headers() -> dict[str, str]:
    """The headers with the key of the environment; none without one."""
    key = os.environ.get(KEY_VARIABLE, "")
    return {"Authorization": f"Bearer {key}"} if key else {}
