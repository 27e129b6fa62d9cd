"""Limits on the number of concurrent requests, and on the time of each one, its body included.

This middleware is outside Litestar, so that a service at its limit responds with as little work as possible.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import nullcontext
from typing import Final

import msgspec
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPReceiveMessage, HTTPScope, Message, Receive, Scope, Send
from prometheus_client import Counter

from ragstore.kit.context import set_deadline
from ragstore.kit.errors import BodyTimeout, Overloaded, ServiceError, Stopping
from ragstore.kit.health import READY_PATH, UNLIMITED_PATHS, Probe
from ragstore.kit.problems import send_problem
from ragstore.kit.shutdown import is_draining

LAST_RESORT_SECONDS: Final = 1.0
"""Time after its budget when a request is cancelled. Waits for the backend or for the body end by themselves."""


class LimitsMiddleware:
    """Admits a maximum number of concurrent requests, and gives each a time budget.

    Args:
        app: the application.
        max_requests: maximum number of concurrent requests; further ones get 503 immediately.
        timeout_seconds: budget of a request: from its head to the begin of its response, and between two chunks of
            the response. A stream renews it with each step, and a route may set another length. Waiting for a slow
            reader does not count: the HTTP protocol disconnects callers that do not read.
        stopping: set when the service stops; further requests get 503. While it drains, a `Shutdown`, the readiness
            probe gets 503, and each response closes its connection, so that callers connect elsewhere.
        timeout_error: the response to a request that exceeds its budget.
        rejections: counts rejected requests, by reason.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        max_requests: int,
        timeout_seconds: float,
        stopping: threading.Event,
        timeout_error: ServiceError,
        rejections: Counter,
    ) -> None:
        self._app = app
        self._max_requests = max_requests
        self._timeout_seconds = timeout_seconds
        self._stopping = stopping
        self._timeout_error = timeout_error
        self._rejected_full = rejections.labels("requests")
        self._rejected_stopping = rejections.labels("stopping")
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or reject it."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
        elif scope["path"] in UNLIMITED_PATHS:
            if is_draining(self._stopping) and scope["path"] == READY_PATH:
                await _send_unready(send)
            else:
                await self._run(scope, receive, send)
        elif self._stopping.is_set():
            self._rejected_stopping.inc()
            await send_problem(send, Stopping("The service is stopping"))
        elif self._running >= self._max_requests:
            self._rejected_full.inc()
            await send_problem(send, Overloaded("Too many requests are in progress"))
        else:
            self._running += 1
            try:
                await self._run(scope, receive, send)
            finally:
                self._running -= 1

    async def _run(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Pass a request on, and respond in its stead when it exceeds its budget."""
        budget = set_deadline(self._timeout_seconds)
        started = False
        body_ended = False

        async def receive_in_time() -> HTTPReceiveMessage:
            nonlocal body_ended
            try:
                # After the body comes the caller's disconnect, which may take any time.
                async with nullcontext() if body_ended else budget.limit():
                    message: HTTPReceiveMessage = await receive()  # type: ignore[assignment]  # as of HTTP
            except TimeoutError:
                raise BodyTimeout("The request's body did not come in time") from None
            body_ended = not message.get("more_body")
            return message

        async def send_in_time(message: Message) -> None:
            nonlocal started
            started = True
            if message["type"] == "http.response.start" and is_draining(self._stopping):
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            if not limit.expired():
                limit.reschedule(None)
            await send(message)
            if not limit.expired():
                ends = asyncio.get_running_loop().time() + budget.seconds + LAST_RESORT_SECONDS
                limit.reschedule(ends)

        try:
            async with budget.limit(LAST_RESORT_SECONDS) as limit:
                await self._app(scope, receive_in_time, send_in_time)
        except TimeoutError:
            if started:
                raise
            await send_problem(send, self._timeout_error)
        except asyncio.CancelledError:
            # The grace period is over. This is the outermost frame of the task: no caller waits for the cancellation.
            if started or not self._stopping.is_set():
                raise
            await send_problem(send, Stopping("The service stopped before this was done"))


_UNREADY: Final = msgspec.json.encode(Probe("unready", "The service is stopping"))


async def _send_unready(send: Send) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(_UNREADY)).encode()),
        (b"retry-after", b"1"),
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": _UNREADY, "more_body": False})
