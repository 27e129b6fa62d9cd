"""Large responses that are not read do not end the gateway under a memory limit of 1 GiB."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from tests.hostile.memory_limit import MemoryLimit
from tests.support.fake_sites import FakeSite, fake_site
from tests.support.gateways import start_gateway
from tests.support.servers import Served, running

pytestmark = pytest.mark.process

MIB = 1024 * 1024
LIMIT_BYTES = 1024 * MIB
PAGE_BYTES = 5 * MIB
FILE_BYTES = 50 * MIB
TEXT = "The boiler is serviced every October. "


@pytest.fixture(scope="module")
def site() -> Iterator[FakeSite]:
    """A site with large pages."""
    with fake_site() as served:
        yield served


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory, site: FakeSite) -> Iterator[tuple[Served, MemoryLimit]]:
    """A gateway under a memory limit, which may fetch from the site."""
    folder = tmp_path_factory.mktemp("limited")
    limit = MemoryLimit(LIMIT_BYTES)
    environ = {
        "RAGSTORE_URL": "http://127.0.0.1:9",
        "RAGSTORE_GATEWAY_ALLOW_HOSTS": f"127.0.0.1:{site.port}",
        # A quarter of the limit, which a watch would not show to the gateway.
        "RAGSTORE_GATEWAY_MAX_BYTES_IN_FLIGHT": str(LIMIT_BYTES // 4),
    }
    with running(start_gateway(folder, environ, ready=False, prefix=limit.prefix)) as served, limit.watching(served):
        yield served, limit
    limit.close()


@contextmanager
def unread(served: Served, requests: list[bytes]) -> Iterator[list[socket.socket]]:
    """Concurrent requests whose responses are not read."""
    with ExitStack() as stack:
        opened = []
        for request in requests:
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", int(served.url.rpartition(":")[2])))
            connection.sendall(request)
            connection.settimeout(90)
            opened.append(connection)
        yield opened


def first_bytes(connections: list[socket.socket]) -> list[bytes]:
    """The begin of each response; it is empty if the connection was closed before."""
    found = []
    for connection in connections:
        try:
            found.append(connection.recv(16))
        except ConnectionResetError:
            found.append(b"")
    return found


def test_extractions_that_are_not_read_leave_the_gateway_alive(
    limited: tuple[Served, MemoryLimit], site: FakeSite
) -> None:
    served, limit = limited
    site.page("large", TEXT * (PAGE_BYTES // len(TEXT)), "Content-Type: text/plain")
    body = json.dumps([f"{site.origin}/large?{number}" for number in range(50)]).encode()
    head = f"POST /extract HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    with unread(served, [head.encode() + b"\r\n\r\n" + body] * 4) as connections:
        # Some of them wait for room in vain.
        assert {each[9:12] for each in first_bytes(connections)} <= {b"200", b"503", b""}
        assert httpx.get(f"{served.url}/health/live", timeout=30).is_success
    assert (served.process.poll(), limit.was_exceeded) == (None, False), limit.peak_bytes


def test_downloads_that_are_not_read_leave_the_gateway_alive(limited: tuple[Served, MemoryLimit]) -> None:
    served, limit = limited
    files = {"file": ("large.bin", b"x" * FILE_BYTES)}
    upload = httpx.post(f"{served.url}/v1/files", data={"purpose": "assistants"}, files=files, timeout=60)
    path = f"/v1/files/{upload.json()['id']}/content"
    with unread(served, [f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()] * 30) as connections:
        assert {each[9:12] for each in first_bytes(connections)} <= {b"200", b"503", b""}
        assert httpx.get(f"{served.url}/health/live", timeout=30).is_success
    with httpx.stream("GET", served.url + path, timeout=60) as response:
        assert response.headers["Content-Length"] == str(FILE_BYTES)
        assert sum(map(len, response.iter_bytes())) == FILE_BYTES
    assert (served.process.poll(), limit.was_exceeded) == (None, False), limit.peak_bytes
