"""Callers that vanish, dawdle, send too much or come too many: the others are served."""

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
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with narrow limits."""
    environ = {
        "RAGSTORE_REQUEST_TIMEOUT_SECONDS": str(BUDGET),
        "RAGSTORE_MAX_REQUESTS": str(MAX_REQUESTS),
        "RAGSTORE_MAX_BODY_BYTES": str(MAX_BODY),
    }
    with running(start_service(tmp_path_factory.mktemp("small"), environ)) as served:
        httpx.post(f"{served.url}/collections", json={"name": "abc"}).raise_for_status()
        yield served


def connected(service: Served) -> socket.socket:
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


def status_of(answer: bytes) -> int:
    """The status of a raw answer."""
    return int(answer.split(b" ", 2)[1])


def read_to_end(connection: socket.socket) -> bytes:
    """All that comes until the connection is closed."""
    received = b""
    while chunk := connection.recv(65536):
        received += chunk
    return received


def test_a_caller_that_vanishes_in_the_middle_of_a_body_leaves_nothing(small: Served) -> None:
    body = json.dumps({"documents": [document("vanished", 1)]}).encode()
    for _ in range(MAX_REQUESTS * 2):
        with connected(small) as connection:
            connection.sendall(head(len(body)) + body[: len(body) // 2])
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # closed with a reset
    answer = _until_admitted(small)
    assert answer.status_code == 404


def _until_admitted(service: Served) -> httpx.Response:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while (answer := httpx.get(f"{service.url}/collections/abc/documents/vanished")).status_code == 503:
        assert time.monotonic() < deadline
    return answer


def test_a_body_that_trickles_in_is_408_when_the_budget_ends(small: Served) -> None:
    with connected(small) as connection:
        connection.sendall(head(1000))
        connection.settimeout(0.05)
        deadline, answer = time.monotonic() + TIMEOUT_SECONDS, b""
        while not answer:
            assert time.monotonic() < deadline
            connection.sendall(b" ")
            try:
                answer = connection.recv(65536)
            except TimeoutError:
                continue
    assert status_of(answer) == 408
    assert b"application/problem+json" in answer


def test_a_head_that_trickles_in_is_408_when_the_budget_ends(small: Served) -> None:
    with connected(small) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nX-Slow: ")
        answer = read_to_end(connection)
    assert status_of(answer) == 408


def test_a_connection_that_sends_nothing_is_closed(small: Served) -> None:
    with connected(small) as connection:
        read_to_end(connection)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large_is_413_before_it_is_read(small: Served, chunked: bool) -> None:
    with connected(small) as connection:
        if chunked:
            piece = b"1000\r\n" + b" " * 4096 + b"\r\n"
            connection.sendall(head(None) + piece * (MAX_BODY // 4096 + 1))
        else:
            connection.sendall(head(MAX_BODY + 1))
        answer = connection.recv(65536)  # the rest of the body never comes
    assert status_of(answer) == 413


def test_when_the_service_is_full_the_next_caller_is_refused_at_once_and_probes_are_answered(small: Served) -> None:
    def fill() -> list[socket.socket]:
        held = [connected(small) for _ in range(MAX_REQUESTS)]
        for connection in held:
            connection.sendall(head(10))
        return held

    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:  # the held requests end with their budget, so on a slow machine a try may come too late
        held = fill()
        answer = httpx.get(f"{small.url}/collections")
        probes = [httpx.get(f"{small.url}/health{kind}").status_code for kind in ("", "/live", "/ready")]
        for connection in held:
            connection.close()
        if answer.status_code == 503:
            break
        assert time.monotonic() < deadline
    assert problem_of(answer, 503)["detail"] == "Too many requests are under way"
    assert int(answer.headers["retry-after"]) >= 1
    assert probes == [200, 200, 200]
    _until_admitted(small)


async def test_many_callers_at_once_are_served_or_refused_and_what_was_acknowledged_is_there(small: Served) -> None:
    async def put(client: httpx.AsyncClient, number: int) -> int:
        body = {"documents": [document(f"many-{number}", number)]}
        return (await client.put(f"{small.url}/collections/many/documents", json=body)).status_code

    async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS, limits=httpx.Limits(max_connections=64)) as client:
        (await client.post(f"{small.url}/collections", json={"name": "many", "distance": "l2"})).raise_for_status()
        statuses = await asyncio.gather(*(put(client, number) for number in range(200)))
    assert set(statuses) <= {200, 503, 504}
    assert 200 in statuses
    there = {one["id"] for one in all_documents(small.url, "many")}
    assert there >= {f"many-{number}" for number, status in enumerate(statuses) if status == 200}
    if 504 not in statuses:
        assert len(there) == statuses.count(200)


PAGE: Final = "/collections/large/documents?limit=100"
"""Some 12 MB, more than sockets hold."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with narrow limits and a collection with a large page in it."""
    environ = {"RAGSTORE_REQUEST_TIMEOUT_SECONDS": str(BUDGET), "RAGSTORE_MAX_REQUESTS": str(MAX_REQUESTS)}
    with running(start_service(tmp_path_factory.mktemp("large"), environ)) as served:
        httpx.post(f"{served.url}/collections", json={"name": "large"}).raise_for_status()
        for number in range(10):
            batch = [document(f"{number}-{place}", number) for place in range(10)]
            for one in batch:
                one["metadata"]["much"] = "x" * 120_000
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while not httpx.put(f"{served.url}/collections/large/documents", json={"documents": batch}).is_success:
                assert time.monotonic() < deadline
        yield served


