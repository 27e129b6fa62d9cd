"""The HTTP/1.1 protocol of uvicorn, with one difference: what is no HTTP gets a problem document, too."""

from __future__ import annotations

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ragstore.schemas import Problem

_PROBLEM = msgspec.json.encode(
    Problem(
        type="about:blank",
        title="Invalid request",
        status=400,
        detail="This is not a valid HTTP request; its request line and headers must stay below 64 KiB",
    )
)
_HEAD = (
    b"HTTP/1.1 400 Bad Request\r\n"
    b"content-type: application/problem+json\r\n"
    b"content-length: %d\r\n"
    b"connection: close\r\n\r\n"
)


class ProblemProtocol(HttpToolsProtocol):
    """Answers requests that cannot be parsed as uvicorn does, but with a body that our callers understand."""

    def send_400_response(self, msg: str) -> None:
        """Answer and close.

        Args:
            msg: uvicorn's own text, which is not used.
        """
        self.transport.write(_HEAD % len(_PROBLEM) + _PROBLEM)
        self.transport.close()
