"""The endpoint of a service: its base URL, credentials and default headers."""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import Mapping
from urllib.parse import unquote

import httpx
import msgspec
from msgspec import UnsetType

from ragstore_client._exceptions import InvalidConfiguration
from ragstore_client._version import __version__

DEFAULT_URL = "http://127.0.0.1:8080"


def endpoint_of_client(
    url: str | None, api_key: str | UnsetType | None, *, prefix: str = "RAGSTORE_", default_url: str = DEFAULT_URL
) -> Endpoint:
    """The endpoint of a client: its arguments, and the environment for omitted ones.

    Args:
        url: the base URL; the variable `URL` with the prefix when None, and without that variable `default_url`.
        api_key: the key; None for no key. The variable `API_KEY` with the prefix when not given, unless the URL has a
            user and password.
        prefix: begins the names of the variables.
        default_url: the base URL that nothing else names.

    Returns:
        The endpoint.

    Raises:
        InvalidConfiguration: the URL is not valid, or a header cannot carry the key.
    """
    if url is None:
        url = os.environ.get(f"{prefix}URL", "").strip() or default_url
    if isinstance(api_key, UnsetType):
        in_url = "@" in str(url)
        api_key = None if in_url else os.environ.get(f"{prefix}API_KEY", "").strip() or None
    return parse_endpoint(url, api_key)


class Endpoint(msgspec.Struct, frozen=True):
    """The endpoint of a service.

    Attributes:
        url: base URL, without user, password and trailing slash: fit for a log.
        authorization: value of the `Authorization` header; empty for none.
    """

    url: str
    authorization: str = ""

    def headers(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The headers of one call.

        Args:
            more: further headers, which override the defaults.

        Returns:
            Headers with a new `X-Request-ID`, which all attempts of the call share.
        """
        headers = {
            "accept": "application/json",
            "user-agent": f"ragstore-client/{__version__}",
            "x-request-id": secrets.token_hex(16),
        }
        if self.authorization:
            headers["authorization"] = self.authorization
        return headers | {name.lower(): value for name, value in (more or {}).items()}


def parse_endpoint(url: str, api_key: str | None = None) -> Endpoint:
    """Parse a base URL.

    Args:
        url: `http://` or `https://` and a host, optionally a port and a path prefix. A user and password in it are
            moved to the `Authorization` header, so that no log of URLs shows them.
        api_key: sent as a bearer token; overrides a user and password in the URL.

    Returns:
        The endpoint.

    Raises:
        InvalidConfiguration: the URL is not valid, or a header cannot carry the key.
    """
    try:
        parsed = httpx.URL(url.strip())
    except (AttributeError, TypeError):
        raise InvalidConfiguration(f"the base URL must be a string, not {type(url).__name__}") from None
    except httpx.InvalidURL:
        raise InvalidConfiguration("the base URL is not a URL") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidConfiguration("the base URL must begin with http:// or https:// and name a host")
    authorization = ""
    if parsed.port == 0:
        raise InvalidConfiguration("the port of the base URL must be 1 to 65535")
    if api_key is not None:
        authorization = f"Bearer {_validate_key(api_key)}"
    elif parsed.userinfo:
        pair = unquote(parsed.userinfo.decode("ascii")).encode()
        authorization = "Basic " + base64.b64encode(pair).decode("ascii")
    bare = parsed.copy_with(userinfo=b"", query=None, fragment=None)
    return Endpoint(str(bare).rstrip("/"), authorization)


def _validate_key(api_key: object) -> str:
    if not isinstance(api_key, str):
        raise InvalidConfiguration(f"an API key must be a string, not {type(api_key).__name__}")
    if not api_key or not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise InvalidConfiguration("an API key must be printable ASCII without spaces")
    return api_key
