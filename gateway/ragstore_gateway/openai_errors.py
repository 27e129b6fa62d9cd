"""Errors in the shape of OpenAI's API, for every route below `/v1`.

A route sets `exception_handlers=OPENAI_EXCEPTION_HANDLERS`. Only the encoding differs from that of other routes: the
message and the `code` are those of the problem document.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.types import ExceptionHandlersMap
from msgspec import Meta, Struct

from ragstore.kit.errors import ServiceError
from ragstore.kit.problems import (
    Problem,
    from_http_exception,
    from_unhandled,
    from_validation_exception,
    problem_of,
)

_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


class OpenAIError(Struct, frozen=True):
    """An error of OpenAI's API."""

    message: Annotated[str, Meta(description="The reason, for people.")]
    type: Annotated[str, Meta(description="The kind of error.")]
    param: Annotated[str | None, Meta(description="The field to blame, if one is.")] = None
    code: Annotated[str | None, Meta(description="The code of the error.")] = None


class OpenAIErrorBody(Struct, frozen=True):
    """The body of an error of OpenAI's API."""

    error: OpenAIError


def openai_error(problem: Problem) -> OpenAIErrorBody:
    """An error in OpenAI's shape.

    Args:
        problem: the error as a problem document.
    """
    other = "invalid_request_error" if problem.status < 500 else "server_error"
    param = problem.errors[0].path.removeprefix("$").removeprefix(".") if problem.errors else ""
    return OpenAIErrorBody(
        OpenAIError(problem.detail, _TYPES.get(problem.status, other), param or None, problem.code),
    )


def encode_openai_error(error: ServiceError) -> bytes:
    """One of the service's errors, as the body of a response."""
    return msgspec.json.encode(openai_error(problem_of(error)))


def _encoded(problem: Response[bytes]) -> Response[bytes]:
    """The response with a problem document, in OpenAI's shape, with the same headers."""
    body = openai_error(msgspec.json.decode(problem.content, type=Problem))
    return Response(
        msgspec.json.encode(body),
        status_code=problem.status_code,
        media_type="application/json",
        headers={name: value for name, value in problem.headers.items() if name.lower() != "content-type"},
    )


def from_service_error(_: Request[Any, Any, Any], error: ServiceError) -> Response[bytes]:
    """The response to one of the service's own errors."""
    return Response(
        encode_openai_error(error), status_code=error.status, media_type="application/json", headers=error.headers
    )


def _from_validation(request: Request[Any, Any, Any], error: ValidationException) -> Response[bytes]:
    return _encoded(from_validation_exception(request, error))


def _from_http(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    return _encoded(from_http_exception(request, error))


def _from_unhandled(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    return _encoded(from_unhandled(request, error))


OPENAI_EXCEPTION_HANDLERS: Final[ExceptionHandlersMap] = {
    ServiceError: from_service_error,
    ValidationException: _from_validation,
    HTTPException: _from_http,
    Exception: _from_unhandled,
}
"""For a route or a router of Litestar."""
