"""Security headers of every response, and the content security policy of pages."""

from __future__ import annotations

from typing import Final

NOTHING: Final = "default-src 'none'; frame-ancestors 'none'"
"""Content security policy of responses that are not pages: a browser that displays one runs and loads nothing."""

WEB_PAGE: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Content security policy of the pages: nothing inline, nothing of other hosts, and no text that becomes HTML."""

ALWAYS: Final[list[tuple[bytes, bytes]]] = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]

PAGE_PATHS: Final = ("/docs", "/ui")
"""Beginnings of the paths of pages, which may set headers of their own."""

STRICT: Final = [*ALWAYS, (b"content-security-policy", NOTHING.encode())]
"""For every response that is not a page."""
