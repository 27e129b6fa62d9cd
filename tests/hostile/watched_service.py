"""The service with a watchdog on its event loop: `python -m tests.hostile.watched_service`.

`GET /watchdog` returns the worst pause of the event loop and the peak of the memory since the last such request.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import msgspec
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send

from ragstore import settings
from ragstore.app import METRICS, SERVICE, create_app
from ragstore.kit.logging import configure
from ragstore.kit.server.runner import run
from tests.hostile.watchdog import Watched

TICK_SECONDS = 0.002


def _memory(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


class Watchdog:
    """An application that also watches the event loop that it runs in."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._watching: asyncio.Task[None] | None = None
        self._reset()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or respond with what was seen."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        if scope["type"] != ScopeType.HTTP or scope["path"] != "/watchdog":
            await self._app(scope, receive, send)
            return
        await asyncio.sleep(2 * TICK_SECONDS)  # the pause that just ended is noted first
        seen = Watched(self._pause, self._busy, _memory("VmHWM:") - self._memory)
        self._reset()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": msgspec.json.encode(seen), "more_body": False})

    def _reset(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # the peak becomes the current size
        self._memory = _memory("VmRSS:")
        self._pause = self._busy = 0.0

    async def _watch(self) -> None:
        while True:
            wall, cpu = time.perf_counter(), time.thread_time()
            await asyncio.sleep(TICK_SECONDS)
            self._pause = max(self._pause, time.perf_counter() - wall - TICK_SECONDS)
            self._busy = max(self._busy, time.thread_time() - cpu)


if __name__ == "__main__":
    chosen = settings.load()
    configure(chosen.log_level, chosen.log_format, SERVICE.name)
    run(lambda stopping: Watchdog(create_app(chosen, stopping)), chosen, METRICS)
