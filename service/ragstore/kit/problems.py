"""Problem documents (RFC 9457): every error that a caller sees is made and encoded here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec
import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.types import ExceptionHandlersMap, Send
from msgspec import Meta, Struct

from ragstore.kit import errors
from ragstore.kit.context import record_error
from ragstore.kit.errors import FieldError, InvalidRequest, ServiceError
from ragstore.kit.misfits import choices, field_of, readable
from ragstore.kit.schema_marks import PROBLEM_CODE, schema

MEDIA_TYPE: Final = "application/problem+json"

MAX_ERRORS: Final = 100
"""Maximum number of fields that a problem document lists."""

MAX_ERRORS_BYTES: Final = 48 * 1024
"""Maximum size of the list. A problem document stays below 64 KiB."""

MAX_DETAIL: Final = 2000
MAX_PATH: Final = 300
MAX_MESSAGE: Final = 500
"""Maximum lengths in characters; a longer text ends with an ellipsis."""

_MISSING: Final = re.compile(r"Missing required (query|header|cookie|path) parameter '([^']*)'")
"""Litestar's message for a parameter."""

_log = structlog.get_logger(__name__)


class Problem(Struct, frozen=True, omit_defaults=True):
    """An error, as a problem document (RFC 9457)."""

    type: Annotated[str, Meta(description="Always `about:blank`: there is no page about the kind of error.")]
    title: Annotated[str, Meta(description="The kind of error, for people.")]
    status: Annotated[int, Meta(description="The HTTP status.", ge=400, le=599)]
    code: Annotated[str, schema(PROBLEM_CODE)]
    detail: Annotated[str, Meta(description="The reason, for people.")]
    errors: Annotated[
        tuple[FieldError, ...],
        Meta(max_length=MAX_ERRORS, description="The fields to blame, where some are."),
    ] = ()
    errors_omitted: Annotated[
        int, Meta(ge=0, description="Number of fields to blame that `errors` does not list. Absent means 0.")
    ] = 0


def problem_of(error: ServiceError) -> Problem:
    """The problem document of an error."""
    listed: list[FieldError] = []
    size = 0
    for field in error.field_errors[:MAX_ERRORS]:
        listed.append(_shortened(field))
        size += len(msgspec.json.encode(listed[-1])) + 1
        if size > MAX_ERRORS_BYTES:
            listed.pop()
            break
    return Problem(
        "about:blank",
        error.title,
        error.status,
        error.code,
        _short(error.detail, MAX_DETAIL),
        tuple(listed),
        len(error.field_errors) - len(listed),
    )


def _shortened(field: FieldError) -> FieldError:
    """A field error whose path and message are not too long: both may contain a key or an id of the request."""
    if len(field.path) <= MAX_PATH and len(field.message) <= MAX_MESSAGE:
        return field
    return FieldError(_short(field.path, MAX_PATH), _short(field.message, MAX_MESSAGE), field.line)


def _short(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else text[: max_length - 1] + "…"


def encode_problem(error: ServiceError) -> bytes:
    """The problem document of an error, as the body of a response."""
    return msgspec.json.encode(problem_of(error))


async def send_problem(send: Send, error: ServiceError) -> None:
    """Respond with an error from outside Litestar.

    Args:
        send: the ASGI callable.
    """
    record_error(error)
    body = encode_problem(error)
    headers = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), **error.headers}
    await send(
        {
            "type": "http.response.start",
            "status": error.status,
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        }
    )
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _response(problem: Problem, headers: dict[str, str]) -> Response[bytes]:
    return Response(msgspec.json.encode(problem), status_code=problem.status, media_type=MEDIA_TYPE, headers=headers)


def from_service_error(_: Request[Any, Any, Any], error: ServiceError) -> Response[bytes]:
    """The response to one of the service's own errors."""
    record_error(error)
    return _response(problem_of(error), error.headers)


def invalid_parameters(error: ValidationException) -> list[dict[str, Any]]:
    """The parameters that Litestar rejects, each with `message` and `key`."""
    return [entry for entry in error.extra or () if isinstance(entry, dict)]


def from_validation_exception(request: Request[Any, Any, Any], error: ValidationException) -> Response[bytes]:
    """The response to parameters that Litestar rejects."""
    field_errors = []
    for entry in invalid_parameters(error):
        key = str(entry.get("key", ""))
        message = readable(str(entry.get("message", "is not valid")), _choices(request, key))
        path = f"$.{_wire_name(request, key)}" if key else "$"
        if key == "data":
            path, message = _of_body(message)
        field_errors.append(FieldError(path, message))
    if not field_errors:
        # What follows "for" repeats the URL.
        missing = _MISSING.match(error.detail)
        if missing is None:
            detail = error.detail.partition(" for ")[0]
            return from_service_error(request, InvalidRequest(detail or "The request is not valid"))
        field_errors.append(FieldError(f"$.{missing[2]}", f"The {missing[1]} parameter is required"))
    detail = "; ".join(f"{error.message}: {error.path}" for error in field_errors)
    return from_service_error(request, InvalidRequest(detail, field_errors))


def _of_body(message: str) -> tuple[str, str]:
    """Path and message of an error in a body, which names a field if one is missing or unknown."""
    field = field_of(message)
    return ("$", "A body is required") if field is None else (f"$.{field[0]}", field[1])


def _wire_name(request: Request[Any, Any, Any], parameter: str) -> str:
    """The name of a parameter in requests, which may differ from that in the handler."""
    field = request.route_handler.parsed_fn_signature.parameters.get(parameter)
    return getattr(field.kwarg_definition, "name", None) or parameter if field is not None else parameter


def _choices(request: Request[Any, Any, Any], parameter: str) -> Sequence[object]:
    """The accepted values of a parameter, or of the items of its list, if it has a choice of them."""
    field = request.route_handler.parsed_fn_signature.parameters.get(parameter)
    return () if field is None else choices(field.annotation, "$") or choices(field.annotation, "$[0]")


_OF_STATUS: Final[dict[int, type[ServiceError]]] = {
    kind.status: kind
    for kind in (
        errors.InvalidRequest,
        errors.Unauthorized,
        errors.Forbidden,
        errors.NotFound,
        errors.MethodNotAllowed,
        errors.BodyTooLarge,
        errors.UnsupportedMediaType,
        errors.RateLimited,
        errors.Overloaded,
    )
}


def from_http_exception(_: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """The response to Litestar's own errors: no such route, wrong method, body too large."""
    other = InvalidRequest if error.status_code < HTTPStatus.INTERNAL_SERVER_ERROR else ServiceError
    kind = _OF_STATUS.get(error.status_code, other)
    problem = Problem("about:blank", kind.title, error.status_code, kind.code, error.detail)
    return _response(problem, error.headers or {})


def from_unhandled(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """The response to an exception that nothing handled. The log gets its type and location, never its text."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    location = "" if trace is None else f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}"
    _log.error("unhandled exception", error=type(error).__name__, place=location)
    return from_service_error(request, ServiceError("The service failed; the fault is not the request's"))


EXCEPTION_HANDLERS: Final[ExceptionHandlersMap] = {
    ServiceError: from_service_error,
    ValidationException: from_validation_exception,
    HTTPException: from_http_exception,
    Exception: from_unhandled,
}
"""For Litestar: every exception becomes a problem document."""
