"""The gateway's OpenAPI document: Litestar derives operations from the routes, msgspec schemas from the structs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec
from litestar import Litestar, Request, Response, get
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.spec import Schema
from litestar.typing import FieldDefinition

from ragstore.filters.schemas import FILTER_SCHEMAS
from ragstore.kit.auth.roles import PUBLIC
from ragstore.kit.errors import FieldError, error_classes
from ragstore.kit.openapi import (
    METHODS,
    REF,
    JsonSchema,
    StructSchemas,
    is_public,
    openapi_config,
    problem_code,
    problem_responses,
    problem_statuses,
    public_security,
    ref,
    routes_by_operation,
    security_schemes,
    without_marks,
    without_noise,
)
from ragstore.kit.problems import Problem
from ragstore.kit.schema_marks import PROBLEM_CODE
from ragstore.kit.served_document import served_document
from ragstore_gateway import __version__
from ragstore_gateway.api.openai_errors import OpenAIErrorBody

if TYPE_CHECKING:
    from litestar._openapi.schema_generation import SchemaCreator
    from litestar.handlers import HTTPRouteHandler

KEYS_REQUIRED: Final = "keys_required"
"""Key of the application's state: whether requests need a key."""

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


class RecordedStructs(StructSchemas):
    """Leaves the schemas of structs to msgspec, and records the structs.

    Attributes:
        structs: the structs of all routes.
    """

    def __init__(self) -> None:
        self.structs: dict[str, type[msgspec.Struct]] = {}

    def to_openapi_schema(self, field_definition: FieldDefinition, schema_creator: SchemaCreator) -> Schema:
        """An empty component, to be replaced by msgspec's."""
        kind = field_definition.annotation
        self.structs[kind.__name__] = kind
        return super().to_openapi_schema(field_definition, schema_creator)


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
    return json.dumps(_complete(app, app.openapi_schema.to_schema()), indent=2, ensure_ascii=False) + "\n"


def _complete(app: Litestar, draft: dict[str, Any]) -> JsonSchema:
    """Complete Litestar's document with schemas, errors and keys."""
    completed: JsonSchema = msgspec.json.decode(msgspec.json.encode(without_noise(draft)))
    anonymous: list[JsonSchema] = [] if app.state.get(KEYS_REQUIRED, False) else [{}]
    completed["security"] = [*anonymous, *({name: []} for name in SECURITY_SCHEMES)]
    completed["components"] = {
        "schemas": _schemas(app),
        "securitySchemes": SECURITY_SCHEMES,
    }
    routes = dict(routes_by_operation(app))
    for path, path_item in completed["paths"].items():
        errors = "OpenAIError" if path.startswith(OPENAI_PATHS) else "Problem"
        for method in METHODS:
            if method in path_item:
                _complete_operation(path_item[method], routes[path_item[method]["operationId"]], errors)
    completed["paths"] = dict(sorted(completed["paths"].items()))
    text = json.dumps(completed["paths"])
    responses = {**dict(problem_responses(PROBLEMS)), **dict(_openai_responses())}
    used = {name: part for name, part in responses.items() if f'/responses/{name}"' in text}
    completed["components"]["responses"] = used
    return completed


def _schemas(app: Litestar) -> JsonSchema:
    """All schemas of the document, by name."""
    recorded = app.plugins.get(RecordedStructs).structs.values()
    _, derived = msgspec.json.schema_components([Problem, FieldError, OpenAIErrorBody, *recorded], ref_template=REF)
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
    return dict(sorted({**{name: without_marks(schema) for name, schema in derived.items()}, **written}.items()))


def _openai_responses() -> Iterator[tuple[str, JsonSchema]]:
    """The response component of each problem status in OpenAI's shape, with its name."""
    for name, response in problem_responses(PROBLEMS):
        content = {"application/json": {"schema": ref(OpenAIErrorBody.__name__)}}
        yield name.replace("Problem", "OpenAIError"), {**response, "content": content}


def _complete_operation(operation: JsonSchema, route: HTTPRouteHandler, errors: str) -> None:
    """Complete an operation of Litestar's draft.

    Args:
        errors: beginning of the names of its error responses.
    """
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
