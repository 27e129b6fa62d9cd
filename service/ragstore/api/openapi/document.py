"""The OpenAPI document: Litestar's draft, completed with schemas, errors, MessagePack, examples and links."""

from __future__ import annotations

import json
from typing import Final

from litestar import Litestar
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.config import OpenAPIConfig

from ragstore import __version__
from ragstore.api.openapi.components import schemas_of
from ragstore.api.openapi.examples import BODIES, PARAMETERS
from ragstore.api.openapi.responses import PROBLEMS, responses
from ragstore.api.openapi.streams import request_lines
from ragstore.kit.decoding import JSON, MSGPACK, NDJSON
from ragstore.kit.numbers import MAX_WHOLE
from ragstore.kit.openapi import (
    METHODS,
    JsonSchema,
    complete_document,
    is_public,
    openapi_config,
    problem_responses,
    public_security,
    ref,
    security_schemes,
)

SECURITY_SCHEMES: Final = security_schemes("ragstore keys new")

DESCRIPTION: Final = """\
Stores documents with pre-computed embeddings in ChromaDB and serves similarity search over them.

Request bodies are JSON or MessagePack (`application/msgpack`). Responses are JSON, or MessagePack if `Accept` prefers
it. A stream is newline-delimited JSON in both directions. Errors are problem documents (RFC 9457). Unknown fields are
ignored. Every response has an `X-Request-ID`, which repeats the request's own if it has one, and a `Server-Timing`
with the time spent in the store.

If the service has keys, a request needs one, as `Authorization: Bearer` or as `X-API-Key`. A reader reads and queries.
A writer also writes documents, creates collections and changes their metadata. An admin also deletes collections. A
collection that a key may not access is reported as not found."""

TAGS: Final = {
    "collections": "Collections and their metadata.",
    "documents": "Documents with their embeddings.",
    "query": "Similarity queries.",
    "service": "Service info and health.",
}
"""The tags of the routes, each with a description."""


def config() -> OpenAPIConfig:
    """Litestar's OpenAPI configuration."""
    return openapi_config("ragstore", __version__, DESCRIPTION, TAGS)


def document(app: Litestar) -> str:
    """The OpenAPI document as JSON text, the same for the same code."""
    completed = complete_document(app, SECURITY_SCHEMES, _complete_operation)
    completed["components"] = {
        "schemas": schemas_of(app),
        "responses": dict(problem_responses(PROBLEMS)),
        "securitySchemes": SECURITY_SCHEMES,
    }
    _add_links(completed["paths"])
    return json.dumps(completed, indent=2, ensure_ascii=False) + "\n"


def _complete_operation(_: str, operation: JsonSchema, route: HTTPRouteHandler) -> None:
    name = operation["operationId"]
    for parameter in operation.get("parameters", []):
        _complete_parameter(parameter)
    if route.media_type == NDJSON:
        operation["requestBody"] = request_lines(name)
    elif body := operation.get("requestBody"):
        schema = body["content"][JSON]["schema"]
        example = {"schema": schema} | ({"example": BODIES[name]} if name in BODIES else {})
        body["content"] = {JSON: example, MSGPACK: {"schema": schema}}
    operation["responses"] = responses(route, operation)
    if is_public(route):
        operation["security"] = public_security(route, SECURITY_SCHEMES)


def _complete_parameter(parameter: JsonSchema) -> None:
    """A query parameter is absent, not null; a filter is JSON with a schema, not text."""
    schema = parameter["schema"]
    schema.pop("description", None)
    if parameter["in"] == "path":
        schema.pop("default", None)
    if schema.get("default") == MAX_WHOLE:
        del schema["default"]  # means "all"
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


def _add_links(paths: JsonSchema) -> None:
    """Link operations that create something to the operations that use it, for readers and for stateful tests."""
    collection_links = {
        item[method]["operationId"]: {
            "operationId": item[method]["operationId"],
            "parameters": {"collection_name": "$response.body#/name"},
        }
        for path, item in paths.items()
        for method in METHODS
        if method in item and "{collection_name}" in path and "{document_id}" not in path
    }
    for status in ("200", "201"):
        paths["/collections"]["post"]["responses"][status]["links"] = collection_links
    documents = paths["/collections/{collection_name}/documents"]
    parameters = {
        "collection_name": "$response.body#/collection",
        "document_id": "$response.body#/ids/0",
    }
    for method, status in (("post", "201"), ("put", "200")):
        documents[method]["responses"][status]["links"] = {
            "getDocument": {"operationId": "getDocument", "parameters": parameters}
        }
