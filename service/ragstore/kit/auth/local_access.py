"""Protects a service without keys, which trusts its own machine, from web pages.

A browser on the machine sends what any page makes it send: a page may post to 127.0.0.1 without reading the response,
and a page whose host name resolves to 127.0.0.1 (DNS rebinding) may even read it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from ragstore.kit.errors import Forbidden

LOCAL_HOST: Final = re.compile(rb"(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]+)?", re.IGNORECASE)
"""Hosts of local callers. Any other name in `Host` means that the name was made to resolve to this machine."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing. The browser keeps their responses from other pages."""


def check_local(
    method: str, headers: Iterable[tuple[bytes, bytes]], origins: Collection[bytes], variables: str
) -> None:
    """Reject requests of web pages that may not call.

    Args:
        method: the request's method.
        headers: its headers, with names in lower case.
        origins: web origins that may call.
        variables: prefix of the service's environment variables, for the error.

    Raises:
        Forbidden: the request comes from another page, or names another host.
    """
    host = origin = b""
    for name, value in headers:
        if name == b"host":
            host = value
        elif name == b"origin":
            origin = value
    if host and not LOCAL_HOST.fullmatch(host):
        raise Forbidden(
            "Without keys the service accepts requests to 'localhost' and loopback addresses only, and the request's "
            f"Host is another: set {variables}KEYS_FILE, or {variables}ALLOW_OPEN=true"
        )
    if origin and method not in SAFE_METHODS and origin not in origins and origin.partition(b"://")[2] != host:
        raise Forbidden(
            f"The request comes from a web page of another origin; {variables}CORS_ORIGINS lists those that may call"
        )
