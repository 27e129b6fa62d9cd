"""The headers that every answer carries, and the policy of the one page there is."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from typing import Any, Final

from litestar import Response

NOTHING: Final = "default-src 'none'; frame-ancestors 'none'"
"""The policy of what is no page: a browser that is made to show it runs and loads nothing."""

CDN: Final = "https://cdn.jsdelivr.net"
"""Where the documentation page loads Swagger UI from."""

ALWAYS: Final[list[tuple[bytes, bytes]]] = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]

STRICT: Final = [*ALWAYS, (b"content-security-policy", NOTHING.encode())]
"""For every answer that is no page."""

_INLINE_SCRIPT: Final = re.compile(rb"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL)


def with_policy(response: Response[Any]) -> Response[Any]:
    """After the documentation page was made: allow the scripts that stand in it, by their hashes, and no others.

    Args:
        response: the page.

    Returns:
        The same.
    """
    page = response.content if isinstance(response.content, bytes) else str(response.content).encode()
    hashes = " ".join(
        f"'sha256-{b64encode(hashlib.sha256(script).digest()).decode()}'" for script in _INLINE_SCRIPT.findall(page)
    )
    # Swagger UI sets styles by itself, and draws with data: images.
    response.headers["Content-Security-Policy"] = (
        f"default-src 'none'; script-src {CDN} {hashes}; style-src {CDN} 'unsafe-inline'; font-src {CDN} data:; "
        f"img-src 'self' {CDN} data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return response
