"""Clients that disconnect, are slow, send too much or are too many: the other clients are served."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.ledger import TIMEOUT_SECONDS, all_documents, document
from tests.support.problems import problem_of
from tests.support.servers import Served, running, start_service

BUDGET: Final = 1.0
MAX_REQUESTS: Final = 4
MAX_BODY: Final = 100_000


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with narrow limits."""
    environ = {
        "RAGSTORE_REQUEST_TIMEOUT_SECONDS": str(BUDGET),
        "RAGSTORE_MAX_REQUESTS": str(MAX_REQUESTS),
        "RAGSTORE_MAX_BODY_BYTES": str(MAX_BODY),
    }
    with running(start_service(tmp_path_factory.mktemp("limited"), environ)) as served:
        httpx.post(f"{served.url}/collections", json={"name": "abc"}).raise_for_status()
        yield served


def connect(service: Served) -> socket.socket:
    """A connection to a service."""
    parts = urlsplit(service.url)
    return socket.create_connection((str(parts.hostname), parts.port or 0), timeout=TIMEOUT_SECONDS)


def head(length: int | None, collection: str = "abc") -> bytes:
    """The head of a request that adds documents, with a body of a length or in chunks."""
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return (
        f"PUT /collections/{collection}/documents HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"{framing}\r\n\r\n"
    ).encode()


def status_of(response: bytes) -> int:
    """The status of a raw response."""
    return int(response.split(b" ", 2)[1])


def read_to_end(connection: socket.socket) -> bytes:
    """All bytes until the connection is closed."""
    received = b""
    while chunk := connection.recv(65536):
        received += chunk
    return received


