"""The responses of the OpenAPI document's operations, derived from their routes."""

from __future__ import annotations

from typing import Final

from litestar.handlers import HTTPRouteHandler

from ragstore.api.openapi.streams import response_lines
from ragstore.kit.decoding import JSON, MSGPACK, NDJSON
from ragstore.kit.openapi import JsonSchema, problem_statuses

PROBLEMS: Final[dict[int, str]] = {
    400: "The request is invalid. Nothing was changed.",
    401: "The service requires a key, and the request has no valid one.",
    403: "The key's role does not permit this.",
    404: "The collection or document does not exist.",
    408: "The body did not arrive in time. Nothing was changed.",
    409: "A collection or document that the request creates already exists. Nothing was changed.",
    413: "The body, or a line of a stream, is too large.",
    415: "The body's media type is not supported.",
    429: "The key exceeded its rate limit. `Retry-After` is the time to wait.",
    500: "Internal error.",
    502: "Chroma failed.",
    503: "Chroma is unavailable, or the service is overloaded. `Retry-After` is the time to wait.",
    504: "Chroma did not respond in time.",
}
"""Description of each problem status."""

SUCCESSES: Final[dict[str, str]] = {"200": "Success.", "201": "Created."}


def responses(route: HTTPRouteHandler, operation: JsonSchema) -> JsonSchema:
    """All responses of an operation.

    Args:
        route: the operation's route.
        operation: Litestar's draft. It has responses for the handler's return type, for `responses=`, and for
            validation errors.

    Returns:
        The responses by status.
    """
    declared = {str(status) for status in route.responses or {}}
    documented = {
        status: _documented(response, SUCCESSES.get(status) if status not in declared else None)
        for status, response in operation["responses"].items()
        if status in declared or status.startswith("2")
    }
    problems = {
        str(status): {"$ref": f"#/components/responses/Problem{status}"}
        for status in problem_statuses(route, has_body="requestBody" in operation)
    }
    return dict(sorted({**problems, **documented}.items()))


def _documented(response: JsonSchema, description: str | None) -> JsonSchema:
    """Litestar's draft of a response, with both media types.

    Args:
        response: the draft.
        description: a description to use instead of Litestar's.
    """
    if "content" not in response:
        return {"description": response["description"]}
    if NDJSON in response["content"]:
        content = response_lines()
    else:
        schema = response["content"][JSON]["schema"]
        content = {JSON: {"schema": schema}, MSGPACK: {"schema": schema}}
    documented = {"description": description or response["description"], "content": content}
    headers = {
        name: {"description": header["description"], "schema": {"type": "string"}}
        for name, header in response.get("headers", {}).items()
    }
    return documented | ({"headers": headers} if headers else {})
