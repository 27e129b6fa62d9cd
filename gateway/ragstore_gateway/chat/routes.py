"""The routes of OpenAI's API: chat completions, models, and everything else, which the upstream serves."""

from __future__ import annotations

from typing import Any, Final

from litestar import Request, Router, delete, get, post, route
from litestar.di import NamedDependency
from litestar.params import SkipValidation
from litestar.types import ASGIApp, ControllerRouterHandler

from ragstore.kit.auth.roles import READS
from ragstore.kit.errors import BodyTimeout, BodyTooLarge, NotFound, UnsupportedMediaType
from ragstore.kit.middleware.bodies import LARGE_BODY
from ragstore.kit.openapi import ERRORS
from ragstore_gateway.api.names import MAX_NAME_CHARACTERS
from ragstore_gateway.api.openapi import OPERATION
from ragstore_gateway.api.request_variables import SESSION_HEADER
from ragstore_gateway.chat.assembly import Chat
from ragstore_gateway.chat.calls import Call, completion_call, upstream_target
from ragstore_gateway.chat.model_calls import ListModels, model_call
from ragstore_gateway.chat.shown_passage import HEADER as PASSAGES_HEADER
from ragstore_gateway.conversations.conversation_id import HEADER
from ragstore_gateway.errors import (
    AuditUnavailable,
    DatabaseUnavailable,
    ModelNotFound,
    NotConfigured,
    RetrievalFailed,
    UpstreamFailed,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from ragstore_gateway.keys import ADMIN, READER
from ragstore_gateway.settings import Settings

ChatDependency = SkipValidation[NamedDependency[Chat]]

INFERENCE: Final = ("completions", "messages", "moderations", "rerank")
"""Calls of the upstream that a reader may make, beside chat: each computes something for its caller only."""

INFERENCE_FOLDERS: Final = ("audio", "images")
"""The same for all paths below."""

UPSTREAM_ERRORS: Final = (NotConfigured, UpstreamUnreachable, UpstreamTimeout, UpstreamFailed, NotFound)
MODEL_ERRORS: Final = (*UPSTREAM_ERRORS, DatabaseUnavailable)
CHAT_ERRORS: Final = (
    *UPSTREAM_ERRORS,
    RetrievalFailed,
    AuditUnavailable,
    DatabaseUnavailable,
    ModelNotFound,
    BodyTimeout,
    BodyTooLarge,
    UnsupportedMediaType,
)

_OBJECT: Final = {"type": "object", "additionalProperties": True}
_MESSAGE: Final = {"type": "object", "required": ["role"], "properties": {"role": {"type": "string"}}}
_COMPLETION: Final[dict[str, Any]] = {
    "parameters": [
        {
            "name": HEADER,
            "in": "header",
            "schema": {"type": "string"},
            "description": (
                "Id of the conversation, for an assistant: up to 200 letters, digits and `._:@=+~-`. In its place, the "
                "body may have `metadata.conversation_id`."
            ),
        },
        {
            "name": SESSION_HEADER,
            "in": "header",
            # A request that passes through may have any value, also in the next header.
            "schema": {"type": "string"},
            "description": (
                f"Session, the value of `{{session_id}}` in filters; for a `rag/` model up to {MAX_NAME_CHARACTERS} "
                "characters. In its place, the body may have `session_id` or `metadata.session_id`. It is ignored with "
                "`RAGSTORE_GATEWAY_SESSION_FROM=key`."
            ),
        },
        {
            "name": PASSAGES_HEADER,
            "in": "header",
            "schema": {"type": "string", "examples": ["true"]},
            "description": (
                "With `true`, the response of a `rag/` model has the passages of its prompt: `passages` of the object "
                "`rag`, or of the last delta of a stream. Such a model rejects other values than `true` and `false`."
            ),
        },
    ],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["model", "messages"],
                    "properties": {
                        "model": {"type": "string", "description": "A model of the upstream, or `rag/` and its name."},
                        "messages": {"type": "array", "minItems": 1, "items": _MESSAGE},
                        "stream": {"type": ["boolean", "null"]},
                    },
                    "additionalProperties": True,
                }
            }
        },
    },
    "responses": {
        "200": {
            "description": "The upstream's response: a completion, or a stream of its chunks.",
            "headers": {
                "X-RAG-Sources": {
                    "description": "Number of sources in the prompt of a `rag/` model.",
                    "schema": {"type": "integer"},
                },
                "X-RAG-Reason": {"description": "Why there are none.", "schema": {"type": "string"}},
            },
            "content": {"application/json": {"schema": _OBJECT}, "text/event-stream": {"schema": {}}},
        }
    },
}
_PASSED: Final = {
    "responses": {
        "200": {"description": "The upstream's response.", "content": {"application/json": {"schema": _OBJECT}}}
    }
}
_MODELS: Final = {
    "responses": {"200": {"description": "The models.", "content": {"application/json": {"schema": _OBJECT}}}}
}


