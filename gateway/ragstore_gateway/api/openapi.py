"""The gateway's OpenAPI document: Litestar derives operations from the routes, msgspec schemas from the structs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec
from litestar import Litestar, Request, Response, get
from litestar.openapi.config import OpenAPIConfig

from ragstore.filters.schemas import FILTER_SCHEMAS
from ragstore.kit.auth.roles import PUBLIC
from ragstore.kit.errors import FieldError, error_classes
from ragstore.kit.openapi import (
    JsonSchema,
    complete_document,
    component_schemas,
    is_public,
    openapi_config,
    problem_code,
    problem_responses,
    problem_statuses,
    public_security,
    ref,
    security_schemes,
    without_marks,
)
from ragstore.kit.problems import Problem
from ragstore.kit.schema_marks import PROBLEM_CODE
from ragstore.kit.served_document import served_document
from ragstore_gateway import __version__
from ragstore_gateway.api.openai_errors import OpenAIErrorBody

if TYPE_CHECKING:
    from litestar.handlers import HTTPRouteHandler

OPERATION: Final = "operation"
"""Name of the route option with the parts of an operation that no type expresses. They replace the derived ones."""

COMPONENTS: Final = "components"
"""Key of the application's state: schemas that the routes' `OPERATION` refers to, by name."""

SECURITY_SCHEMES: Final = security_schemes("ragstore-gateway keys new")

DESCRIPTION: Final = """\
Embeddings, and OpenAI-compatible chat with retrieval, on top of ragstore.

Paths below `/v1` follow OpenAI's API, errors included. All other errors are problem documents (RFC 9457). Every
response has an `X-Request-ID`, which repeats the request's own if it has one.

If the gateway has keys, a request needs one, as `Authorization: Bearer` or as `X-API-Key`. A reader chats and searches.
A writer also ingests documents. An admin also configures."""

OPENAI_PATHS: Final = "/v1/"
"""Begins the paths whose errors are in OpenAI's shape."""

PROBLEMS: Final[dict[int, str]] = {
    400: "The request is invalid. Nothing was changed.",
    401: "The gateway requires a key, and the request has no valid one.",
    403: "The key's role does not permit this.",
    404: "The resource does not exist.",
    408: "The body did not arrive in time. Nothing was changed.",
    409: "The request conflicts with the state of the resource. Nothing was changed.",
    413: "The body is too large.",
    415: "The body's media type is not supported.",
    422: "The text of a document or a page cannot be extracted, or the page may not be fetched. Nothing was changed.",
    429: "The key exceeded a limit. `Retry-After` is the time to wait.",
    500: "Internal error.",
    501: "The gateway is not configured for this.",
    502: "The store, the upstream, an embedding provider or a website failed.",
    503: "A service that the gateway needs is unavailable or not configured, or the gateway is overloaded.",
    504: "The store, the upstream, an embedding provider or a website did not respond in time.",
}
"""Description of each problem status."""


TAGS: Final = {
    "chat": "OpenAI's chat API.",
    "embeddings": "Vectors of texts.",
    "conversations": "Steps of conversations: the retrieval for each chat with an assistant; and the audit ledger.",
    "knowledge bases": "Versioned configurations of knowledge bases.",
    "assistants": "Versioned configurations of assistants.",
    "questions": "Question sets of knowledge bases, and runs that measure how well searches find their passages.",
    "vector stores": "OpenAI's Vector Stores and Files API, over the knowledge bases.",
    "web": "Texts, search and summaries of web pages.",
    "service": "Service info and health.",
}
"""The tags of the routes, each with a description."""


def config() -> OpenAPIConfig:
    """Litestar's OpenAPI configuration."""
    return openapi_config("ragstore-gateway", __version__, DESCRIPTION, TAGS)


def body_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The option of a route whose body is read by hand.

    Args:
        kind: the struct of the body.
    """
    _, components = msgspec.json.schema_components([kind])
    schema = without_marks(_inlined(components[kind.__name__], components))
    return {OPERATION: {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}}


@get("/openapi.json", opt=PUBLIC, include_in_schema=False, media_type="application/json")
async def openapi_document(request: Request[Any, Any, Any]) -> Response[bytes]:
    """The OpenAPI document."""
    return await served_document(request, document)


def document(app: Litestar) -> str:
    """The OpenAPI document as JSON text, the same for the same code."""
    completed = complete_document(app, SECURITY_SCHEMES, _complete_operation)
    text = json.dumps(completed["paths"])
    responses = {**dict(problem_responses(PROBLEMS)), **dict(_openai_responses())}
    completed["components"] = {
        "schemas": _schemas(app),
        "securitySchemes": SECURITY_SCHEMES,
        "responses": {name: part for name, part in responses.items() if f'/responses/{name}"' in text},
    }
    return json.dumps(completed, indent=2, ensure_ascii=False) + "\n"


def _schemas(app: Litestar) -> JsonSchema:
    """All schemas of the document, by name."""
    codes = sorted(
        {
            kind.code
            for kind in error_classes(
                "ragstore.filters.grammar",
                "ragstore_gateway.errors",
                "ragstore_gateway.fetching.errors",
                "ragstore_gateway.sources.errors",
                "ragstore_gateway.tenants.errors",
            )
            if not kind.abstract
        }
    )
    written = {PROBLEM_CODE: problem_code(codes), **FILTER_SCHEMAS, **app.state.get(COMPONENTS, {})}
    return component_schemas(app, (Problem, FieldError, OpenAIErrorBody), written)


def _openai_responses() -> Iterator[tuple[str, JsonSchema]]:
    """The response component of each problem status in OpenAI's shape, with its name."""
    for name, response in problem_responses(PROBLEMS):
        content = {"application/json": {"schema": ref(OpenAIErrorBody.__name__)}}
        yield name.replace("Problem", "OpenAIError"), {**response, "content": content}


def _complete_operation(path: str, operation: JsonSchema, route: HTTPRouteHandler) -> None:
    """Complete an operation of Litestar's draft."""
    errors = "OpenAIError" if path.startswith(OPENAI_PATHS) else "Problem"
    written = _written(route)
    has_body = "requestBody" in operation or "requestBody" in written
    problems = {
        str(status): {"$ref": f"#/components/responses/{errors}{status}"}
        for status in problem_statuses(route, has_body=has_body)
    }
    declared = {str(status) for status in route.responses or {}}
    documented = {
        status: response
        for status, response in operation["responses"].items()
        if status in declared or status.startswith("2")
    }
    for response in documented.values():
        for header in response.get("headers", {}).values():
            header.pop("required", None)
            header.setdefault("schema", {"type": "string"})
        if "headers" in response:
            # Litestar has them in a set, whose order depends on the process.
            response["headers"] = dict(sorted(response["headers"].items()))
    responses = {**problems, **documented, **written.get("responses", {})}
    operation |= {**written, "responses": dict(sorted(responses.items()))}
    if is_public(route):
        operation["security"] = public_security(route, SECURITY_SCHEMES)


def _written(route: HTTPRouteHandler) -> JsonSchema:
    """The hand-written parts of a route's operation."""
    written: JsonSchema = route.opt.get(OPERATION, {})
    return written


def _inlined(schema: Any, components: dict[str, Any]) -> Any:
    """A schema whose references are replaced by the schemas that they refer to."""
    if isinstance(schema, list):
        return [_inlined(each, components) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(components[schema["$ref"].rpartition("/")[2]], components)
    return {name: _inlined(value, components) for name, value in schema.items() if name != "discriminator"}
