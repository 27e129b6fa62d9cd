"""The route of OpenAI's Responses API."""

from __future__ import annotations

from typing import Any, Final

from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import SkipValidation
from litestar.types import ASGIApp

from ragstore.kit.auth.roles import READS
from ragstore.kit.middleware.bodies import LARGE_BODY
from ragstore.kit.openapi import ERRORS
from ragstore_gateway.api.openapi import OPERATION
from ragstore_gateway.chat.assembly import Chat
from ragstore_gateway.chat.routes import CHAT_ERRORS
from ragstore_gateway.errors import ConfigurationNotFound
from ragstore_gateway.keys import READER
from ragstore_gateway.responses.calls import response_call
from ragstore_gateway.responses.file_search import FileSearch

ChatDependency = SkipValidation[NamedDependency[Chat]]
FileSearchDependency = SkipValidation[NamedDependency[FileSearch]]

_OBJECT: Final = {"type": "object", "additionalProperties": True}
_RESPONSE: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["model", "input"],
                    "properties": {
                        "model": {"type": "string", "description": "A model of the upstream, or `rag/` and its name."},
                        "input": {"type": ["string", "array"], "items": _OBJECT},
                        "tools": {"type": ["array", "null"], "items": _OBJECT},
                        "stream": {"type": ["boolean", "null"]},
                    },
                    "additionalProperties": True,
                }
            }
        },
    },
    "responses": {
        "200": {
            "description": "A response, or a stream of its events.",
            "content": {"application/json": {"schema": _OBJECT}, "text/event-stream": {"schema": {}}},
        }
    },
}


@post(
    "/v1/responses",
    opt={**READER, **READS, **LARGE_BODY, ERRORS: (*CHAT_ERRORS, ConfigurationNotFound), OPERATION: _RESPONSE},
    operation_id="createResponse",
    summary="Create a response",
    tags=["chat"],
    status_code=200,
)
async def create_response(
    request: Request[Any, Any, Any], chat: ChatDependency, file_search: FileSearchDependency
) -> ASGIApp:
    """A response, as in OpenAI's API.

    A model whose name begins with `rag/` gets the stored passages that belong to the question, and cites them. The tool
    `file_search` searches the gateway's vector stores. Every other request passes through unchanged.
    """
    return await response_call(chat, request.scope, await request.body(), file_search)
