"""The base of a service's errors, and the errors that any service has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Self

import msgspec


class FieldProblem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One field that is to blame."""

    path: Annotated[str, msgspec.Meta(description="Its place in the request, such as `$.documents[3].embedding`.")]
    message: Annotated[str, msgspec.Meta(description="What is wrong with it.")]
    line: Annotated[
        int | msgspec.UnsetType,
        msgspec.Meta(description="In a stream: the line, counted from 1. `path` is then a place in its document."),
    ] = msgspec.UNSET


def without_value(message: str) -> str:
    """What msgspec says is wrong, without the value that it repeats when it is none of a few words.

    Args:
        message: such as "Invalid enum value 'euclid'".

    Returns:
        Such as "Invalid enum value".
    """
    return "Invalid enum value" if message.startswith("Invalid enum value") else message


class ServiceError(Exception):
    """Base of every error that a caller is told about.

    Args:
        detail: one sentence or two for the caller.
        problems: the fields to blame, if any.
    """

    status: ClassVar[int] = 500
    title: ClassVar[str] = "Internal error"
    retry_after: int | None = None
    """Seconds after which trying again makes sense."""

    def __init__(self, detail: str, problems: Sequence[FieldProblem] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.problems = tuple(problems)

    def with_detail(self, detail: str, problems: Sequence[FieldProblem]) -> Self:
        """The same error in other words. Several callers may have been told of one error, so it stays as it is.

        Args:
            detail: one sentence or two for the caller.
            problems: the fields to blame, if any.

        Returns:
            A copy.
        """
        copy = type(self).__new__(type(self), detail)
        vars(copy).update(vars(self), detail=detail, problems=tuple(problems))
        return copy


class InvalidRequest(ServiceError):
    """The request is malformed, or means something that is not allowed. Nothing was written."""

    status = 400
    title = "Invalid request"

    @classmethod
    def at(cls, path: str, message: str) -> Self:
        """Blame one field.

        Args:
            path: the field's JSON path.
            message: what is wrong, without the path.

        Returns:
            An error whose detail is the message and the path.
        """
        return cls(f"{message}: {path}", [FieldProblem(path, message)])


class BodyTimeout(ServiceError):
    """The request's body did not come in time. Nothing was written."""

    status = 408
    title = "Request timed out"


class Unauthorized(ServiceError):
    """The request shows no key, or none that is known."""

    status = 401
    title = "Unauthorized"

    CHALLENGE: ClassVar[str] = 'Bearer realm="ragstore"'
    """What `WWW-Authenticate` says of the way to show a key."""


class Forbidden(ServiceError):
    """The key may not do this. It says nothing about what is there."""

    status = 403
    title = "Forbidden"


class NotFound(ServiceError):
    """What was asked for is not there."""

    status = 404
    title = "Not found"


class Conflict(ServiceError):
    """What was to be created is there already. Nothing was written."""

    status = 409
    title = "Conflict"


class LineTooLarge(ServiceError):
    """A line of a stream is larger than a body may be.

    Args:
        line: its number, counted from 1.
        most: most bytes of a line.
    """

    status = 413
    title = "Line too large"

    def __init__(self, line: int, most: int) -> None:
        message = f"A line must not be larger than {most} bytes"
        super().__init__(f"{message}: line {line}", [FieldProblem("$", message, line)])


class UnsupportedMediaType(ServiceError):
    """A body of a media type that is not read here."""

    status = 415
    title = "Unsupported media type"


class RateLimited(ServiceError):
    """The key has asked too often.

    Args:
        seconds: until it may ask again.
    """

    status = 429
    title = "Too many requests"
    retry_after = 1

    def __init__(self, seconds: int) -> None:
        super().__init__("Too many requests")
        self.retry_after = seconds


class Overloaded(ServiceError):
    """The service has as much to do as it takes on."""

    status = 503
    title = "Service full"
    retry_after = 1


class Stopping(ServiceError):
    """The service is stopping. Another replica, or the next one, takes the request."""

    status = 503
    title = "Service stopping"
    retry_after = 1
