"""Spies of the client's tests: what is logged, and which connections are opened."""

from __future__ import annotations

import logging
import socket

from tests.client.fake_servers import LocalServer, Responder


class LogSpy(logging.Handler):
    """Records every log line of the process, at every level."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


class ConnectionSpy(LocalServer):
    """A local server that records the peers of its connections."""

    def __init__(self, respond: Responder) -> None:
        super().__init__(respond)
        self.peers: list[object] = []
        accept = self._server.get_request

        def recorded() -> tuple[socket.socket, object]:
            connection, peer = accept()
            self.peers.append(peer)
            return connection, peer

        self._server.get_request = recorded  # type: ignore[method-assign]  # to see connections, not requests