def test_a_body_whose_client_disconnects_has_no_effect(limited: Served) -> None:
    body = json.dumps({"documents": [document("vanished", 1)]}).encode()
    for _ in range(MAX_REQUESTS * 2):
        with connect(limited) as connection:
            connection.sendall(head(len(body)) + body[: len(body) // 2])
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # closed with a reset
    response = _wait_until_admitted(limited)
    assert response.status_code == 404


def _wait_until_admitted(service: Served) -> httpx.Response:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while (response := httpx.get(f"{service.url}/collections/abc/documents/vanished")).status_code == 503:
        assert time.monotonic() < deadline
    return response


def test_a_body_that_trickles_in_is_408_when_the_budget_ends(limited: Served) -> None:
    with connect(limited) as connection:
        connection.sendall(head(1000))
        connection.settimeout(0.05)
        deadline, response = time.monotonic() + TIMEOUT_SECONDS, b""
        while not response:
            assert time.monotonic() < deadline
            connection.sendall(b" ")
            try:
                response = connection.recv(65536)
            except TimeoutError:
                continue
    assert status_of(response) == 408
    assert b"application/problem+json" in response


def test_a_head_that_trickles_in_is_408_when_the_budget_ends(limited: Served) -> None:
    with connect(limited) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nX-Slow: ")
        response = read_to_end(connection)
    assert status_of(response) == 408


def test_a_connection_that_sends_nothing_is_closed(limited: Served) -> None:
    with connect(limited) as connection:
        read_to_end(connection)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large_is_413_before_it_is_read(limited: Served, chunked: bool) -> None:
    with connect(limited) as connection:
        if chunked:
            piece = b"1000\r\n" + b" " * 4096 + b"\r\n"
            connection.sendall(head(None) + piece * (MAX_BODY // 4096 + 1))
        else:
            connection.sendall(head(MAX_BODY + 1))
        response = connection.recv(65536)  # the rest of the body never comes
    assert status_of(response) == 413


def test_a_full_service_rejects_further_requests_immediately_and_serves_probes(limited: Served) -> None:
    def fill() -> list[socket.socket]:
        held = [connect(limited) for _ in range(MAX_REQUESTS)]
        for connection in held:
            connection.sendall(head(10))
        return held

    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:  # the held requests end with their budget, so that on a slow machine an attempt may be too late
        held = fill()
        response = httpx.get(f"{limited.url}/collections")
        probes = [httpx.get(f"{limited.url}/health{kind}").status_code for kind in ("", "/live", "/ready")]
        for connection in held:
            connection.close()
        if response.status_code == 503:
            break
        assert time.monotonic() < deadline
    assert problem_of(response, 503)["detail"] == "Too many requests are in progress"
    assert int(response.headers["retry-after"]) >= 1
    assert probes == [200, 200, 200]
    _wait_until_admitted(limited)


async def test_many_concurrent_writes_succeed_or_are_rejected_and_acknowledged_ones_are_stored(limited: Served) -> None:
    async def put(client: httpx.AsyncClient, number: int) -> int:
        body = {"documents": [document(f"many-{number}", number)]}
        return (await client.put(f"{limited.url}/collections/many/documents", json=body)).status_code

    async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS, limits=httpx.Limits(max_connections=64)) as client:
        (await client.post(f"{limited.url}/collections", json={"name": "many", "distance": "l2"})).raise_for_status()
        statuses = await asyncio.gather(*(put(client, number) for number in range(200)))
    assert set(statuses) <= {200, 503, 504}
    assert 200 in statuses
    stored = {one["id"] for one in all_documents(limited.url, "many")}
    assert stored >= {f"many-{number}" for number, status in enumerate(statuses) if status == 200}
    if 504 not in statuses:
        assert len(stored) == statuses.count(200)


PAGE: Final = "/collections/large/documents?limit=100"
"""About 12 MB, more than the buffers of sockets."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with narrow limits and a collection with a large page in it."""
    environ = {"RAGSTORE_REQUEST_TIMEOUT_SECONDS": str(BUDGET), "RAGSTORE_MAX_REQUESTS": str(MAX_REQUESTS)}
    with running(start_service(tmp_path_factory.mktemp("large"), environ)) as served:
        httpx.post(f"{served.url}/collections", json={"name": "large"}).raise_for_status()
        for number in range(10):
            batch = [document(f"{number}-{index}", number) for index in range(10)]
            for one in batch:
                one["metadata"]["much"] = "x" * 120_000
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while not httpx.put(f"{served.url}/collections/large/documents", json={"documents": batch}).is_success:
                assert time.monotonic() < deadline
        yield served


def request_large_page(service: Served, requests: int = 1) -> socket.socket:
    """A connection with a limited receive buffer, on which the large page is requested once or more often."""
    parts = urlsplit(service.url)
    connection = socket.socket()
    connection.settimeout(TIMEOUT_SECONDS)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    connection.connect((parts.hostname, parts.port))
    connection.sendall(f"GET {PAGE} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode() * requests)
    return connection


def read_response(connection: socket.socket, slowly: float = 0.0) -> tuple[int, int]:
    """Read a response until it is complete or cut.

    Args:
        slowly: seconds during which to read a little four times a second; then read as fast as possible.

    Returns:
        The number of bytes of the body that arrived, and its length.
    """
    head = b""
    while b"\r\n\r\n" not in head:
        head += connection.recv(4096)
    head, _, body = head.partition(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
    received, fast = len(body), time.monotonic() + slowly
    while received < length:
        try:
            chunk = connection.recv(100_000)
        except ConnectionError:
            break
        if not chunk:
            break
        received += len(chunk)
        if time.monotonic() < fast:
            time.sleep(0.25)
    return received, length


def cut(service: Served) -> int:
    """The number of connections that were cut because the client did not read."""
    return service.log.read_text().count("slow reader disconnected")


def test_clients_that_never_read_count_as_requests_until_they_are_cut(large: Served) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    full = 200
    while full != 503:  # they are cut after a while, so that on a slow machine an attempt may be too late
        before = cut(large)
        with ExitStack() as opened:
            unread = [opened.enter_context(request_large_page(large)) for _ in range(MAX_REQUESTS)]
            started = [connection.recv(12).endswith(b"200") for connection in unread]
            full = httpx.get(f"{large.url}/collections").status_code
            while cut(large) < before + sum(started):
                assert time.monotonic() < deadline, "clients that never read are never cut"
                time.sleep(0.05)
            assert httpx.get(f"{large.url}/collections").status_code == 200
            received = [read_response(connection) for connection in unread]
        assert all(
            some < all_bytes for (some, all_bytes), is_started in zip(received, started, strict=True) if is_started
        )
        assert time.monotonic() < deadline, "unread responses do not count as requests"


def test_a_client_that_sends_many_requests_and_never_reads_is_cut(large: Served) -> None:
    before = cut(large)
    with request_large_page(large, requests=20) as connection:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while cut(large) == before:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        received, length = read_response(connection)
        assert received < length


def test_a_client_that_reads_slowly_but_steadily_gets_the_whole_response(large: Served) -> None:
    """It reads so little that the socket, which buffers megabytes, takes nothing more within a budget."""
    received = length = 0
    while length < 10_000_000:  # a slow machine responds with 504
        with request_large_page(large) as connection:
            received, length = read_response(connection, slowly=5 * BUDGET)
    assert received == length


def test_stopping_does_not_wait_for_idle_connections_or_slow_bodies(tmp_path: Path) -> None:
    service = start_service(tmp_path, {"RAGSTORE_SHUTDOWN_SECONDS": "1"})
    with httpx.Client(base_url=service.url) as idle, connect(service) as silent, connect(service) as slow:
        idle.get("/health/live").raise_for_status()
        slow.sendall(head(1000))
        service.process.terminate()
        assert service.process.wait(15) == 0
        assert read_to_end(silent) == b""
        assert status_of(read_to_end(slow)) == 503
