"""The start of an application: a failure that an operator can change is one line, and a signal ends the start."""

from __future__ import annotations

import asyncio
import logging
import traceback
from typing import Final, cast

import structlog
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from ragstore.kit.errors import StartFailed
from ragstore.kit.settings import SettingsError

_FAILED: Final = "lifespan.startup.failed"

# Litestar's types of an application leave the protocol of its start out.
_FAILED_MESSAGE: Final = cast("Message", {"type": _FAILED, "message": ""})

_log = structlog.get_logger(__name__)


class Startup:
    """An application whose start is reported in one line if it fails.

    The server would log the traceback of an exception, with a further line that repeats it.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._starting: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopped = False
        logging.getLogger("uvicorn.error").addFilter(_is_no_repetition)

    def stop(self) -> None:
        """End a start in progress. It may be called by the handler of a signal."""
        self._is_stopped = True
        if self._loop is not None and self._starting is not None:
            self._loop.call_soon_threadsafe(self._starting.cancel)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Start the application, or pass a request on."""
        if cast("str", scope["type"]) != "lifespan":
            await self._app(scope, receive, send)
            return
        self._loop, self._starting = asyncio.get_running_loop(), asyncio.current_task()

        async def send_state(message: Message) -> None:
            if cast("str", message["type"]) == _FAILED:
                return
            self._starting = None
            await send(message)

        try:
            if not self._is_stopped:
                await self._app(scope, receive, send_state)
        except BaseException as error:
            if self._starting is None:
                raise
            if not self._is_stopped:
                _report(error)
        if self._starting is not None:
            await send(_FAILED_MESSAGE)


def _report(error: BaseException) -> None:
    """Log why an application does not start: in one line, or with a traceback if the reason is a fault of ours."""
    reason = error
    # Contexts that are closed because of an error may add others to a group.
    while isinstance(reason, BaseExceptionGroup):
        reason = reason.exceptions[0]
    if isinstance(reason, StartFailed | SettingsError):
        _log.error("the service cannot start", error=str(reason))
    else:
        _log.error("the service cannot start", error=type(reason).__name__, traceback=traceback.format_exc())


def _is_no_repetition(record: logging.LogRecord) -> bool:
    return record.msg != "Application startup failed. Exiting."
