"""The server of the official SDK. This is the only module that imports the SDK, and it is imported when it is used."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, TypeAlias, cast

import mcp_types as types
import msgspec
import structlog
from litestar.types import HTTPScope
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError
from starlette.requests import Request

from ragstore.kit.context import record_facts
from ragstore.kit.errors import InvalidRequest, ServiceError
from ragstore_gateway import __version__
from ragstore_gateway.api.bodies import decode_configuration
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.json_schema import json_schema
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.mcp.caller import McpCaller
from ragstore_gateway.mcp.declarations import INSTRUCTIONS, TOOLS, ToolDeclaration
from ragstore_gateway.mcp.documents import PAGE, VisibleDocuments
from ragstore_gateway.mcp.resources import SCHEME, TEMPLATE, read_uri, resource_uri
from ragstore_gateway.mcp.tools import Tools
from ragstore_gateway.settings import Settings

NAME: Final = "ragstore-gateway"
INTERNAL_ERROR: Final = "The gateway failed; the fault is not the request's"

Context: TypeAlias = ServerRequestContext[Any, Request]

_log = structlog.get_logger(__name__)


class McpServer:
    """Serves the protocol. Each request is complete in itself, so replicas need no affinity.

    Args:
        settings: the gateway's settings.
        bases: the knowledge bases.
        documents: the documents that exist for a caller.

    Attributes:
        sessions: serves HTTP requests while its block of `run` runs.
    """

    def __init__(
        self, settings: Settings, tools: Tools, bases: Configurations[KnowledgeBase], documents: VisibleDocuments
    ) -> None:
        self._settings = settings
        self._tools = tools
        self._bases = bases
        self._documents = documents
        # Records of the SDK may contain arguments of tools, at each level.
        library = logging.getLogger("mcp")
        library.addHandler(logging.NullHandler())
        library.propagate = False
        server: Server[Any] = Server(
            NAME,
            version=__version__,
            title="ragstore",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )
        # In place of the SDK's own spans, which would have names of documents. Each request has a span of the gateway.
        server.middleware[:] = [_guarded]
        self.sessions = StreamableHTTPSessionManager(
            server, stateless=True, max_request_body_size=settings.max_small_body_bytes
        )

    async def _list_tools(self, context: Context, _: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        caller = self._caller(context)
        return types.ListToolsResult(tools=[_listed(each) for each in self._usable(caller).values()])

    def _usable(self, caller: McpCaller) -> Mapping[str, ToolDeclaration]:
        """The tools that a caller may call, by name."""
        may_write = self._settings.mcp_write and caller.may_write
        may_chat = bool(self._settings.upstream_url)
        return {each.name: each for each in TOOLS if (may_write or not each.writes) and (may_chat or not each.chats)}

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        caller = self._caller(context)
        tool = self._usable(caller).get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, "There is no such tool")
        record_facts(tool=tool.name)

        async def report(progress: float) -> None:
            await context.session.report_progress(progress, 1.0)

        try:
            arguments = decode_configuration(tool.arguments, msgspec.json.encode(params.arguments or {}))
            result = await tool.call(self._tools, caller, arguments, report)
        except ServiceError as error:
            record_facts(error=error.code)
            return _failed(error.detail, error.code)
        except Exception as error:  # noqa: BLE001 - the SDK would log it with its text
            _log.error("tool failed", tool=tool.name, error=type(error).__name__)
            return _failed(INTERNAL_ERROR, ServiceError.code)
        text = types.TextContent(type="text", text=msgspec.json.encode(result).decode())
        return types.CallToolResult(content=[text], structured_content=msgspec.to_builtins(result))

    async def _list_templates(
        self, _context: Context, _: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(
            name="document",
            title="Document",
            uri_template=TEMPLATE,
            description="The text of a document of a knowledge base, by the names of both.",
            mime_type="text/plain",
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def _list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """A page: documents of one base. The next page has further documents of it, or of the base after it."""
        caller = self._caller(context)
        wanted, index = _read_cursor(params.cursor if params is not None and params.cursor else "")
        ids = sorted(await self._bases.visible_ids(caller.visible))
        id = next((each for each in ids if each >= wanted), "")
        base = await self._documents.base_by_id(id, caller) if id else None
        if base is None:
            return types.ListResourcesResult(resources=[])
        found, total = await self._documents.page(base, index if id == wanted else 0, caller)
        resources = [
            types.Resource(
                uri=resource_uri(base.body.name, each.name),
                name=each.name,
                mime_type="text/plain",
                size=each.bytes,
            )
            for each in found
            if each.is_searchable
        ]
        following = next((each for each in ids if each > id), "")
        cursor = f"{id}.{index + 1}" if (index + 1) * PAGE < total else f"{following}.0" if following else None
        return types.ListResourcesResult(resources=resources, next_cursor=cursor)

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        caller = self._caller(context)
        names = read_uri(params.uri)
        if names is None:
            raise MCPError(types.INVALID_PARAMS, f"The address of a document is {SCHEME}BASE/NAME")
        base = await self._documents.base(names[0], caller)
        text = await self._documents.whole_text(base, await self._documents.find(base, names[1], caller))
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=params.uri, mime_type="text/plain", text=text)]
        )

    def _caller(self, context: Context) -> McpCaller:
        """The caller of a request.

        Raises:
            InvalidRequest: the id of its session or of its conversation is not valid.
        """
        if context.request is None:
            raise MCPError(types.INTERNAL_ERROR, INTERNAL_ERROR)
        return McpCaller.of(cast("HTTPScope", context.request.scope), self._settings)


def _listed(tool: ToolDeclaration) -> types.Tool:
    hints = types.ToolAnnotations(
        title=tool.title,
        read_only_hint=not tool.writes,
        destructive_hint=tool.writes,
        idempotent_hint=not tool.chats,
        open_world_hint=False,
    )
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=json_schema(tool.arguments),
        output_schema=json_schema(tool.result),
        annotations=hints,
    )


def _failed(detail: str, code: str) -> types.CallToolResult:
    """The result of a call that failed, which a model reads."""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=detail)], is_error=True, _meta={"ragstore/code": code}
    )


async def _guarded(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Middleware of the SDK: errors of the gateway become errors of the protocol, and no text of others is logged."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except ServiceError as error:
        record_facts(error=error.code)
        is_own = error.status < HTTPStatus.INTERNAL_SERVER_ERROR
        code = types.INVALID_PARAMS if is_own else types.INTERNAL_ERROR
        raise MCPError(code, error.detail, {"code": error.code}) from None
    except Exception as error:  # noqa: BLE001 - the SDK would log it with its text
        _log.error("MCP request failed", method=ctx.method, error=type(error).__name__)
        raise MCPError(types.INTERNAL_ERROR, INTERNAL_ERROR) from None


def _read_cursor(cursor: str) -> tuple[str, int]:
    """The id of a base and the index of a page, from a cursor; the first page for an empty one.

    Raises:
        InvalidRequest: it is no cursor of this list.
    """
    id, dot, index = cursor.rpartition(".")
    if cursor and not (dot and index.isascii() and index.isdecimal() and len(index) < 9):
        raise InvalidRequest.at("$.cursor", "Must be the cursor of an earlier page")
    return id, int(index or 0)
