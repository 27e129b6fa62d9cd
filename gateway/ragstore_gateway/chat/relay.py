"""Sends the upstream's response to the caller, chunk by chunk."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import suppress
from http import HTTPStatus
from typing import Final, Protocol

import aiohttp
import structlog
from litestar.types import Scope, Send

from ragstore.kit.time_slices import TimeSlices
from ragstore_gateway.chat import metrics
from ragstore_gateway.chat.error_format import FROM_UPSTREAM
from ragstore_gateway.disconnect import CallerWatch
from ragstore_gateway.errors import UpstreamFailed, UpstreamTimeout
from ragstore_gateway.openai_errors import encode_openai_error

EVENT_STREAM: Final = "text/event-stream"

_WHOLE: Final = frozenset({"application/json", "application/problem+json"})
"""Types of responses that are not streams, although many servers send them without a length."""

_WITHOUT_BODY: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.RESET_CONTENT})

_log = structlog.get_logger(__name__)


class Rewriter(Protocol):
    """Changes a stream on its way."""

    @property
    def complete(self) -> bool:
        """Whether the end of the response has arrived."""

    def begin(self) -> bytes:
        """The bytes to send before the first one of the upstream."""

    def feed(self, chunk: bytes) -> Generator[None, None, bytes]:
        """The bytes to send for a chunk, made in steps."""

    def finish(self) -> Generator[None, None, bytes]:
        """The bytes to send after the last chunk, made in steps."""


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

    A stream of events that breaks ends with an event `error`. Any other response that breaks is cut off: the caller
    sees that it is incomplete.

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
    last = rewriter.begin() if rewriter is not None else b""
    if last:
        await send({"type": "http.response.body", "body": last, "more_body": True})
    if streams:
        metrics.STREAMS.inc()
    try:
        while True:
            chunk = await content.readany()
            ended = content.at_eof()
            if meter.counts_tokens:
                await slices.run(meter.feed(chunk))
            if rewriter is not None:
                chunk = await slices.run(rewriter.feed(chunk))
                if ended:
                    chunk += _end_of(rewriter, await slices.run(rewriter.finish()), chunk or last)
            if ended or chunk:
                last = chunk or last
                await send({"type": "http.response.body", "body": chunk, "more_body": not ended})
            if ended:
                return
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        timed_out = isinstance(error, TimeoutError)
        metrics.upstream_failure("timeout" if timed_out else "broken")
        _log.warning("stream broken", reason="timeout" if timed_out else "broken", error=type(error).__name__)
        if streams:
            await _end_with_error(send, last, timed_out=timed_out)
    except asyncio.CancelledError:
        # The service stops; or the caller is gone, and reads nothing more.
        if streams and not watch.gone:
            with suppress(OSError):
                await _end_with_error(send, last, timed_out=False)
        raise
    finally:
        if streams:
            metrics.STREAMS.dec()
        if not content.at_eof():
            response.close()


async def read_all(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """Read a plain response.

    Args:
        response: the response.
        max_bytes: its maximum size.

    Raises:
        UpstreamFailed: it breaks off, or is too large.
        UpstreamTimeout: its end does not come in time.
    """
    content = bytearray()
    try:
        async for chunk in response.content.iter_any():
            content += chunk
            if len(content) > max_bytes:
                metrics.upstream_failure("too_large")
                raise UpstreamFailed("The model server's response is too large")
    except TimeoutError:
        metrics.upstream_failure("timeout")
        raise UpstreamTimeout("The model server stopped sending") from None
    except (aiohttp.ClientError, OSError):
        metrics.upstream_failure("broken")
        raise UpstreamFailed("The model server's response broke off") from None
    finally:
        if not response.content.at_eof():
            response.close()
    return bytes(content)


def _end_of(rewriter: Rewriter, rest: bytes, last: bytes) -> bytes:
    """The end of a stream that the upstream has ended, after the last bytes that were sent."""
    if rewriter.complete:
        return rest
    metrics.upstream_failure("broken")
    _log.warning("stream broken", reason="broken", error="incomplete")
    return rest + _error_event(rest or last, timed_out=False)


async def _end_with_error(send: Send, last: bytes, *, timed_out: bool) -> None:
    await send({"type": "http.response.body", "body": _error_event(last, timed_out=timed_out), "more_body": False})


def _error_event(last: bytes, *, timed_out: bool) -> bytes:
    """An event that reports a broken stream, after the last bytes that were sent."""
    error = (
        UpstreamTimeout("The model server stopped sending")
        if timed_out
        else UpstreamFailed("The model server's stream broke off")
    )
    end_of_event = not last or last.endswith((b"\n\n", b"\r\n\r\n", b"\r\r"))
    return (b"" if end_of_event else b"\n\n") + b"event: error\ndata: " + encode_openai_error(error) + b"\n\n"
