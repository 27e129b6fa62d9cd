"""The base of a service's errors, and the errors that any service has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Final, Self

import msgspec


class FieldError(msgspec.Struct, frozen=True, omit_defaults=True):
    """A field that is to blame for an error."""

    path: Annotated[
        str, msgspec.Meta(description="JSON path of the field in the request, such as `$.documents[3].embedding`.")
    ]
    message: Annotated[str, msgspec.Meta(description="Why the field is rejected.")]
    line: Annotated[
        int | msgspec.UnsetType,
        msgspec.Meta(description="In a stream: the number of the line, from 1. `path` is then a path in its document."),
    ] = msgspec.UNSET


class JsonPath(str):
    """A JSON path in the detail of an error. A caller that knows a better name for the field can replace it."""

    __slots__ = ()


class ServiceError(Exception):
    """Base of every error that a caller sees as a problem document.

    The head of a subclass names its status, its title and its `retry_after`; it inherits the others. Its `code` is its
    name in snake case unless it sets one, and is part of the service's contract: clients decide by it. A private
    subclass has its parent's.

    Args:
        detail: one sentence or two for the caller; in parts where some of it are paths.
        field_errors: the fields to blame, if any.
    """

    status: ClassVar[int] = 500
    title: ClassVar[str] = "Internal error"
    code: ClassVar[str] = "internal_error"
    abstract: ClassVar[bool] = False
    """Whether only its subclasses are raised."""

    retry_after: int | None = None
    """Seconds after which a retry makes sense."""

    cause: str = ""
    """Why a dependency failed, for the operator: logged, and shown to those who administer the service. It may name
    hosts, ports and processes, so no other response has it. Never content."""

    def __init_subclass__(
        cls,
        *,
        status: int | None = None,
        title: str | None = None,
        retry_after: int | None = None,
        abstract: bool = False,
    ) -> None:
        """Set what the head of the class names.

        Args:
            status: the HTTP status; the parent's when None.
            title: the kind of problem, in a few words; the parent's when None.
            retry_after: seconds after which a retry makes sense; the parent's when None.
            abstract: whether only subclasses of it are raised.
        """
        super().__init_subclass__()
        cls.abstract = abstract
        given = {"status": status, "title": title, "retry_after": retry_after}
        for name, value in given.items():
            if value is not None:
                setattr(cls, name, value)
        if "code" not in vars(cls) and not cls.__name__.startswith("_"):
            cls.code = _CAPITAL.sub("_", cls.__name__).lower()

    def __init__(self, detail: str | Sequence[str], field_errors: Sequence[FieldError] = ()) -> None:
        self.parts = (detail,) if isinstance(detail, str) else tuple(detail)
        self.detail = "".join(self.parts)
        super().__init__(self.detail)
        self.field_errors = tuple(field_errors)

    @property
    def headers(self) -> dict[str, str]:
        """Headers of its response, in addition to the headers of any problem document."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}

    def because(self, cause: str) -> Self:
        """Set the cause.

        Args:
            cause: why a dependency failed.

        Returns:
            The same error.
        """
        self.cause = cause
        return self

    def with_detail(self, detail: str | Sequence[str], field_errors: Sequence[FieldError]) -> Self:
        """A copy with another detail. Several requests may share one error, so it is never changed itself.

        Args:
            detail: one sentence or two for the caller; in parts where some of it are paths.
            field_errors: the fields to blame, if any.

        Returns:
            The copy.
        """
        copy = type(self).__new__(type(self))
        vars(copy).update(vars(self))
        ServiceError.__init__(copy, detail, field_errors)
        return copy


_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")


def error_classes(*modules: str) -> Iterator[type[ServiceError]]:
    """The errors of a service, parents before children.

    Args:
        modules: names of the modules that define them. The errors of this module are always included.

    Yields:
        `ServiceError` and its subclasses, the abstract ones included.
    """

    def below(kind: type[ServiceError]) -> Iterator[type[ServiceError]]:
        yield kind
        for child in kind.__subclasses__():
            if child.__module__ in (__name__, *modules):
                yield from below(child)

    yield from below(ServiceError)


class InvalidRequest(ServiceError, status=400, title="Invalid request"):
    """The request is malformed, or means something that is not allowed. Nothing was written."""

    @classmethod
    def at(cls, path: str, message: str) -> Self:
        """Blame one field.

        Args:
            path: the field's JSON path.
            message: what is wrong, without the path.

        Returns:
            An error whose detail is the message and the path.
        """
        return cls((message, ": ", JsonPath(path)), [FieldError(path, message)])


class InvalidHttp(ServiceError, status=400, title="Invalid request"):
    """The bytes of a connection are not a request."""


class HeadTimeout(ServiceError, status=408, title="Request timed out"):
    """The request line and the headers did not arrive in time."""


class BodyTimeout(ServiceError, status=408, title="Request timed out"):
    """The request's body did not arrive in time. Nothing was written."""


class Unauthorized(ServiceError, status=401, title="Unauthorized"):
    """The request has no key, or an unknown one.

    Args:
        detail: one sentence or two for the caller.
        realm: name of the service.
    """

    def __init__(self, detail: str | Sequence[str], realm: str = "") -> None:
        super().__init__(detail)
        self.realm = realm

    @property
    def headers(self) -> dict[str, str]:
        """How to send a key."""
        return {"WWW-Authenticate": f'Bearer realm="{self.realm}"'}


class Forbidden(ServiceError, status=403, title="Forbidden"):
    """The key may not do this. The error does not reveal what exists."""


class NotFound(ServiceError, status=404, title="Not found"):
    """The requested resource does not exist."""


class MethodNotAllowed(ServiceError, status=405, title="Method Not Allowed"):
    """The path has no such method."""


class Conflict(ServiceError, status=409, title="Conflict"):
    """The resource to create exists already. Nothing was written."""


class BodyTooLarge(ServiceError, status=413, title="Request Entity Too Large"):
    """The request's body is larger than the service accepts."""


class UnsupportedMediaType(ServiceError, status=415, title="Unsupported media type"):
    """The body's media type is not supported."""


class RateLimited(ServiceError, status=429, title="Too many requests", retry_after=1):
    """The key exceeds its rate.

    Args:
        seconds: when its next request is allowed.
    """

    def __init__(self, seconds: int) -> None:
        super().__init__("Too many requests")
        self.retry_after = seconds


class CallerGone(ServiceError, status=499, title="Caller disconnected"):
    """The caller disconnected before its response began. Nobody reads this; the access log and the metrics show it."""


class Overloaded(ServiceError, status=503, title="Service full", retry_after=1):
    """The service is at its limit of concurrent work."""


class Stopping(ServiceError, status=503, title="Service stopping", retry_after=1):
    """The service is shutting down. Another replica, or the next start, can serve the request."""


class StartFailed(Exception):
    """The service cannot start, for a reason that an operator can change. The text is one line without secrets."""
