"""Sends the upstream's response to the caller, chunk by chunk."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from contextlib import suppress
from http import HTTPStatus
from io import BytesIO
from typing import Final, Protocol

import aiohttp
import structlog
from litestar.types import Scope, Send

from ragstore.kit.byte_budget import FREE_BYTES, reserve
from ragstore.kit.disconnect import CallerWatch
from ragstore.kit.errors import ServiceError
from ragstore.kit.middleware.bodies import CONNECTION, Connection
from ragstore.kit.time_slices import TimeSlices
from ragstore_gateway.api.openai_errors import encode_openai_error
from ragstore_gateway.chat import metrics
from ragstore_gateway.chat.error_format import FROM_UPSTREAM
from ragstore_gateway.errors import UpstreamFailed, UpstreamTimeout

EVENT_STREAM: Final = "text/event-stream"

_WHOLE: Final = frozenset({"application/json", "application/problem+json"})
"""Types of responses that are not streams, although many servers send them without a length."""

_WITHOUT_BODY: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.RESET_CONTENT})

PIECE_BYTES: Final = FREE_BYTES
"""Number of bytes of a changed stream that are gathered before they are sent. More are not made before the caller has
read them."""

RESERVED_BYTES: Final = 256 * 1024
"""Number of further bytes of a response for which room is reserved when it exceeds what was reserved before."""

END_SECONDS: Final = 0.25
"""Time for a caller to read the end of a stream that the gateway ends. One that does not read is disconnected."""

_END_BYTES: Final = 4
"""Maximum size of the end of an event."""

_log = structlog.get_logger(__name__)


class Rewriter(Protocol):
    """Changes a stream on its way."""

    @property
    def complete(self) -> bool:
        """Whether the end of the response has arrived."""

    def begin(self) -> bytes:
        """The bytes to send before the first one of the upstream."""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The bytes to send for a chunk, a piece or nothing in each step."""

    def finish(self) -> Iterator[bytes]:
        """The bytes to send after the last chunk, in the same way."""


class ChunkMeter(Protocol):
    """Counts what passes."""

    @property
    def counts_tokens(self) -> bool:
        """Whether it counts anything."""

    def feed(self, chunk: bytes) -> Generator[None, None, None]:
        """Count a chunk, in steps."""


def is_event_stream(response: aiohttp.ClientResponse) -> bool:
    """Whether a response is a stream of server-sent events."""
    return response.content_type == EVENT_STREAM


def is_streamed(response: aiohttp.ClientResponse) -> bool:
    """Whether a response occupies its connection for as long as the upstream generates.

    That is a stream of events, and everything but JSON whose length was not known at its start, such as speech.
    """
    if is_event_stream(response):
        return True
    success = HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES and response.status not in _WITHOUT_BODY
    return success and "Content-Length" not in response.headers and response.content_type not in _WHOLE


async def relay(
    response: aiohttp.ClientResponse,
    headers: list[tuple[bytes, bytes]],
    scope: Scope,
    send: Send,
    watch: CallerWatch,
    slices: TimeSlices,
    *,
    meter: ChunkMeter,
    rewriter: Rewriter | None = None,
) -> None:
    """Send a response, each chunk as soon as it arrives.

    A stream of events that breaks, or whose key is withdrawn, ends with an event `error`. Any other response that
    breaks is cut off: the caller sees that it is incomplete.

    Args:
        response: the upstream's response.
        headers: the headers for the caller.
        scope: the scope of the caller's request.
        send: the ASGI callable.
        watch: the watch of the caller's connection, within which this runs.
        slices: runs the work on large chunks, so that other requests do not wait for it.
        meter: counts tokens.
        rewriter: changes the stream; None for the bytes as they are.
    """
    scope[FROM_UPSTREAM] = True  # type: ignore[typeddict-unknown-key]  # a key of our own
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    content = response.content
    streams = is_event_stream(response)
    output = _Output(send)
    if streams:
        metrics.STREAMS.inc()
    try:
        if rewriter is not None and (first := rewriter.begin()):
            await output.write(first)
        while True:
            chunk = await content.readany()
            ended = content.at_eof()
            if meter.counts_tokens:
                await slices.run(meter.feed(chunk))
            if rewriter is not None:
                await output.write_pieces(rewriter.feed(chunk), slices)
                if ended:
                    await output.write_pieces(rewriter.finish(), slices)
                    await output.write(_end_of(rewriter, output.tail), more=False)
            elif ended or chunk:
                await output.write(chunk, more=not ended)
            if ended:
                return
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        timed_out = isinstance(error, TimeoutError)
        metrics.upstream_failure("timeout" if timed_out else "broken")
        _log.warning("stream broken", reason="timeout" if timed_out else "broken", error=type(error).__name__)
        if streams:
            await output.write(_broken(output.tail, timed_out=timed_out), more=False)
    except asyncio.CancelledError:
        # The upstream works no longer than that, also if the caller does not read the end.
        response.close()
        # The service stops, or the key was withdrawn; or the caller is gone, and reads nothing more.
        if streams and not watch.gone:
            reason = watch.error or UpstreamFailed("The model server's stream broke off")
            with suppress(OSError):
                await _end(output, _error_event(output.tail, reason), scope)
        raise
    finally:
        if streams:
            metrics.STREAMS.dec()
        if not content.at_eof():
            response.close()