@post(
    "/v1/chat/completions",
    opt={**READER, **READS, **LARGE_BODY, ERRORS: CHAT_ERRORS, OPERATION: _COMPLETION},
    operation_id="createChatCompletion",
    summary="Create a chat completion",
    tags=["chat"],
    status_code=200,
)
async def create_chat_completion(request: Request[Any, Any, Any], chat: ChatDependency) -> ASGIApp:
    """A chat completion, as in OpenAI's API.

    A model whose name begins with `rag/` gets the stored passages that belong to the question, and cites them. Every
    other request and its response pass through unchanged.
    """
    return await completion_call(chat, request.scope, await request.body())


@get(
    "/v1/models",
    opt={**READER, ERRORS: MODEL_ERRORS, OPERATION: _MODELS},
    operation_id="listModels",
    summary="List models",
    tags=["chat"],
    sync_to_thread=False,
)
def list_models(request: Request[Any, Any, Any], chat: ChatDependency) -> ASGIApp:
    """The upstream's models, and a `rag/` model for each."""
    return ListModels(chat, "GET", upstream_target(request.scope), b"")


@get(
    "/v1/models/{path:path}",
    opt={**READER, ERRORS: MODEL_ERRORS, OPERATION: _MODELS},
    operation_id="getModel",
    summary="Get a model",
    tags=["chat"],
    sync_to_thread=False,
)
def get_model(request: Request[Any, Any, Any], chat: ChatDependency) -> ASGIApp:
    """One model. Names may contain slashes."""
    return model_call(chat, upstream_target(request.scope))


@get(
    "/v1/chat/completions",
    opt={**ADMIN, ERRORS: UPSTREAM_ERRORS, OPERATION: _PASSED},
    operation_id="listChatCompletions",
    summary="List stored chat completions",
    tags=["chat"],
    sync_to_thread=False,
)
def list_chat_completions(request: Request[Any, Any, Any], chat: ChatDependency) -> ASGIApp:
    """The completions that the upstream stores for the gateway's key."""
    return Call(chat, "GET", upstream_target(request.scope), b"")


@delete(
    "/v1/models/{path:path}",
    opt={**ADMIN, ERRORS: UPSTREAM_ERRORS, OPERATION: _PASSED},
    operation_id="deleteModel",
    summary="Delete a model of the upstream",
    tags=["chat"],
    status_code=200,
    sync_to_thread=False,
)
def delete_model(request: Request[Any, Any, Any], chat: ChatDependency) -> ASGIApp:
    """Delete a fine-tuned model."""
    return Call(chat, "DELETE", upstream_target(request.scope), b"")


async def _pass_through(request: Request[Any, Any, Any], chat: ChatDependency) -> ASGIApp:
    """Any other request of OpenAI's API."""
    return Call(chat, request.method, upstream_target(request.scope), await request.body())


def _proxied(role: dict[str, Any], methods: tuple[str, ...], paths: list[str]) -> Any:
    """A handler that passes requests through."""
    return route(
        [f"/v1/{path}" for path in paths],
        http_method=methods,  # type: ignore[arg-type]  # Litestar's type is a list of its own enum
        opt={**role, **LARGE_BODY},
        include_in_schema=False,
        status_code=200,
    )(_pass_through)


_BELOW: Final = "{path:path}"


def chat_routes(settings: Settings, *others_below_v1: ControllerRouterHandler) -> Router:
    """The routes below `/v1`.

    Files, batches and stored completions belong to the upstream's account and not to one caller, so they need an admin
    key: the upstream knows the gateway's key only.

    Args:
        others_below_v1: further handlers of paths below `/v1`. Litestar accepts several handlers of a path in one
            router only.
    """
    # Litestar's routing does not go back from a known first segment, so each has its own paths.
    inference = [*INFERENCE, *(f"{folder}/{_BELOW}" for folder in INFERENCE_FOLDERS)]
    below = ["", "chat/", "chat/completions/", "embeddings/", *(f"{name}/" for name in INFERENCE)]
    return Router(
        "",
        route_handlers=[
            create_chat_completion,
            list_models,
            get_model,
            list_chat_completions,
            delete_model,
            *others_below_v1,
            _proxied({**READER, **READS}, ("POST",), inference),
            _proxied(ADMIN, ("GET", "PUT", "PATCH", "DELETE"), inference),
            _proxied(ADMIN, ("GET", "POST", "PUT", "PATCH", "DELETE"), [f"{start}{_BELOW}" for start in below]),
        ],
        request_max_body_size=settings.chat_max_body_bytes,
    )
