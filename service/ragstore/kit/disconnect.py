"""Ends the work on a request when its caller disconnects, or when its key is withdrawn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from litestar.types import Receive

from ragstore.kit.errors import CallerGone, Unauthorized

WATCH_AFTER_SECONDS: Final = 0.25
"""Time after which the connection is watched. Watching costs a task, which short requests do not need."""

KEY_CHECK_SECONDS: Final = 0.5
"""How often the key is checked. The file of keys is read every second, so a withdrawn key is noticed within 1.5 s."""


class CallerWatch:
    """Cancels its block when the caller disconnects, and then raises `CallerGone`.

    If the caller's key is withdrawn, or gets other rights, it cancels the block and raises `Unauthorized`.

    The body of the request must have been read before.

    Args:
        receive: the ASGI callable.
        is_authorized: whether the key is still in force, with the same rights.
    """

    def __init__(self, receive: Receive, is_authorized: Callable[[], bool] = lambda: True) -> None:
        self._receive = receive
        self._is_authorized = is_authorized
        self._withdrawn = False
        self._scope = asyncio.timeout(None)
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def gone(self) -> bool:
        """Whether the caller has disconnected."""
        return self._scope.expired() and not self._withdrawn

    @property
    def error(self) -> Unauthorized | None:
        """The reason why the block is cancelled although the caller has not disconnected; None without one."""
        return Unauthorized("The key is not valid any more") if self._withdrawn else None

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
            raise self.error or CallerGone("The caller disconnected") from None

    def _start(self) -> None:
        self._check_key()
        self._task = asyncio.get_running_loop().create_task(self._watch(), name="watch-caller")

    def _check_key(self) -> None:
        loop = asyncio.get_running_loop()
        if self._is_authorized():
            self._timer = loop.call_later(KEY_CHECK_SECONDS, self._check_key)
        elif not self._scope.expired():
            self._withdrawn = True
            self._scope.reschedule(loop.time())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())
