"""Runs an application until a signal stops the process."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

import uvicorn
from litestar.types import ASGIApp

from ragstore.kit.metrics import RequestMetrics
from ragstore.kit.server.http_protocol import protocol
from ragstore.kit.settings import ServerSettings


class _Server(uvicorn.Server):
    """uvicorn, which reports a shutdown to the application as soon as the signal arrives.

    Args:
        config: uvicorn's settings.
        stopping: set when the service shuts down.
    """

    def __init__(self, config: uvicorn.Config, stopping: threading.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal to stop."""
        self._stopping.set()
        super().handle_exit(sig, frame)


def run(
    create_app: Callable[[threading.Event], ASGIApp], settings: ServerSettings, metrics: RequestMetrics
) -> NoReturn:
    """Serve until SIGTERM or SIGINT, and exit.

    On a signal the event is set, from then on the service is not ready and rejects requests; requests in flight get
    `shutdown_seconds` to complete. The exit code is 0 after a signal, and not 0 if the service could not start.

    Args:
        create_app: makes the application; its argument is set when the service shuts down.
        settings: the service's settings.
        metrics: the metrics of its requests.
    """
    # uvicorn shuts down gracefully and then raises the signal again; a requested stop is not a failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    stopping = threading.Event()
    app = create_app(stopping)
    # Objects that exist now live as long as the process, so the garbage collector need not traverse them.
    gc.freeze()
    server = _Server(
        uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            http=protocol(settings.request_timeout_seconds, metrics),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=settings.shutdown_seconds,
        ),
        stopping,
    )
    server.run()
    sys.exit(0 if server.started else 1)
