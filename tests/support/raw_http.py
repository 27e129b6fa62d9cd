"""Raw HTTP over a socket: requests that no client library would send."""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec

from ragstore.kit.server.request_meter import MAX_HEAD_BYTES
from tests.support.ledger import TIMEOUT_SECONDS
from tests.support.servers import Served


@dataclass
class Response:
    """A response.

    Attributes:
        headers: its headers, with names in lower case.
    """

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def detail(self) -> str:
        """The detail of a problem document."""
        assert self.headers["content-type"].startswith("application/problem+json")
        problem = msgspec.json.decode(self.body, type=dict[str, object])
        assert problem["status"] == self.status
        return str(problem["detail"])


def connect(service: Served) -> socket.socket:
    """A connection to a service."""
    parts = urlsplit(service.url)
    return socket.create_connection((str(parts.hostname), parts.port or 0), timeout=TIMEOUT_SECONDS)


def responses_in(received: bytes) -> list[Response]:
    """All responses in what a connection received; each has a `Content-Length`."""
    found = []
    while received:
        head, _, rest = received.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        length = int(headers["content-length"])
        found.append(Response(int(status.split()[1]), headers, rest[:length]))
        assert len(found[-1].body) == length, "the last response is incomplete"
        received = rest[length:]
    return found


def read_all(connection: socket.socket) -> bytes:
    """All that a connection receives before it is closed."""
    received = b""
    with suppress(ConnectionResetError):
        while chunk := connection.recv(65536):
            received += chunk
    return received


def exchange(service: Served, *pieces: bytes) -> list[Response]:
    """Send pieces over one connection and read until the service closes it.

    The last request must have `Connection: close`.

    A piece that the service no longer takes ends the sending.
    """
    with connect(service) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(ConnectionError):
            for piece in pieces:
                connection.sendall(piece)
        return responses_in(read_all(connection))


def get(path: str = "/health/live", *headers: str, host: str | None = "127.0.0.1", version: str = "1.1") -> bytes:
    """A GET request."""
    lines = [f"GET {path} HTTP/{version}", *([] if host is None else [f"Host: {host}"]), *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def padded(size: int = MAX_HEAD_BYTES, *headers: str) -> bytes:
    """A GET request whose head has a size."""
    padding = size - len(get("/health/live", "X-Padding: ", *headers))
    return get("/health/live", f"X-Padding: {'x' * padding}", *headers)


def chunked(path: str, *headers: str, method: str = "POST") -> bytes:
    """The head of a request with a chunked body."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Transfer-Encoding: chunked", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def chunk(data: bytes, extension: bytes = b"") -> bytes:
    """A chunk of a body."""
    return b"%x%b\r\n%b\r\n" % (len(data), extension, data)


def send_without_end(service: Served, start: bytes, block: bytes, size: int) -> bytes:
    """Send blocks until a size is reached or the service takes no more, and return the response."""
    with connect(service) as connection:
        with suppress(ConnectionError):
            connection.sendall(start)
            for _ in range(size // len(block)):
                connection.sendall(block)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        return read_all(connection)
