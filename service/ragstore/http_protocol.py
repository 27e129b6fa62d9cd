"""The HTTP/1.1 protocol of uvicorn, with what it lacks: problem documents, and an end to requests that never come.

uvicorn waits for ever for the head of a request, and for the rest of a body that was answered early. Both hold a
connection, so both get a limit.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar, Final

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from ragstore.counted import count_unparsed
from ragstore.schemas import Problem
from ragstore.security.headers import STRICT

LINGER_SECONDS: Final = 5.0
"""How long the rest of a body is read and dropped after an early answer, so that its caller gets to read it."""


def _answer(status: int, reason: str, title: str, detail: str) -> bytes:
    body = msgspec.json.encode(Problem("about:blank", title, status, detail))
    return (
        b"HTTP/1.1 %d %s\r\ncontent-type: application/problem+json\r\ncontent-length: %d\r\n%sconnection: close\r\n\r\n"
    ) % (status, reason.encode(), len(body), b"".join(b"%s: %s\r\n" % header for header in STRICT)) + body


_NO_HTTP: Final = _answer(
    400,
    "Bad Request",
    "Invalid request",
    "This is not a valid HTTP request; its request line and headers must stay below 64 KiB",
)
_TOO_SLOW: Final = _answer(408, "Request Timeout", "Request timed out", "The request's head did not come in time")


class ProblemProtocol(HttpToolsProtocol):
    """Answers requests that cannot be parsed as uvicorn does, but with a body that our callers understand."""

    head_seconds: ClassVar[float] = 30.0
    """Longest time for the head of a request."""

    _waiting: asyncio.TimerHandle | None = None
    """Ends the connection unless what is waited for comes: a head, or the end of a body that was answered early."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A caller connects, and is to send a head."""
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._wait_no_more()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """The first byte of a request came."""
        super().on_message_begin()
        if self._waiting is None:
            self._wait_for_head()

    def on_headers_complete(self) -> None:
        """The head of a request came."""
        self._wait_no_more()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The end of a request's body came."""
        self._wait_no_more()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A request was answered, maybe before its body had come."""
        super().on_response_complete()
        if self.cycle.response_complete and self.cycle.more_body and not self.transport.is_closing():
            self._waiting = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def send_400_response(self, msg: str) -> None:
        """Answer and close.

        Args:
            msg: uvicorn's own text, which is not used.
        """
        count_unparsed(400)
        self.transport.write(_NO_HTTP)
        self.transport.close()

    def _wait_for_head(self) -> None:
        self._waiting = self.loop.call_later(self.head_seconds, self._head_is_late)

    def _wait_no_more(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _head_is_late(self) -> None:
        self._waiting = None
        # A request before this one may still wait for its answer; what is written now would be taken for it.
        earlier: RequestResponseCycle | None = self.cycle
        if earlier is None or earlier.response_complete:
            count_unparsed(408)
            self.transport.write(_TOO_SLOW)
        self.transport.close()


def protocol(head_seconds: float) -> type[ProblemProtocol]:
    """The protocol with a limit of its own.

    Args:
        head_seconds: longest time for the head of a request.

    Returns:
        What uvicorn is told to speak.
    """
    return type("LimitedProtocol", (ProblemProtocol,), {"head_seconds": head_seconds})
