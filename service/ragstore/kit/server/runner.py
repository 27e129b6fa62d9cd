"""Runs an application until a signal stops the process."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import NoReturn

import click
import structlog
import uvicorn
from litestar.types import ASGIApp

from ragstore.kit.file_limit import raise_file_limit
from ragstore.kit.large_blocks import return_large_blocks
from ragstore.kit.metrics import RequestMetrics
from ragstore.kit.server.http_protocol import protocol
from ragstore.kit.server.startup import Startup
from ragstore.kit.settings import ServerSettings
from ragstore.kit.shutdown import Shutdown

_log = structlog.get_logger(__name__)


class _Server(uvicorn.Server):
    """uvicorn, which drains before it stops, and logs when it starts and stops.

    Args:
        config: uvicorn's settings.
        app: the application.
        stopping: set when the service shuts down.
        drain_seconds: time for which the service still serves after the signal.
        facts: logged when the service has started.
        page: path of a page to open in a browser; empty for none.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        app: Startup,
        stopping: Shutdown,
        drain_seconds: float,
        facts: Mapping[str, object],
        page: str,
    ) -> None:
        super().__init__(config)
        self._app = app
        self._stopping = stopping
        self._drain_seconds = drain_seconds
        self._facts = facts
        self._page = page
        self._signalled = 0.0
        self._signal = ""
        self._requests_cut = 0

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has stopped it, maybe before it had started."""
        return bool(self._signal)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        listeners: Sequence[socket.socket] = [each for server in self.servers for each in server.sockets or ()]
        addresses = [_address(listener) for listener in listeners]
        _log.info("started", address=" ".join(addresses), pid=os.getpid(), **self._facts)
        if self._page and sys.stderr.isatty() and addresses:
            click.echo(f"Try {_reachable(addresses[0])}{self._page} (Ctrl-C stops the service)", err=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal to stop: drain first; a second signal ends that."""
        if not self._signal:
            self._signal = signal.Signals(sig).name
            self._signalled = time.monotonic()
            self._stopping.draining.set()
            if self.started and self._drain_seconds:
                self._captured_signals.append(sig)
                return
        self._stopping.set()
        if not self.started:
            self._app.stop()
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: stop when the drain is over."""
        if self._signal and time.monotonic() - self._signalled >= self._drain_seconds:
            self._stopping.set()
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Complete the requests in flight, and stop."""
        tasks = set(self.server_state.tasks)
        _log.info("stopping", reason=self._signal, requests_in_flight=len(tasks))
        await super().shutdown(sockets)
        self._requests_cut = sum(task.cancelled() or task.cancelling() > 0 for task in tasks)

    def log_stopped(self) -> None:
        """Log the end, if the service had started."""
        if self.started:
            seconds = round(time.monotonic() - self._signalled, 2) if self._signal else None
            _log.info("stopped", reason=self._signal, seconds=seconds, requests_cut=self._requests_cut)


def run(
    create_app: Callable[[threading.Event], ASGIApp],
    settings: ServerSettings,
    metrics: RequestMetrics,
    *,
    facts: Mapping[str, object] | None = None,
    page: str = "",
) -> NoReturn:
    """Serve until SIGTERM or SIGINT, and exit.

    On a signal the service is not ready any more. It serves for `drain_seconds`, and then rejects requests; requests in
    flight get `shutdown_seconds` to complete. A signal during the start ends the start. The exit code is 0 after a
    signal, and 1 if the service could not start.

    Args:
        create_app: makes the application; its argument is set when the service stops.
        settings: the service's settings.
        metrics: the metrics of its requests.
        facts: logged when the service has started, such as its version; no secrets.
        page: path of a page to open in a browser, which is shown on a terminal; empty for none.
    """
    # uvicorn shuts down gracefully and then raises the signal again; a requested stop is not a failure.
    for requested in (signal.SIGTERM, signal.SIGINT):
        signal.signal(requested, lambda *_: sys.exit(0))
    if sys.platform != "win32":
        # The end of a terminal is a request to stop, too. uvicorn does not handle it.
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    raise_file_limit()
    return_large_blocks()
    stopping = Shutdown()
    app = Startup(create_app(stopping))
    # Objects that exist now live as long as the process, so the garbage collector need not traverse them.
    gc.freeze()
    access = "keys" if settings.keys_file else "open"
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
        app,
        stopping,
        settings.drain_seconds,
        {"access": access, **(facts or {})},
        page,
    )
    try:
        server.run()
    except SystemExit as end:
        # uvicorn ends with 3 if it cannot listen.
        sys.exit(0 if end.code in (0, None) or server.is_stopped else 1)
    finally:
        server.log_stopped()
    sys.exit(0 if server.started or server.is_stopped else 1)


def _address(listener: socket.socket) -> str:
    """The address of a listener, as a URL."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _reachable(address: str) -> str:
    """An address for a browser on this machine."""
    return address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")  # compared only
