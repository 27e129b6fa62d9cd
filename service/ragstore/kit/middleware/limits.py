"""What bounds a request: how many are worked on at once, and how long one may take, its body included.

These stand outside Litestar, so that a service that is full answers without doing anything else.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import nullcontext
from typing import Final

import msgspec
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPReceiveMessage, HTTPScope, Message, Receive, Scope, Send

from ragstore.kit.context import set_deadline
from ragstore.kit.errors import BodyTimeout, Overloaded, ServiceError, Stopping
from ragstore.kit.problems import Probe, send_problem
from ragstore.kit.rejections import REJECTIONS

READY: Final = "/health/ready"
ALWAYS_ANSWERED: Final = frozenset({"/health", "/health/live", READY, "/metrics"})
"""What asks how the service is gets an answer however full it is."""

_FULL: Final = REJECTIONS.labels("requests")
_STOPPING: Final = REJECTIONS.labels("stopping")

LAST_RESORT_SECONDS: Final = 1.0
"""How long after its budget a request is ended by force. What waits for Chroma or for the body ends by itself."""


class LimitsMiddleware:
    """Admits so many requests at once, and gives each a budget of time.

    Args:
        app: the application.
        most: most requests at once; a further one is 503 at once.
        seconds: budget of a request, from its head to the begin of its answer, and between two parts of that; a stream
            renews it with each step. How long a part may wait for its caller to read is not counted here: the protocol
            cuts those that do not read.
        stopping: set when the service stops, and takes no more work.
        too_long: the response to a request that exceeds its budget.
    """

    def __init__(
        self,
        app: ASGIApp,
        most: int,
        seconds: float,
        stopping: threading.Event,
        too_long: ServiceError,
    ) -> None:
        self._app = app
        self._most = most
        self._seconds = seconds
        self._stopping = stopping
        self._too_long = too_long
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
        elif scope["path"] in ALWAYS_ANSWERED:
            if self._stopping.is_set() and scope["path"] == READY:
                await _send_unready(send)
            else:
                await self._in_time(scope, receive, send)
        elif self._stopping.is_set():
            _STOPPING.inc()
            await send_problem(send, Stopping("The service is stopping"))
        elif self._running >= self._most:
            _FULL.inc()
            await send_problem(send, Overloaded("Too many requests are under way"))
        else:
            self._running += 1
            try:
                await self._in_time(scope, receive, send)
            finally:
                self._running -= 1

    async def _in_time(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Pass a request on, and answer for it when it takes too long."""
        budget = set_deadline(self._seconds)
        started = False
        body_ended = False

        async def receiving() -> HTTPReceiveMessage:
            nonlocal body_ended
            try:
                # What comes after the body is that the caller has left, which need not happen in time.
                async with nullcontext() if body_ended else budget.limit():
                    message: HTTPReceiveMessage = await receive()  # type: ignore[assignment]  # as of HTTP
            except TimeoutError:
                raise BodyTimeout("The request's body did not come in time") from None
            body_ended = not message.get("more_body")
            return message

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            if not limit.expired():
                limit.reschedule(None)
            await send(message)
            if not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time() + self._seconds + LAST_RESORT_SECONDS)

        try:
            async with budget.limit(LAST_RESORT_SECONDS) as limit:
                await self._app(scope, receiving, sending)
        except TimeoutError:
            if started:
                raise
            await send_problem(send, self._too_long)
        except asyncio.CancelledError:
            # The grace period is over. This is the task's outermost part, so nobody above waits for the cancellation.
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
