"""Ends the work on a request when its caller disconnects."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final, Self

from litestar.types import Receive

from ragstore_gateway.errors import CallerGone

WATCH_AFTER_SECONDS: Final = 0.25
"""Time after which the connection is watched. Watching costs a task, which short requests do not need."""


class CallerWatch:
    """Cancels its block when the caller disconnects, and then raises `CallerGone`.

    The body of the request must have been read before.

    Args:
        receive: the ASGI callable.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._scope = asyncio.timeout(None)
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def gone(self) -> bool:
        """Whether the caller has disconnected."""
        return self._scope.expired()

    async def __aenter__(self) -> Self:
        self._timer = asyncio.get_running_loop().call_later(WATCH_AFTER_SECONDS, self._start)
        await self._scope.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        try:
            await self._scope.__aexit__(kind, error, trace)
        except TimeoutError:
            raise CallerGone("The caller disconnected") from None

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watch(), name="watch-caller")

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())
