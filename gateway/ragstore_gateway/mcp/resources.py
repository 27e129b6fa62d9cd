"""The addresses of documents as resources: `ragstore://BASE/NAME`."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

SCHEME: Final = "ragstore://"
TEMPLATE: Final = SCHEME + "{base}/{+name}"
"""The addresses of documents, as a URI template (RFC 6570)."""


def resource_uri(base: str, name: str) -> str:
    """The address of a document.

    Args:
        base: name of its knowledge base.
        name: its name, whose slashes are kept.
    """
    return f"{SCHEME}{quote(base, safe='')}/{quote(name)}"


def read_uri(uri: str) -> tuple[str, str] | None:
    """The names of a knowledge base and of a document in it; None for an address of something else.

    Args:
        uri: the address.
    """
    base, slash, name = uri.removeprefix(SCHEME).partition("/")
    if not uri.startswith(SCHEME) or not base or not slash or not name:
        return None
    try:
        return unquote(base, errors="strict"), unquote(name, errors="strict")
    except UnicodeDecodeError:
        return None
