"""Errors in the shape of OpenAI's API, for every path below `/v1`.

Only the encoding differs from other paths: the message and the `code` come from the problem document.
`OpenAIErrorsMiddleware` changes the responses.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from ragstore.kit.errors import ServiceError
from ragstore.kit.problems import Problem, problem_of

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
