"""The headers of a request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from multidict import CIMultiDict

from ragstore.kit.errors import InvalidRequest

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

OWN: Final = frozenset(
    {
        "host",
        "connection",
        "content-length",
        "transfer-encoding",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "keep-alive",
        "accept-encoding",
        "proxy-authorization",
        "proxy-connection",
    }
)
"""Headers of the connection, which a caller cannot set."""

ACCEPT: Final = "text/html,application/xhtml+xml,application/xml;q=0.9,application/pdf;q=0.9,*/*;q=0.8"

_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


def check_request(method: str, headers: Mapping[str, str]) -> None:
    """Check what a caller sets.

    Raises:
        InvalidRequest: one is not allowed, or would be another request.
    """
    if method not in METHODS:
        raise InvalidRequest(f"The method must be one of {', '.join(sorted(METHODS))}")
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or name.lower() in OWN:
            raise InvalidRequest("A header of the request has a name that is not allowed")
        if not _VALUE.fullmatch(value):
            raise InvalidRequest("A header of the request has characters that a header cannot have")


def request_headers(user_agent: str, accept_encoding: str, conditions: Mapping[str, str]) -> CIMultiDict[str]:
    """The headers of every request.

    Args:
        user_agent: the gateway's name.
        accept_encoding: the encodings that it decodes.
        conditions: the headers of a conditional request; headers without a value are left out.
    """
    headers = CIMultiDict({"User-Agent": user_agent, "Accept": ACCEPT, "Accept-Encoding": accept_encoding})
    for name, value in conditions.items():
        # ETag and Last-Modified come from a server, so their form is checked.
        if value and _VALUE.fullmatch(value):
            headers[name] = value
    return headers