def asking(service: Served, requests: int = 1) -> socket.socket:
    """A connection with little room that asks for the large page, once or more."""
    parts = urlsplit(service.url)
    connection = socket.socket()
    connection.settimeout(TIMEOUT_SECONDS)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    connection.connect((parts.hostname, parts.port))
    connection.sendall(f"GET {PAGE} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode() * requests)
    return connection


def read_answer(connection: socket.socket, slowly: float = 0.0) -> tuple[int, int]:
    """Read an answer until it is whole or cut.

    Args:
        connection: where it comes.
        slowly: how long to read a bit four times a second; then as fast as it comes.

    Returns:
        The bytes of the body that came, and how many there are.
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
    """How many callers were cut because they did not read."""
    return service.log.read_text().count("answer not read")


def test_callers_that_never_read_hold_their_place_until_they_are_cut_and_not_longer(large: Served) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    full = 200
    while full != 503:  # they are cut after a while, so on a slow machine a look may come too late
        before = cut(large)
        with ExitStack() as opened:
            unread = [opened.enter_context(asking(large)) for _ in range(MAX_REQUESTS)]
            begun = [connection.recv(12).endswith(b"200") for connection in unread]
            full = httpx.get(f"{large.url}/collections").status_code
            while cut(large) < before + sum(begun):
                assert time.monotonic() < deadline, "callers that never read are never cut"
                time.sleep(0.05)
            assert httpx.get(f"{large.url}/collections").status_code == 200
            received = [read_answer(connection) for connection in unread]
        assert all(some < whole for (some, whole), took in zip(received, begun, strict=True) if took)
        assert time.monotonic() < deadline, "answers that nobody reads are not counted"


def test_a_caller_that_never_reads_and_asks_again_and_again_is_cut(large: Served) -> None:
    before = cut(large)
    with asking(large, requests=20) as connection:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while cut(large) == before:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        received, length = read_answer(connection)
        assert received < length


def test_a_caller_that_reads_slowly_but_steadily_gets_all_of_its_answer(large: Served) -> None:
    """It reads for several budgets so little that the socket, which holds megabytes, asks for no more in one budget."""
    received = length = 0
    while length < 10_000_000:  # a slow machine answers 504
        with asking(large) as connection:
            received, length = read_answer(connection, slowly=5 * BUDGET)
    assert received == length


def test_stopping_waits_for_no_idle_connection_and_no_slow_body(tmp_path: Path) -> None:
    service = start_service(tmp_path, {"RAGSTORE_SHUTDOWN_SECONDS": "1"})
    with httpx.Client(base_url=service.url) as idle, connected(service) as silent, connected(service) as slow:
        idle.get("/health/live").raise_for_status()
        slow.sendall(head(1000))
        service.process.terminate()
        assert service.process.wait(15) == 0
        assert read_to_end(silent) == b""
        assert status_of(read_to_end(slow)) == 503