async def _end(output: _Output, event: bytes, scope: Scope) -> None:
    """Send a last event, or close the connection of a caller that does not read it in time."""
    try:
        async with asyncio.timeout(END_SECONDS):
            await output.write(event, more=False)
    except TimeoutError:
        connection: object = (scope.get("extensions") or {}).get(CONNECTION)
        if isinstance(connection, Connection):
            connection.abort()


class _Output:
    """Sends the body of a response.

    Args:
        send: the ASGI callable, which waits while the caller does not read.

    Attributes:
        tail: the last bytes that were sent.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self.tail = b""

    async def write(self, piece: bytes, *, more: bool = True) -> None:
        """Send a piece. Without `more`, it is the last one."""
        self.tail = (self.tail + piece[-_END_BYTES:])[-_END_BYTES:]
        await self._send({"type": "http.response.body", "body": piece, "more_body": more})

    async def write_pieces(self, pieces: Iterator[bytes], slices: TimeSlices) -> None:
        """Send pieces as they are made. Small ones are sent together."""
        while piece := await slices.run(_gathered(pieces)):
            await self.write(piece)


def _gathered(pieces: Iterator[bytes]) -> Generator[None, None, bytes]:
    """The next pieces, until they are large enough to be sent; empty at the end."""
    found: list[bytes] = []
    left = PIECE_BYTES
    for piece in pieces:
        if piece:
            found.append(piece)
            left -= len(piece)
        if left <= 0:
            break
        yield
    return found[0] if len(found) == 1 else b"".join(found)


async def read_all(response: aiohttp.ClientResponse, max_bytes: int, *, copies: int = 0) -> bytes:
    """Read a plain response.

    Args:
        max_bytes: its maximum size.
        copies: number of copies for which the request in progress reserves room in the budget of bytes while it reads a
            large response; 0 for a response that other requests share.

    Raises:
        Overloaded: there is no room for them in time.
        UpstreamFailed: it breaks off, or is too large.
        UpstreamTimeout: its end does not come in time.
    """
    # Its buffer becomes the result without a copy.
    content = BytesIO()
    reserved = 0
    try:
        async for chunk in response.content.iter_any():
            size = content.tell() + len(chunk)
            if size > max_bytes:
                metrics.upstream_failure("too_large")
                raise UpstreamFailed("The model server's response is too large")
            if copies and size > max(reserved, FREE_BYTES):
                await reserve(copies * (size + RESERVED_BYTES - reserved))
                reserved = size + RESERVED_BYTES
            content.write(chunk)
    except TimeoutError:
        metrics.upstream_failure("timeout")
        raise UpstreamTimeout("The model server stopped sending") from None
    except (aiohttp.ClientError, OSError):
        metrics.upstream_failure("broken")
        raise UpstreamFailed("The model server's response broke off") from None
    finally:
        if not response.content.at_eof():
            response.close()
    return content.getvalue()


def _end_of(rewriter: Rewriter, tail: bytes) -> bytes:
    """The end of a stream that the upstream has ended, after the last bytes that were sent."""
    if rewriter.complete:
        return b""
    metrics.upstream_failure("broken")
    _log.warning("stream broken", reason="broken", error="incomplete")
    return _broken(tail, timed_out=False)


def _broken(tail: bytes, *, timed_out: bool) -> bytes:
    """An event that reports a broken stream, after the last bytes that were sent."""
    if timed_out:
        return _error_event(tail, UpstreamTimeout("The model server stopped sending"))
    return _error_event(tail, UpstreamFailed("The model server's stream broke off"))


def _error_event(tail: bytes, error: ServiceError) -> bytes:
    end_of_event = not tail or tail.endswith((b"\n\n", b"\r\n\r\n", b"\r\r"))
    return (b"" if end_of_event else b"\n\n") + b"event: error\ndata: " + encode_openai_error(error) + b"\n\n"
