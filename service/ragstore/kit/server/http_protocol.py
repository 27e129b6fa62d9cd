"""The HTTP/1.1 protocol of uvicorn with problem documents, and with limits for slow, silent and endless callers.

uvicorn limits neither the size of a head, nor the time for it, nor the time for the rest of a body after an early
response, nor the time for a caller to read its response. Each holds a connection and memory, so each has a limit here.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final

import structlog
from httptools import HttpParserError, HttpParserUpgrade
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from ragstore.kit.errors import HeadTimeout, InvalidHttp
from ragstore.kit.metrics import RequestMetrics
from ragstore.kit.middleware.bodies import CONNECTION
from ragstore.kit.server.joined_head import joined_writes, precedes_body
from ragstore.kit.server.problem_bytes import response_bytes
from ragstore.kit.server.request_meter import (
    MALFORMED,
    OVERLAP_BYTES,
    RejectedRequest,
    RequestMeter,
    check_head,
    check_header_count,
)
from ragstore.kit.server.socket_state import has_caller_left, unsent_bytes

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

LINGER_SECONDS: Final = 5.0
"""Time for which the rest of a request is read and dropped after an early response.

Closing a socket with unread input resets the connection, and the caller may lose the response.
"""

STALL_CHECKS: Final = 4
"""Number of checks per limit period whether a caller reads; a stalled one is disconnected at most one check late."""

_log = structlog.get_logger(__name__)


_HEAD_TIMEOUT: Final = response_bytes(HeadTimeout("The request's head did not come in time"))

MAX_SLICES: Final = 4
"""Maximum number of slices parsed before other connections get their turn."""


class ProblemProtocol(HttpToolsProtocol):
    """Parses requests within limits, and responds to invalid ones with a problem document.

    A request is parsed when the response before the last one is complete: a caller that pipelines thousands of requests
    costs the memory of its input and of two requests.
    """

    limit_seconds: ClassVar[float] = 30.0
    """Maximum time for the head of a request, and for a caller to read nothing of a response."""

    metrics: ClassVar[RequestMetrics]
    """Counts requests that cannot be parsed."""

    _meter: RequestMeter
    """Counts the bytes of the current request."""

    _input = b""
    """Input that is not parsed yet."""

    _parsed = b""
    """The last bytes of the input that was parsed."""

    _running: RequestResponseCycle | None = None
    """The request that the application processes; `cycle` is the last one that was parsed."""

    _turn: asyncio.Handle | None = None
    """Continues to parse after other connections had their turn."""

    _finished = False
    """Whether all further input is dropped."""

    _lingers = False
    """Whether the connection closes after the response, but not before the rest of the request was dropped."""

    _stopping = False
    """Whether the service is shutting down."""

    _waiting: asyncio.TimerHandle | None = None
    """Closes the connection unless a head, or the end of a body after an early response, comes in time."""

    _stall_check: asyncio.TimerHandle | None = None
    """The next check whether the caller reads; None while there is nothing for it to read."""

    _unread = 0
    """Bytes that the caller had not read at the last check, including the operating system's buffer."""

    _progress = 0.0
    """When the caller last read something, in the event loop's time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """A caller has connected; its first head has a time limit."""
        super().connection_made(transport)
        self._meter = RequestMeter()
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, and the requests that were not begun with it."""
        self._drop_input()
        self.pipeline.clear()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        if self._stall_check is not None:
            self._stall_check.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The write buffer is full."""
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """The caller has read, so the write buffer has room again."""
        super().resume_writing()
        self._wait_for_reader()

    def shutdown(self) -> None:
        """The service is shutting down: only responses in flight are completed."""
        self._stopping = True
        super().shutdown()
        if self._finished and self._waiting is not None:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Parse input, or keep it while an earlier request has to be completed first."""
        if self._finished:
            return
        self._unset_keepalive_if_required()
        self._input += data
        if self.pipeline or self._turn is not None:
            self.flow.pause_reading()
        else:
            self._parse()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header or a trailer was parsed. uvicorn would append a trailer to the headers of the request."""
        if not self._meter.in_body:
            check_header_count(len(self.headers) + 1)
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """A head was parsed."""
        length = check_head(self.parser.get_http_version(), self.headers)
        if length != 0 and self.parser.should_upgrade():
            # httptools drops the body of such a request, or parses it as the next request.
            raise RejectedRequest("A request with a body must not have an Upgrade header")
        self._meter.head_complete(length)
        self._stop_waiting()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The end of a request was parsed."""
        self._meter.request_complete()
        self._stop_waiting()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A response is complete, maybe before the body of its request."""
        super().on_response_complete()
        if self._lingers:
            self._finish()
        elif self.cycle.response_complete and self.cycle.more_body and not self.transport.is_closing():
            self._waiting = self.loop.call_later(LINGER_SECONDS, self.transport.close)
        if self._input and not self.pipeline:
            self._continue_later()
        self._wait_for_reader()

    def _should_upgrade(self) -> bool:
        return False  # The service has no WebSockets; uvicorn would use a library that happens to be installed.

    def _parse(self) -> None:
        """Parse input slice by slice, up to the next request that has to wait for the response before it."""
        data, start = self._parsed + self._input, len(self._parsed)
        for _ in range(MAX_SLICES):
            end = self._parse_slice(data, start)
            needs_more = end in (start, len(data))
            start = end
            if needs_more or self.pipeline or self._finished:
                break
        else:
            self._continue_later()
        if not self._finished:
            self._parsed, self._input = data[max(0, start - OVERLAP_BYTES) : start], data[start:]

    def _continue_later(self) -> None:
        if self._turn is None and not self._finished:
            self.flow.pause_reading()
            self._turn = self.loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._turn = None
        if not self._finished:
            self._unset_keepalive_if_required()
            self.flow.resume_reading()
            self._parse()

    def _parse_slice(self, data: bytes, start: int) -> int:
        """Parse a slice of the input.

        Returns:
            Index of the first byte after it; `start` if more input is needed.
        """
        in_body, before = self._meter.in_body, self.cycle
        if not in_body and self._waiting is None:
            self._wait_for_head()
        try:
            end = self._meter.cut(data, start)
            # A request for an upgrade has no body, and is processed as one of HTTP/1.1.
            with suppress(HttpParserUpgrade):
                self.parser.feed_data(memoryview(data)[start:end])
        except (RejectedRequest, HttpParserError) as error:
            rejected = error if isinstance(error, RejectedRequest) else error.__context__
            self.logger.warning("Invalid HTTP request received.")
            self._reject(
                rejected.detail if isinstance(rejected, RejectedRequest) else MALFORMED,
                own=self.cycle if in_body or self.cycle is not before else None,
                earlier=None if in_body else before,
            )
            return len(data)
        return end

    def _reject(self, detail: str, own: RequestResponseCycle | None, earlier: RequestResponseCycle | None) -> None:
        """Respond with 400 where that is still possible, and close the connection.

        Args:
            detail: what is wrong with the request.
            own: its cycle, if its head was complete.
            earlier: the cycle of the request before it.
        """
        if own is not None:
            # As after a lost connection, the application sees a disconnect and its response is dropped.
            self.pipeline.clear()
            own.disconnected = True
            own.waiting_for_100_continue = False
            own.message_event.set()
        if self._closes_after(earlier):
            return
        if own is None or not own.response_started:
            self.metrics.count_unparsed(400)
            self.transport.write(response_bytes(InvalidHttp(detail)))
        self._finish()
        self._wait_for_reader()

    def _closes_after(self, earlier: RequestResponseCycle | None) -> bool:
        """Let the response in flight be the last one of the connection.

        Nothing else can be written before it is complete: the caller would take it for a part of that response.

        Returns:
            Whether there is one.
        """
        if earlier is None or earlier.response_complete:
            return False
        self._drop_input()
        earlier.keep_alive = False
        return True

    def _finish(self) -> None:
        """End the connection's responses, and drop further input for a while before it is closed."""
        self._drop_input()
        self._unset_keepalive_if_required()
        if not self.transport.is_closing():
            self.transport.write_eof()
            self.flow.resume_reading()
            self._waiting = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _drop_input(self) -> None:
        self._finished = True
        self._input = b""
        self._stop_waiting()

    def _wait_for_head(self) -> None:
        self._waiting = self.loop.call_later(self.limit_seconds, self._head_is_late)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _head_is_late(self) -> None:
        self._waiting = None
        if not self._closes_after(self.cycle):
            self.metrics.count_unparsed(408)
            self.transport.write(_HEAD_TIMEOUT)
            self._wait_for_reader()
            self.transport.close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Begin a request, unless its caller has left by then."""
        self._running = cycle
        super()._start_asgi_task(cycle, self._with_backpressure(app, cycle))  # type: ignore[arg-type]  # two sets of types

    def _with_backpressure(self, app: ASGI3Application, cycle: RequestResponseCycle) -> ASGIApp:
        """The application with backpressure: sending waits until the caller has read all but a buffer's content.

        uvicorn buffers a whole response and lets the application finish. With backpressure, the limit on concurrent
        requests also limits the responses in memory.
        """

        async def with_backpressure(scope: Scope, receive: Receive, send: Send) -> None:
            if has_caller_left(self.transport):
                # Nothing is read while requests wait: 200 callers with 20 each that left kept a gateway busy for 21 s.
                cycle.disconnected = True
                self._drop_input()
                self.pipeline.clear()
                self.transport.close()
                return
            extensions: dict[str, Any] = dict(scope.get("extensions") or {})
            extensions[CONNECTION] = self
            scope["extensions"] = extensions

            head: Message | None = None

            async def sending(message: Message) -> None:
                nonlocal head
                if precedes_body(message, scope):
                    head = message
                    return
                started, head = head, None
                with nullcontext() if started is None else joined_writes(self.cycle, scope, self.flow):
                    if started is not None:
                        await send(started)
                    if message["type"] == "http.response.body" and not message.get("more_body", False):
                        self._linger_after(scope)
                    await send(message)
                await self.flow.drain()

            await app(scope, receive, sending)  # type: ignore[arg-type]  # uvicorn has its own types

        return with_backpressure

    def _linger_after(self, scope: Scope) -> None:
        """Keep uvicorn from closing the connection with the last byte of a response while a request is still coming.

        The header `connection: close` has been sent by then.
        """
        cycle = self.cycle
        current: object = cycle.scope
        # A later request can only be there when the body of this one is complete.
        if current is scope and cycle.more_body and not (cycle.keep_alive or self._stopping):
            cycle.keep_alive = self._lingers = True

    def unread_bytes(self) -> int:
        """Number of bytes of responses that the caller has not read."""
        waiting = self.transport.get_write_buffer_size()
        return waiting + unsent_bytes(self.transport) if waiting else 0

    def abort(self) -> None:
        """Close the connection without sending the rest."""
        _log.warning("slow reader disconnected for others", bytes_left=self.transport.get_write_buffer_size())
        self.transport.abort()

    def _wait_for_reader(self) -> None:
        """Start to check whether the caller reads, or note that it has read."""
        self._progress = self.loop.time()
        waiting = self.transport.get_write_buffer_size()
        self._unread = self.unread_bytes()
        if waiting and self._stall_check is None:
            self._stall_check = self.loop.call_later(self.limit_seconds / STALL_CHECKS, self._check_stall)

    def _check_stall(self) -> None:
        """Disconnect a caller that has read nothing for too long. A slow one may be slow."""
        self._stall_check = None
        waiting = self.transport.get_write_buffer_size()
        if not waiting:
            return
        cycle: RequestResponseCycle | None = self.cycle
        # While the application writes, the amount says nothing; once the buffer is full, it does.
        responding = cycle is not None and not (cycle.response_complete or cycle.disconnected)
        writing = responding and not self.flow.write_paused
        if writing or waiting + unsent_bytes(self.transport) < self._unread:
            self._wait_for_reader()
        elif self.loop.time() - self._progress >= self.limit_seconds:
            _log.warning("slow reader disconnected", bytes_left=waiting, seconds=self.limit_seconds)
            self.transport.abort()
        else:
            self._stall_check = self.loop.call_later(self.limit_seconds / STALL_CHECKS, self._check_stall)


def protocol(limit_seconds: float, metrics: RequestMetrics) -> type[ProblemProtocol]:
    """The protocol class of a service, for uvicorn.

    Args:
        limit_seconds: maximum time for the head of a request, and for a caller to read nothing of a response.
        metrics: counts requests that cannot be parsed.
    """
    return type("LimitedProtocol", (ProblemProtocol,), {"limit_seconds": limit_seconds, "metrics": metrics})
