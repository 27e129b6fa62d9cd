"""How errors become problem documents: what Litestar's problem-details plugin is told."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Literal

import msgspec
import structlog
from litestar import Request
from litestar.exceptions import HTTPException, ValidationException
from litestar.plugins.problem_details import ProblemDetailsConfig, ProblemDetailsException, ProblemDetailsPlugin
from msgspec import UNSET, Meta, Struct, UnsetType

from ragstore.kit.errors import FieldProblem, InvalidRequest, ServiceError, Unauthorized, without_value

BLANK = "about:blank"
"""RFC 9457: the status tells the kind, there is no page about it."""

_log = structlog.get_logger(__name__)


def from_service_error(error: ServiceError) -> ProblemDetailsException:
    """A problem document for one of our own errors."""
    extra: dict[str, Any] | None = None
    if error.problems:
        extra = {"errors": msgspec.to_builtins(error.problems)}
    headers = None if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    return ProblemDetailsException(
        detail=error.detail,
        status_code=error.status,
        title=error.title,
        type_=BLANK,
        headers={"WWW-Authenticate": error.CHALLENGE} if isinstance(error, Unauthorized) else headers,
        extra=extra,
    )


def refusals(error: ValidationException) -> list[dict[str, Any]]:
    """What Litestar refused, each with `message` and `key`."""
    return [told for told in error.extra or () if isinstance(told, dict)]


def of_validation_exception(error: ValidationException) -> ProblemDetailsException:
    """A problem document for parameters that Litestar refused."""
    problems = []
    for told in refusals(error):
        message, key = without_value(str(told.get("message", "is not valid"))), str(told.get("key", ""))
        if key == "data":
            message = "A body is required"
        problems.append(FieldProblem(f"$.{key}" if key and key != "data" else "$", message))
    if not problems:  # a required parameter is missing; what follows "for" repeats the URL
        return from_service_error(InvalidRequest(error.detail.partition(" for ")[0] or "The request is not valid"))
    detail = "; ".join(f"{problem.message}: {problem.path}" for problem in problems)
    return from_service_error(InvalidRequest(detail, problems))


def of_http_exception(error: HTTPException) -> ProblemDetailsException:
    """A problem document for what Litestar itself answers: no such route, wrong method, body too large."""
    title = HTTPStatus(error.status_code).phrase
    return ProblemDetailsException(
        detail=error.detail or title,
        status_code=error.status_code,
        title=title,
        type_=BLANK,
        headers=error.headers,
    )


def from_unhandled(request: Request[Any, Any, Any], error: Exception) -> Any:
    """The answer to an error that nobody foresaw. The log gets its type and place, never its text."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}"
    _log.error("defect", error=type(error).__name__, place=place)
    problem = from_service_error(ServiceError("The service failed; the fault is not the request's"))
    return problem.to_response(request)


def problem_details() -> ProblemDetailsPlugin:
    """Litestar's plugin, told of all our errors."""
    return ProblemDetailsPlugin(
        ProblemDetailsConfig(
            exception_to_problem_detail_map={
                ServiceError: from_service_error,
                ValidationException: of_validation_exception,
                HTTPException: of_http_exception,
            }
        )
    )


class Problem(Struct, frozen=True, omit_defaults=True):
    """An error, as a problem document (RFC 9457)."""

    type: Annotated[str, Meta(description="Always `about:blank`: the status tells the kind.")]
    title: Annotated[str, Meta(description="The kind of error.")]
    status: Annotated[int, Meta(description="The HTTP status.", ge=400, le=599)]
    detail: Annotated[str, Meta(description="What is wrong, for a person to read.")]
    errors: Annotated[tuple[FieldProblem, ...], Meta(description="The fields to blame, where some are.")] = ()


class Probe(Struct, frozen=True, omit_defaults=True):
    """An answer for a probe."""

    status: Literal["alive", "ready", "unready"]
    error: Annotated[str | UnsetType, Meta(description="Why it is not ready.")] = UNSET
