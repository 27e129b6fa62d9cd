"""The document: Litestar's, with schemas, errors, MessagePack, examples and links filled in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec
from litestar import Litestar, Router
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import SwaggerRenderPlugin
from litestar.openapi.spec import License, Schema, Server, Tag
from litestar.plugins import OpenAPISchemaPlugin
from litestar.typing import FieldDefinition

from ragstore import __version__
from ragstore.api.openapi.components import JsonSchema, component_schemas, ref
from ragstore.api.openapi.examples import BODIES, PARAMETERS
from ragstore.api.openapi.streams import STREAM, answer_lines, document_lines
from ragstore.kit.auth.roles import PUBLIC as PUBLIC_ROUTE
from ragstore.kit.decoding import JSON, MSGPACK
from ragstore.kit.middleware.security_headers import with_policy
from ragstore.model.numbers import MAX_WHOLE

if TYPE_CHECKING:
    from litestar import Request
    from litestar._openapi.schema_generation import SchemaCreator

METHODS: Final = ("get", "post", "put", "delete")
PROBLEM: Final = "application/problem+json"

KEYS_REQUIRED: Final = "keys_required"
"""The name under which the application's state tells whether callers need a key."""

PROBLEMS: Final[dict[int, str]] = {
    400: "The request is malformed; nothing was changed.",
    401: "The service has keys, and the request shows none that is valid.",
    403: "The key may not do this.",
    404: "There is no such collection or document.",
    408: "The body did not come in time; nothing was changed.",
    409: "What was to be created is there already; nothing was changed.",
    413: "The body, or a line of a stream, is too large.",
    415: "The body is of a media type that is not read here.",
    429: "The key has asked too often. `Retry-After` tells when to try again.",
    500: "The service has a defect.",
    502: "Chroma failed.",
    503: "Chroma is away, or the service is full. `Retry-After` tells when to try again.",
    504: "Chroma did not answer in time.",
}
"""What an answer of each status means."""

CREATES: Final = ("createCollection", "addDocuments", STREAM)
"""Operations that may conflict with what is there."""

PUBLIC: Final = ("describeService", "getLiveness", "getReadiness")
"""Operations that never need a key."""

SECURITY_SCHEMES: Final[dict[str, JsonSchema]] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A key, made by `ragstore keys new`."},
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same, in another header."},
}

SUCCESSES: Final[dict[str, str]] = {
    "200": "Done.",
    "201": "Created.",
}

DESCRIPTION: Final = """Stores documents with pre-computed embeddings in ChromaDB and finds them again.

Bodies are JSON or MessagePack (`application/msgpack`), answers are what `Accept` prefers of the two; a stream is JSON,
a line each, both ways. Errors are problem documents (RFC 9457). Fields that are not known are ignored. Every answer
carries an `X-Request-ID`, the caller's own where it sent one, and a `Server-Timing` that tells the share of the store.

A service that has keys asks for one, as `Authorization: Bearer` or as `X-API-Key`. A reader reads and queries; a writer
also writes documents, creates collections and changes their metadata; an admin also deletes collections. What a key may
not see does not exist for it."""


class StructSchemas(OpenAPISchemaPlugin):
    """Leaves the schemas of structs to msgspec."""

    def is_plugin_supported_field(self, field_definition: FieldDefinition) -> bool:
        """Whether a field is a struct."""
        return not field_definition.is_union and field_definition.is_subclass_of(msgspec.Struct)

    def to_openapi_schema(self, field_definition: FieldDefinition, schema_creator: SchemaCreator) -> Schema:
        """A place among the components; `document` fills it."""
        return schema_creator.create_component_schema(field_definition, required=[], property_fields={})


class Docs(SwaggerRenderPlugin):
    """Swagger UI over the finished document."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        """Render the page."""
        return super().render(request, completed(openapi_schema, request.app.state.get(KEYS_REQUIRED, False)))


def config() -> OpenAPIConfig:
    """Litestar's OpenAPI configuration."""
    return OpenAPIConfig(
        title="ragstore",
        version=__version__,
        description=DESCRIPTION,
        license=License(name="Apache 2.0", identifier="Apache-2.0"),
        servers=[Server(url="http://127.0.0.1:8080", description="As `make run` serves it.")],
        tags=[
            Tag(name="collections", description="Collections and their metadata."),
            Tag(name="documents", description="Documents with their embeddings."),
            Tag(name="query", description="Similarity queries."),
            Tag(name="service", description="The service itself."),
        ],
        openapi_router=Router(
            "/docs", route_handlers=[], include_in_schema=False, opt=PUBLIC_ROUTE, after_request=with_policy
        ),
        render_plugins=[Docs(path="/")],
        use_handler_docstrings=True,
    )


def document(app: Litestar) -> str:
    """The OpenAPI document.

    Args:
        app: the application.

    Returns:
        The document as JSON text, the same for the same code.
    """
    required = app.state.get(KEYS_REQUIRED, False)
    return json.dumps(completed(app.openapi_schema.to_schema(), required), indent=2, ensure_ascii=False) + "\n"


def completed(drafted: dict[str, Any], keys_required: bool) -> JsonSchema:
    """Fill in what Litestar cannot know.

    Args:
        drafted: Litestar's document.
        keys_required: whether callers need a key; else a key is one way among others.

    Returns:
        The finished document.
    """
    finished: JsonSchema = msgspec.json.decode(msgspec.json.encode(_plain(drafted)))
    finished["security"] = [*([] if keys_required else [{}]), *({name: []} for name in SECURITY_SCHEMES)]
    finished["components"] = {
        "schemas": component_schemas(),
        "responses": dict(_problem_responses()),
        "securitySchemes": SECURITY_SCHEMES,
    }
    for _, path_item in sorted(finished["paths"].items()):
        for method in METHODS:
            if method in path_item:
                _complete_operation(path_item[method])
    finished["paths"] = dict(sorted(finished["paths"].items()))
    _link(finished["paths"])
    return finished


