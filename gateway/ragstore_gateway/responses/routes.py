"""The routes of OpenAI's Responses API."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from litestar import Request, delete, get, post
from litestar.di import NamedDependency
from litestar.params import SkipValidation
from litestar.types import ASGIApp, Receive, Scope, Send

from ragstore.kit.auth.roles import READS
from ragstore.kit.context import record_write
from ragstore.kit.errors import Forbidden
from ragstore.kit.middleware.bodies import LARGE_BODY
from ragstore.kit.openapi import ERRORS
from ragstore_gateway.api.openapi import OPERATION
from ragstore_gateway.chat.assembly import Chat
from ragstore_gateway.chat.calls import Call, send_body, upstream_target
from ragstore_gateway.chat.routes import CHAT_ERRORS, UPSTREAM_ERRORS
from ragstore_gateway.errors import ConfigurationNotFound, DatabaseUnavailable, ResponseNotFound
from ragstore_gateway.keys import ADMIN, READER, is_admin, key_name_of
from ragstore_gateway.openai_vector_stores.pages import AfterParameter, LimitParameter, OrderParameter
from ragstore_gateway.responses.calls import response_call
from ragstore_gateway.responses.file_search import FileSearch
from ragstore_gateway.responses.stored_responses import NOT_FOUND, OWN_ID, StoredResponses

ChatDependency = SkipValidation[NamedDependency[Chat]]
FileSearchDependency = SkipValidation[NamedDependency[FileSearch]]
StoredResponsesDependency = SkipValidation[NamedDependency[StoredResponses]]

_STORED: Final = re.compile(rf"/responses/({OWN_ID.pattern})(/input_items)?/?(?:\?.*)?$(?!\n)")

_OBJECT: Final = {"type": "object", "additionalProperties": True}
_READ: Final = {
    "responses": {"200": {"description": "The object.", "content": {"application/json": {"schema": _OBJECT}}}}
}
_PASSED: Final = {**_READ, "requestBody": {"required": False, "content": {"application/json": {"schema": {}}}}}
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
    request: Request[Any, Any, Any],
    chat: ChatDependency,
    file_search: FileSearchDependency,
    stored_responses: StoredResponsesDependency,
) -> ASGIApp:
    """A response, as in OpenAI's API.

    A model whose name begins with `rag/` gets the stored passages that belong to the question, and cites them. The tool
    `file_search` searches the gateway's vector stores. `previous_response_id` continues a response that the gateway has
    stored. Every other request passes through unchanged.
    """
    return await response_call(chat, request.scope, await request.body(), file_search, stored_responses)


@get(
    "/v1/responses/{path:path}",
    opt={**READER, ERRORS: (*UPSTREAM_ERRORS, DatabaseUnavailable, ResponseNotFound), OPERATION: _READ},
    operation_id="getResponse",
    summary="Read a stored response, or the items of its request",
    tags=["chat"],
)
async def get_response(
    request: Request[Any, Any, Any],
    chat: ChatDependency,
    stored_responses: StoredResponsesDependency,
    limit: LimitParameter = 20,
    order: OrderParameter = "desc",
    after: AfterParameter = "",
) -> ASGIApp:
    """A response by its id. `ID/input_items` is a page of the items that it was made from.

    A response of the gateway exists for the key of its caller. All others are the upstream's, and need an admin.
    """
    target = upstream_target(request.scope)
    own = _STORED.match(target)
    if own is None:
        return _of_upstream(chat, request.scope, "GET", target)
    id, key = own[1], key_name_of(request.scope)
    if not own[2]:
        return _sent(await stored_responses.read(id, key))
    return _sent(_page(await stored_responses.input_items(id, key), limit, order, after))


@delete(
    "/v1/responses/{path:path}",
    opt={**READER, ERRORS: (*UPSTREAM_ERRORS, DatabaseUnavailable, ResponseNotFound), OPERATION: _READ},
    operation_id="deleteResponse",
    summary="Delete a stored response",
    tags=["chat"],
    status_code=200,
)
async def delete_response(
    request: Request[Any, Any, Any], chat: ChatDependency, stored_responses: StoredResponsesDependency
) -> ASGIApp:
    """Delete a response by its id. Later responses of its conversation cannot be continued."""
    target = upstream_target(request.scope)
    own = _STORED.match(target)
    if own is None or own[2]:
        return _of_upstream(chat, request.scope, "DELETE", target)
    await stored_responses.delete(own[1], key_name_of(request.scope))
    record_write(f"v1/responses/{own[1]}")
    return _sent(msgspec.json.encode({"id": own[1], "object": "response", "deleted": True}))


@post(
    "/v1/responses/{path:path}",
    opt={**ADMIN, **LARGE_BODY, ERRORS: UPSTREAM_ERRORS, OPERATION: _PASSED},
    operation_id="callResponse",
    summary="Cancel a response of the upstream, compact a conversation, or count tokens",
    tags=["chat"],
    status_code=200,
)
async def call_response(request: Request[Any, Any, Any], chat: ChatDependency) -> ASGIApp:
    """Pass a call below `/v1/responses` to the upstream, which knows the gateway's key only."""
    return Call(chat, "POST", upstream_target(request.scope), await request.body())


def _of_upstream(chat: Chat, scope: Scope, method: str, target: str) -> Call:
    """The call of a request for a response of the upstream, which knows the gateway's key only.

    Raises:
        Forbidden: the key is not an admin's.
    """
    if not is_admin(scope):
        raise Forbidden("Responses of the upstream need the role 'admin'")
    return Call(chat, method, target, b"")


def _page(items: list[dict[str, Any]], limit: int, order: str, after: str) -> bytes:
    """A page of items, as JSON.

    Args:
        items: all items, the oldest one first.
        limit: maximum number of items.
        after: id of the item before the page; empty for the first page.

    Raises:
        ResponseNotFound: there is no such item.
    """
    ordered = items if order == "asc" else items[::-1]
    if after:
        ids = [item["id"] for item in ordered]
        if after not in ids:
            raise ResponseNotFound(NOT_FOUND)
        ordered = ordered[ids.index(after) + 1 :]
    data = ordered[:limit]
    return msgspec.json.encode(
        {
            "object": "list",
            "data": data,
            "first_id": data[0]["id"] if data else None,
            "last_id": data[-1]["id"] if data else None,
            "has_more": len(ordered) > limit,
        }
    )


def _sent(body: bytes) -> ASGIApp:
    async def send_json(scope: Scope, receive: Receive, send: Send) -> None:
        await send_body(scope, send, 200, [(b"content-type", b"application/json")], body)

    return send_json


RESPONSE_ROUTES: Final = (create_response, get_response, call_response, delete_response)
