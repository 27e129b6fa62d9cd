"""The TLS settings of httpx for both clients, and its errors as errors of this package.

A client of httpx2, which continues httpx with the same interface, is accepted in the place of a client of httpx.
"""

from __future__ import annotations

import math
import os
import sys
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import httpx
import msgspec

from ragstore_client._exceptions import (
    CallTimeout,
    ConnectFailed,
    ConnectionLost,
    GatewayTimeout,
    InvalidConfiguration,
    RagstoreError,
    UnexpectedResponse,
)

if TYPE_CHECKING:
    import ssl

    import httpx2

    HttpClient: TypeAlias = httpx.Client | httpx2.Client
    AsyncHttpClient: TypeAlias = httpx.AsyncClient | httpx2.AsyncClient

StepTimeouts: TypeAlias = tuple[float | None, float | None, float | None, float | None]
"""Seconds to connect, to read, to write, and to wait for a connection: a form that httpx and httpx2 accept."""

_MAX_CAUSES = 10
"""Maximum number of errors in a chain of causes that are looked at."""


@cache
def ssl_context() -> ssl.SSLContext:
    """The TLS settings of all clients, made once: loading the certificate authorities takes about 50 ms."""
    return httpx.create_ssl_context()


def break_reference_cycle(response: httpx.Response) -> None:
    """Let a response that was read be freed when it is no longer used.

    httpx (0.28) binds a response to its stream and the stream to the response. Without this, responses and requests
    stay in memory until the garbage collector runs, which a few responses of many megabytes do not trigger.
    """
    response.stream = httpx.ByteStream(b"")


class Timeout(msgspec.Struct, frozen=True):
    """The time limit of an attempt.

    Attributes:
        total_seconds: of the whole attempt; None for no limit.
        steps: of its steps, for httpx.
    """

    total_seconds: float | None
    steps: httpx.Timeout

    @property
    def step_timeouts(self) -> StepTimeouts:
        """The limits of the steps, for a request."""
        return self.steps.connect, self.steps.read, self.steps.write, self.steps.pool

    def __str__(self) -> str:
        """The limit, for an error."""
        return f"{self.total_seconds:g} s" if self.total_seconds is not None else "the time limit"


def parse_timeout(timeout: float | httpx.Timeout | None) -> Timeout:
    """Parse the `timeout` argument of a client.

    Args:
        timeout: seconds for an attempt; an `httpx.Timeout` for the steps of one; or None for no limit.

    Returns:
        The time limit.

    Raises:
        InvalidConfiguration: it is of another type, or not a positive number.
    """
    if timeout is None or isinstance(timeout, httpx.Timeout):
        return Timeout(None, httpx.Timeout(timeout))
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        message = f"timeout must be a number of seconds, an httpx.Timeout or None, not {type(timeout).__name__}"
        raise InvalidConfiguration(message)
    if not timeout > 0 or math.isinf(timeout):
        raise InvalidConfiguration("timeout must be greater than 0 and finite; None means no limit")
    return Timeout(float(timeout), httpx.Timeout(timeout))


def http_errors() -> tuple[type[Exception], ...]:
    """The base classes of the errors of httpx, and of httpx2 if it is loaded."""
    other = sys.modules.get("httpx2")
    return (httpx.HTTPError,) if other is None else (httpx.HTTPError, other.HTTPError)


def _kind_of(error: BaseException) -> type[BaseException]:
    """The class of an error; of httpx2, the class of httpx that has its name."""
    kind = type(error)
    if kind.__module__.partition(".")[0] != "httpx2":
        return kind
    named: type[BaseException] = getattr(httpx, kind.__name__, httpx.TransportError)
    return named


def from_httpx_error(error: Exception, timeout: Timeout) -> RagstoreError:
    """Convert an error of httpx or httpx2.

    Args:
        timeout: the time limit of the attempt.

    Returns:
        The exception to raise.
    """
    reason, kind = _reason(error), _kind_of(error)
    if issubclass(kind, httpx.ConnectTimeout):
        return ConnectFailed(f"no connection within {timeout}")
    if issubclass(kind, httpx.PoolTimeout):
        return ConnectFailed(f"no free connection within {timeout}: all of them are in use")
    if issubclass(kind, httpx.ConnectError):
        return ConnectFailed(reason or "no connection")
    if issubclass(kind, httpx.TimeoutException):
        return CallTimeout(f"no complete response within {timeout}")
    if issubclass(kind, httpx.DecodingError):
        return UnexpectedResponse("the body could not be decompressed", 0)
    if issubclass(kind, httpx.ProxyError):
        return ConnectFailed("the proxy made no connection")
    # Nothing of the server's is in these texts: httpx and the operating system write them.
    return ConnectionLost(f"connection lost: {reason or _WORDS.get(kind, kind.__name__)}")


def is_timeout(error: BaseException) -> bool:
    """Whether an error means that a time limit expired: itself, or one that caused it.

    Args:
        error: any exception. That no connection was made in time is a `ConnectFailed` with httpx's error as its cause.
    """
    chain: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if chain is None:
            break
        if issubclass(_kind_of(chain), (TimeoutError, GatewayTimeout, httpx.TimeoutException)):
            return True
        chain = chain.__cause__
    return False


def timeout_error(timeout_seconds: float) -> CallTimeout:
    """The error for a response that was not complete in time."""
    return CallTimeout(f"no complete response within {timeout_seconds:g} s")


_WORDS: dict[type[BaseException], str] = {
    httpx.RemoteProtocolError: "the server closed it without a complete response, or does not speak HTTP",
    httpx.ReadError: "while the response was read",
    httpx.WriteError: "while the request was sent",
}


def _reason(error: BaseException) -> str:
    """The reason that the operating system or TLS gave, from the causes of an error."""
    seen: list[BaseException] = []
    pending: list[BaseException | None] = [error]
    while pending:
        cause = pending.pop()
        if cause is None or cause in seen:
            continue
        seen.append(cause)
        if words := _words_for(cause):
            return words
        pending += [cause.__context__, cause.__cause__]
        if isinstance(cause, BaseExceptionGroup):
            pending += cause.exceptions
    return ""


def _words_for(error: BaseException) -> str:
    # `ssl` and `socket` are loaded by httpx only when they are needed.
    kind = type(error).__name__
    if kind == "SSLCertVerificationError":
        return f"TLS: the certificate is not valid: {getattr(error, 'verify_message', '')}"
    if kind.startswith("SSL"):
        reason = str(getattr(error, "reason", "") or kind).replace("_", " ").lower()
        return f"TLS: {reason}" + (" (does the server speak plain HTTP?)" if "version number" in reason else "")
    if kind == "gaierror":
        return "unknown host"
    if isinstance(error, OSError) and error.errno is not None:
        # asyncio's own text has the address in place of the reason.
        return os.strerror(error.errno).lower() if error.errno > 0 else ""
    return ""
