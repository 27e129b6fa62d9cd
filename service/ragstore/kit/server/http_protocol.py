"""The HTTP/1.1 protocol of uvicorn, with what it lacks: problem documents, and an end to callers that never go on.

uvicorn waits for ever for the head of a request, for the rest of a body that was answered early, and for a caller to
read its answer. Each holds a connection, and the last one the answer, too, so each gets a limit.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from http import HTTPStatus
from typing import ClassVar, Final

import structlog
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from ragstore.kit.errors import HeadTimeout, InvalidHttp, ServiceError
from ragstore.kit.middleware.metrics import count_unparsed
from ragstore.kit.middleware.security_headers import STRICT
from ragstore.kit.problems import MEDIA_TYPE, encode_problem

if sys.platform != "win32":
    import fcntl
    import termios

LINGER_SECONDS: Final = 5.0
"""How long the rest of a body is read and dropped after an early answer, so that its caller gets to read it."""

LOOKS: Final = 4
"""How often within the limit it is looked whether a caller reads; it is cut at most one look later than the limit."""

_log = structlog.get_logger(__name__)


def _response(error: ServiceError) -> bytes:
    """An error as the bytes of a whole response, which closes the connection."""
    body = encode_problem(error)
    headers = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), **error.headers}
    lines = [
        f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}".encode(),
        *(f"{name}: {value}".encode() for name, value in headers.items()),
        *(b"%s: %s" % header for header in STRICT),
        b"connection: close",
    ]
    return b"\r\n".join([*lines, b"", body])


_INVALID_HTTP: Final = _response(
    InvalidHttp("This is not a valid HTTP request; its request line and headers must stay below 64 KiB")
)
_HEAD_TIMEOUT: Final = _response(HeadTimeout("The request's head did not come in time"))


class ProblemProtocol(HttpToolsProtocol):
    """Answers requests that cannot be parsed as uvicorn does, but with a body that our callers understand."""

    limit_seconds: ClassVar[float] = 30.0
    """Longest time for the head of a request, and for a caller to read nothing of an answer."""

    _waiting: asyncio.TimerHandle | None = None
    """Ends the connection unless what is waited for comes: a head, or the end of a body that was answered early."""

    _looking: asyncio.TimerHandle | None = None
    """The next look at whether the caller reads; None while there is nothing for it to read."""

    _unread = 0
    """Bytes that the caller had not taken when last looked at, the system's share of them included."""

    _progress = 0.0
    """When the caller last got on, in the event loop's time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """A caller connects, and is to send a head."""
        super().connection_made(transport)
        self.app = self._in_step(self.app)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._wait_no_more()
        if self._looking is not None:
            self._looking.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """More waits for the caller than it has room for."""
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """The caller has read, so that there is room again."""
        super().resume_writing()
        self._wait_for_reader()

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
        self._wait_for_reader()

    def send_400_response(self, msg: str) -> None:
        """Answer and close.

        Args:
            msg: uvicorn's own text, which is not used.
        """
        count_unparsed(400)
        self.transport.write(_INVALID_HTTP)
        self._wait_for_reader()
        self.transport.close()

    def _wait_for_head(self) -> None:
        self._waiting = self.loop.call_later(self.limit_seconds, self._head_is_late)

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
            self.transport.write(_HEAD_TIMEOUT)
            self._wait_for_reader()
        self.transport.close()

    def _in_step(self, app: ASGIApp) -> ASGIApp:
        """The application, held back to the pace of its caller.

        uvicorn takes a whole answer at once and lets the application go. Here sending ends when the caller has taken
        all but a last bit, so that what bounds the requests under way bounds the answers in memory, too.
        """

        async def in_step(scope: Scope, receive: Receive, send: Send) -> None:
            async def sending(message: Message) -> None:
                await send(message)
                await self.flow.drain()

            await app(scope, receive, sending)

        return in_step

    def _wait_for_reader(self) -> None:
        """Begin, or go on, to look whether the caller reads what waits for it."""
        self._progress = self.loop.time()
        waiting = self.transport.get_write_buffer_size()
        self._unread = waiting + self._in_system() if waiting else 0
        if waiting and self._looking is None:
            self._looking = self.loop.call_later(self.limit_seconds / LOOKS, self._look)

    def _look(self) -> None:
        """Cut the connection when its caller has read nothing for too long; a slow one may be slow."""
        self._looking = None
        waiting = self.transport.get_write_buffer_size()
        if not waiting:
            return
        cycle: RequestResponseCycle | None = self.cycle
        # While more is being written nothing can be told from the amount; it will be when there is no more room.
        writing = cycle is not None and not cycle.response_complete and not self.flow.write_paused
        if writing or waiting + self._in_system() < self._unread:
            self._wait_for_reader()
        elif self.loop.time() - self._progress >= self.limit_seconds:
            _log.warning("answer not read", bytes_left=waiting, seconds=self.limit_seconds)
            self.transport.abort()
        else:
            self._looking = self.loop.call_later(self.limit_seconds / LOOKS, self._look)

    def _in_system(self) -> int:
        """Bytes that the operating system holds for the caller, as far as it tells.

        It takes megabytes, and asks for more only when a third of that was read: without these bytes a slow caller
        would look like one that does not read.
        """
        told = bytearray(4)
        if sys.platform != "win32":
            with suppress(OSError):
                fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, told)
        return int.from_bytes(told, sys.byteorder)


def protocol(limit_seconds: float) -> type[ProblemProtocol]:
    """The protocol with a limit of its own.

    Args:
        limit_seconds: longest time for the head of a request, and for a caller to read nothing of an answer.

    Returns:
        What uvicorn is told to speak.
    """
    return type("LimitedProtocol", (ProblemProtocol,), {"limit_seconds": limit_seconds})
