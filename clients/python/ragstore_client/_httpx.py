"""The TLS settings of httpx for both clients, and its errors as errors of this package."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import httpx

from ragstore_client._exceptions import (
    CallTimeout,
    ConnectFailed,
    ConnectionLost,
    RagstoreError,
    UnexpectedResponse,
)

if TYPE_CHECKING:
    import ssl

_CONNECT_ERRORS = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


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


def from_httpx_error(error: httpx.HTTPError, timeout: float) -> RagstoreError:
    """Convert an error of httpx.

    Args:
        error: the error.
        timeout: the time limit of the attempt, in seconds.

    Returns:
        The exception to raise.
    """
    if isinstance(error, _CONNECT_ERRORS):
        return ConnectFailed(f"no connection: {type(error).__name__}")
    if isinstance(error, httpx.TimeoutException):
        return timeout_error(timeout)
    if isinstance(error, httpx.DecodingError):
        return UnexpectedResponse("the body could not be decompressed", 0)
    return ConnectionLost(f"connection lost: {type(error).__name__}")


def timeout_error(timeout: float) -> CallTimeout:
    """The error for a response that was not complete in time."""
    return CallTimeout(f"no complete response within {timeout:g} s")
