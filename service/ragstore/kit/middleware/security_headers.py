"""Security headers of every response, and the content security policy of the documentation page."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from typing import Any, Final

from litestar import Response

NOTHING: Final = "default-src 'none'; frame-ancestors 'none'"
"""Content security policy of responses that are not pages: a browser that displays one runs and loads nothing."""

CDN: Final = "https://cdn.jsdelivr.net"
"""Source of Swagger UI for the documentation page."""

ALWAYS: Final[list[tuple[bytes, bytes]]] = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]

STRICT: Final = [*ALWAYS, (b"content-security-policy", NOTHING.encode())]
"""For every response that is not a page."""

_INLINE_SCRIPT: Final = re.compile(rb"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL)


def with_policy(response: Response[Any]) -> Response[Any]:
    """Set the policy of the documentation page: it allows the page's own scripts, by their hashes, and no others.

    Args:
        response: the page.

    Returns:
        The same response.
    """
    page = response.content if isinstance(response.content, bytes) else str(response.content).encode()
    hashes = " ".join(
        f"'sha256-{b64encode(hashlib.sha256(script).digest()).decode()}'" for script in _INLINE_SCRIPT.findall(page)
    )
    # Swagger UI sets inline styles and uses images with data: URLs.
    response.headers["Content-Security-Policy"] = (
        f"default-src 'none'; script-src {CDN} {hashes}; style-src {CDN} 'unsafe-inline'; font-src {CDN} data:; "
        f"img-src 'self' {CDN} data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return response