def _plain(value: Any) -> Any:
    """Litestar writes whole bounds as floats, and says of everything that it is not deprecated."""
    if isinstance(value, dict):
        noise = ("deprecated", "allowEmptyValue", "allowReserved")
        return {key: _plain(item) for key, item in value.items() if not (key in noise and item is False)}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(min(value, MAX_WHOLE)) if isinstance(value, float) and value.is_integer() else value


def _problem_responses() -> Iterator[tuple[str, JsonSchema]]:
    for status, description in PROBLEMS.items():
        response: JsonSchema = {"description": description, "content": {PROBLEM: {"schema": ref("Problem")}}}
        if status in (429, 503):
            response["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
        if status == 401:
            response["headers"] = {
                "WWW-Authenticate": {"description": "How to show a key.", "schema": {"type": "string"}}
            }
        yield f"Problem{status}", response


def _complete_operation(operation: JsonSchema) -> None:
    name = operation["operationId"]
    for parameter in operation.get("parameters", []):
        _complete_parameter(parameter)
    if name == STREAM:
        operation["requestBody"] = document_lines()
    elif body := operation.get("requestBody"):
        schema = body["content"][JSON]["schema"]
        example = {"schema": schema} | ({"example": BODIES[name]} if name in BODIES else {})
        body["content"] = {JSON: example, MSGPACK: {"schema": schema}}
    operation["responses"] = _responses(operation)
    if name in PUBLIC:
        operation["security"] = []


def _complete_parameter(parameter: JsonSchema) -> None:
    """A query parameter is absent, not null; filters are JSON of a schema, not text."""
    schema = parameter["schema"]
    schema.pop("description", None)
    if parameter["in"] == "path":
        schema.pop("default", None)
    if schema.get("default") == MAX_WHOLE:
        del schema["default"]  # stands for "all"
    for choice in schema.pop("oneOf", []):
        if choice != {"type": "null"}:
            schema |= choice
    if parameter["name"] == "where":
        del parameter["schema"]
        parameter["content"] = {JSON: {"schema": ref("Where"), "example": {"section_id": "heating"}}}
    elif parameter["name"] == "where_document":
        del parameter["schema"]
        parameter["content"] = {JSON: {"schema": ref("WhereDocument"), "example": {"$contains": "boiler"}}}
    elif parameter["name"] == "ids":
        schema["items"] = {"type": "string", "minLength": 1}
    if parameter["name"] in PARAMETERS:
        parameter["example"] = PARAMETERS[parameter["name"]]


def _responses(operation: JsonSchema) -> JsonSchema:
    """The answers of an operation: those that succeed as drafted, and every problem it can meet."""
    drafted = {status: answer for status, answer in operation["responses"].items() if status.startswith("2")}
    for status, answer in drafted.items():
        answer["description"] = SUCCESSES[status]
        answer.pop("headers", None)
        if operation["operationId"] == STREAM:
            answer["content"] = answer_lines()
            continue
        schema = answer["content"][JSON]["schema"]
        answer["content"] = {JSON: {"schema": schema}, MSGPACK: {"schema": schema}}
    name = operation["operationId"]
    if name == "createCollection":
        drafted["200"] = {**drafted["201"], "description": "It was there already, and `get_or_create` was asked for."}
        drafted["201"]["headers"] = {
            "Location": {"description": "The collection's path.", "schema": {"type": "string"}}
        }
    problems = {status: {"$ref": f"#/components/responses/Problem{status}"} for status in _problems_of(operation)}
    if name in ("getHealth", "getReadiness"):
        drafted["503"] = {**drafted["200"], "description": "Chroma does not answer."}
        problems.pop(503, None)
    return dict(sorted({**drafted, **{str(status): answer for status, answer in problems.items()}}.items()))


def _problems_of(operation: JsonSchema) -> set[int]:
    parameters = {parameter["name"] for parameter in operation.get("parameters", [])}
    problems = {400, 500}
    if operation["operationId"] not in PUBLIC:
        problems |= {401, 403, 429}
    if "service" not in operation["tags"]:
        problems |= {502, 503, 504}
    if "collection_name" in parameters or operation["operationId"] == "query":
        problems.add(404)
    if "requestBody" in operation:
        problems |= {408, 413, 415}
    if operation["operationId"] in CREATES:
        problems.add(409)
    return problems


def _link(paths: JsonSchema) -> None:
    """Tell which operations go on from what a creation made, for readers and for stateful tests."""
    of_collection = {
        item[method]["operationId"]: {
            "operationId": item[method]["operationId"],
            "parameters": {"collection_name": "$response.body#/name"},
        }
        for path, item in paths.items()
        for method in METHODS
        if method in item and "{collection_name}" in path and "{document_id}" not in path
    }
    for status in ("200", "201"):
        paths["/collections"]["post"]["responses"][status]["links"] = of_collection
    documents = paths["/collections/{collection_name}/documents"]
    written = {
        "collection_name": "$response.body#/collection",
        "document_id": "$response.body#/ids/0",
    }
    for method, status in (("post", "201"), ("put", "200")):
        documents[method]["responses"][status]["links"] = {
            "getDocument": {"operationId": "getDocument", "parameters": written}
        }
