"""What both clients do with HTTP alike: the base URL, headers, and the errors of httpx in our own words."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

import httpx
import msgspec

from ragstore_client._exceptions import (
    CallTimeout,
    ConnectFailed,
    ConnectionLost,
    InvalidConfiguration,
    RagstoreError,
    UnexpectedResponse,
)
from ragstore_client._version import __version__

if TYPE_CHECKING:
    import ssl

DEFAULT_URL = "http://127.0.0.1:8080"

_CONNECT_ERRORS = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@cache
def ssl_context() -> ssl.SSLContext:
    """The TLS settings of all clients: reading the certificate authorities takes some 50 ms, so it is done once."""
    return httpx.create_ssl_context()


class Endpoint(msgspec.Struct, frozen=True):
    """Where a service is.

    Attributes:
        url: its base URL, without user, password and trailing slash: fit for a log.
        authorization: the `Authorization` header that goes with it; empty for none.
    """

    url: str
    authorization: str = ""

    def headers(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The headers of one call.

        Args:
            more: further headers, which win.

        Returns:
            Headers with a fresh `X-Request-ID`, which stays the same over the tries of the call.
        """
        headers = {
            "accept": "application/json",
            "user-agent": f"ragstore-client/{__version__}",
            "x-request-id": secrets.token_hex(16),
        }
        if self.authorization:
            headers["authorization"] = self.authorization
        return headers | {name.lower(): value for name, value in (more or {}).items()}


def endpoint(url: str, api_key: str | None = None) -> Endpoint:
    """Read a base URL.

    Args:
        url: `http://` or `https://`, a host, perhaps a port and a path prefix. A user and password in it become an
            `Authorization` header, so that no log of URLs shows them.
        api_key: sent as a bearer token; wins over a user and password.

    Returns:
        The endpoint.

    Raises:
        InvalidConfiguration: it is no such URL, or the key cannot stand in a header.
    """
    try:
        parsed = httpx.URL(url.strip())
    except httpx.InvalidURL:
        raise InvalidConfiguration("the base URL is not a URL") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidConfiguration("the base URL must begin with http:// or https:// and name a host")
    authorization = ""
    if api_key is not None:
        authorization = f"Bearer {_token(api_key)}"
    elif parsed.userinfo:
        pair = unquote(parsed.userinfo.decode("ascii")).encode()
        authorization = "Basic " + base64.b64encode(pair).decode("ascii")
    bare = parsed.copy_with(userinfo=b"", query=None, fragment=None)
    return Endpoint(str(bare).rstrip("/"), authorization)


def transport_error(error: httpx.HTTPError | httpx.InvalidURL, timeout: float) -> RagstoreError:
    """Say an error of httpx in words of this package.

    Args:
        error: what httpx raised.
        timeout: the time limit that was in force, in seconds.

    Returns:
        The exception to raise.
    """
    if isinstance(error, _CONNECT_ERRORS):
        return ConnectFailed(f"no connection: {type(error).__name__}")
    if isinstance(error, httpx.TimeoutException):
        return timeout_error(timeout)
    if isinstance(error, httpx.DecodingError):
        return UnexpectedResponse("the body could not be decompressed", 0)
    return ConnectionLost(f"the connection broke: {type(error).__name__}")


def timeout_error(timeout: float) -> CallTimeout:
    """The error for an answer that did not come, or did not end, in time."""
    return CallTimeout(f"no whole answer within {timeout:g} s")


def _token(api_key: str) -> str:
    if not api_key or not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise InvalidConfiguration("an API key must be printable ASCII without spaces")
    return api_key
