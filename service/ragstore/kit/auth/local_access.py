"""What keeps web pages from a service without keys, which trusts whoever is on its machine.

A browser is on that machine too, and sends what any page tells it to: a page may post to 127.0.0.1 without reading the
answer, and one whose name is made to point at 127.0.0.1 may even read it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from ragstore.kit.errors import Forbidden

LOCAL_HOST: Final = re.compile(rb"(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]+)?", re.IGNORECASE)
"""How those on the machine call it. A page's own name in its place means that the name was made to point here."""

READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing. Their answers are kept from other pages by the browser."""


def check_local(method: str, headers: Iterable[tuple[bytes, bytes]], origins: Collection[bytes]) -> None:
    """Refuse what a web page sends that nobody allowed.

    Args:
        method: the request's method.
        headers: its headers, with names in lower case.
        origins: web origins that may call.

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
            "Without keys the service answers to 'localhost' and loopback addresses only, and the request's Host is "
            "another: set RAGSTORE_KEYS_FILE, or RAGSTORE_ALLOW_OPEN=true"
        )
    if origin and method not in READS and origin not in origins and origin.partition(b"://")[2] != host:
        raise Forbidden(
            "The request comes from a web page of another origin; RAGSTORE_CORS_ORIGINS tells which may call"
        )
