"""The headers that cross the gateway: end-to-end ones only (RFC 9110, 7.6.1), and no credentials of callers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from multidict import CIMultiDict

Headers: TypeAlias = Iterable[tuple[bytes, bytes]]
"""Headers as bytes."""

HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Headers of one connection. `Connection` may name more."""

CREDENTIALS: Final = frozenset(
    {b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key", b"x-litellm-api-key", b"cookie"}
)
"""Headers that hold a caller's key, for the gateway or for another server."""

_OF_REQUESTS: Final = HOP_BY_HOP | {b"host", b"content-length", b"expect", b"x-request-id"}
"""The gateway sends its own `Host`, `Content-Length` and `X-Request-ID`, and has handled `Expect` itself."""

_OF_RESPONSES: Final = HOP_BY_HOP | {b"date"}
"""The server sends its own `Date`."""


def request_headers(
    headers: Headers, *, request_id: str, authorization: str, forward_key: bool = False
) -> CIMultiDict[str]:
    """The headers of a request to the upstream.

    Args:
        headers: the headers of the caller's request, with names in lower case.
        request_id: id of the request.
        authorization: the gateway's own credentials; empty for none.
        forward_key: whether the caller's credentials are sent, if it has any, in place of the gateway's.

    Returns:
        The end-to-end headers. A value that is not UTF-8 is left out: aiohttp would send other bytes.
    """
    given = list(headers)
    dropped = _OF_REQUESTS | _nominated(given)
    result: CIMultiDict[str] = CIMultiDict()
    has_credentials = False
    for name, value in given:
        if name in dropped:
            continue
        if name in CREDENTIALS:
            if not forward_key:
                continue
            has_credentials = True
        try:
            result.add(name.decode("ascii"), value.decode())
        except UnicodeDecodeError:
            continue
    if authorization and not has_credentials:
        result["Authorization"] = authorization
    if request_id:
        result["X-Request-ID"] = request_id
    return result


def is_credential(name: str) -> bool:
    """Whether a header holds credentials.

    Args:
        name: its name, in any case.
    """
    return name.lower().encode() in CREDENTIALS


def response_headers(headers: Headers, *, without: frozenset[bytes] = frozenset()) -> list[tuple[bytes, bytes]]:
    """The headers of a response to the caller.

    Args:
        headers: the headers of the upstream's response.
        without: further headers to leave out, in lower case.

    Returns:
        The end-to-end headers, with names in lower case.
    """
    given = [(name.lower(), value) for name, value in headers]
    dropped = _OF_RESPONSES | _nominated(given) | without
    return [(name, value) for name, value in given if name not in dropped]


def _nominated(headers: list[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """The headers that `Connection` names."""
    names = [value.lower() for name, value in headers if name == b"connection"]
    return frozenset(part.strip() for value in names for part in value.split(b",")) if names else frozenset()
