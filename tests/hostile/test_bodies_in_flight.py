"""All bodies together have a budget: slow senders and readers lose their share of it to faster ones."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import httpx
import msgspec
import pytest

from tests.support.documents import document, documents_path
from tests.support.problems import problem_of
from tests.support.raw_http import Response, chunk, chunked, connect, read_all, responses_in
from tests.support.servers import Served, running, start_service

MIB: Final = 1024 * 1024
BUDGET: Final = 4 * MIB
LARGE: Final = 3 * MIB
PATH: Final = "/collections/stored/documents"


@pytest.fixture(scope="module")
def budgeted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with a small budget."""
    environ = {"RAGSTORE_MAX_BYTES_IN_FLIGHT": str(BUDGET), "RAGSTORE_REQUEST_TIMEOUT_SECONDS": "30"}
    with running(start_service(tmp_path_factory.mktemp("budgeted"), environ)) as served:
        httpx.post(f"{served.url}/collections", json={"name": "stored"}).raise_for_status()
        yield served


@pytest.fixture
def caller(budgeted: Served) -> Iterator[httpx.Client]:
    """A client of that service."""
    with httpx.Client(base_url=budgeted.url, timeout=60) as http:
        yield http


def body_of(size: int, **fields: Any) -> bytes:
    """A body of a document, of a size."""
    empty = msgspec.json.encode({"documents": [document(text="", **fields)]})
    return msgspec.json.encode({"documents": [document(text="x" * (size - len(empty)), **fields)]})


def head(length: int, path: str = PATH) -> bytes:
    return f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n".encode()


def silent_sender(service: Served, body: bytes) -> socket.socket:
    """A caller that sends the begin of a large body, and then nothing."""
    connection = connect(service)
    connection.sendall(head(len(body)) + body[:200_000])
    time.sleep(0.3)  # so that its share is taken before another request comes
    return connection


def response_of(connection: socket.socket) -> Response:
    return responses_in(read_all(connection))[0]


def put(caller: httpx.Client, body: bytes) -> httpx.Response:
    return caller.put(PATH, content=body, headers={"Content-Type": "application/json"})


def test_a_silent_sender_loses_its_share_to_one_that_makes_progress(budgeted: Served, caller: httpx.Client) -> None:
    body = body_of(LARGE)
    with silent_sender(budgeted, body) as silent:
        assert put(caller, body).is_success

        lost = response_of(silent)

    assert lost.status == 408
    assert lost.detail == "The request's body came too slowly while others waited"


def test_a_sender_may_pause_while_no_other_waits(budgeted: Served, caller: httpx.Client) -> None:
    body = body_of(LARGE)
    with silent_sender(budgeted, body) as silent:
        time.sleep(2.5)
        silent.sendall(body[200_000:])

        assert response_of(silent).status == 200


class SteadySender(threading.Thread):
    """Sends a large body at a pace that would complete it in time."""

    def __init__(self, service: Served, body: bytes, pieces: int, pause_seconds: float) -> None:
        super().__init__()
        self._connection = silent_sender(service, body)
        self._rest = body[200_000:]
        self._pieces = pieces
        self._pause_seconds = pause_seconds
        self.status = 0

    def run(self) -> None:
        """Send the body."""
        size = len(self._rest) // self._pieces + 1
        with self._connection:
            for start in range(0, len(self._rest), size):
                self._connection.sendall(self._rest[start : start + size])
                time.sleep(self._pause_seconds)
            self.status = response_of(self._connection).status


def test_a_steady_sender_keeps_its_share_and_the_next_one_waits_for_it(budgeted: Served, caller: httpx.Client) -> None:
    steady = SteadySender(budgeted, body_of(LARGE), 10, 0.2)
    steady.start()

    assert put(caller, body_of(LARGE)).is_success

    steady.join()
    assert steady.status == 200


def test_a_body_that_waits_too_long_is_503_with_retry_after(budgeted: Served, caller: httpx.Client) -> None:
    before = refused(caller)
    steady = SteadySender(budgeted, body_of(LARGE), 16, 0.5)
    steady.start()

    response = put(caller, body_of(LARGE))

    assert problem_of(response, 503)["code"] == "overloaded"
    assert response.headers["retry-after"]
    assert refused(caller) == before + 1
    steady.join()
    assert steady.status == 200


def refused(caller: httpx.Client) -> float:
    samples = caller.get("/metrics").text.splitlines()
    return next(
        float(line.split()[1]) for line in samples if line.startswith('ragstore_refusals_total{reason="bytes"}')
    )


def test_small_requests_need_no_share(budgeted: Served, caller: httpx.Client) -> None:
    body = body_of(BUDGET)
    with silent_sender(budgeted, body):
        assert put(caller, body_of(60_000)).is_success
        assert caller.post("/collections/stored/query", json={"query_embedding": [1, 0]}).is_success


def test_a_body_larger_than_the_whole_budget_is_413(caller: httpx.Client) -> None:
    assert "the budget of all bodies" in problem_of(put(caller, body_of(BUDGET + 1)), 413)["detail"]


def test_a_body_of_unknown_length_takes_the_share_of_the_largest(budgeted: Served, caller: httpx.Client) -> None:
    body = body_of(LARGE)
    with connect(budgeted) as silent:
        silent.sendall(chunked(PATH, "Connection: close", method="PUT") + chunk(body[:150_000]))
        time.sleep(0.3)
        silent.sendall(chunk(body[150_000:300_000]))
        time.sleep(0.3)

        assert put(caller, body_of(100_000)).is_success

        assert response_of(silent).status == 408


def test_a_body_of_unknown_length_may_be_as_large_as_the_budget(caller: httpx.Client) -> None:
    def sent(body: bytes) -> Iterator[bytes]:
        yield from (body[start : start + 100_000] for start in range(0, len(body), 100_000))

    assert caller.put(PATH, content=sent(body_of(BUDGET))).is_success
    assert problem_of(caller.put(PATH, content=sent(body_of(BUDGET + 1))), 413)


def test_shares_come_back_whatever_happens_to_the_request(budgeted: Served, caller: httpx.Client) -> None:
    body = body_of(BUDGET)
    for _ in range(2):
        with silent_sender(budgeted, body) as gone:
            gone.close()
        assert put(caller, b"[" * BUDGET).status_code == 400
        assert put(caller, body_of(BUDGET, wrong=None)).is_success
        assert caller.put("/collections/none/documents", content=body).status_code == 404

    assert put(caller, body).is_success


def test_a_stream_that_holds_half_a_line_loses_its_share(budgeted: Served, caller: httpx.Client) -> None:
    with connect(budgeted) as stream:
        stream.sendall(chunked(f"{PATH}/stream", "Connection: close") + chunk(b'{"text": "' + b"x" * LARGE))
        time.sleep(0.5)

        assert put(caller, body_of(LARGE)).is_success

        assert response_of(stream).status == 408


def test_a_stream_gives_back_what_it_has_stored(budgeted: Served, caller: httpx.Client) -> None:
    line = msgspec.json.encode(document("s", text="x" * LARGE)) + b"\n"
    with connect(budgeted) as stream:
        stream.sendall(chunked(f"{PATH}/stream?mode=upsert") + chunk(line))
        received = b""
        while b'"stored"' not in received:
            received += stream.recv(65536)

        assert put(caller, body_of(LARGE)).is_success  # the stream is still open
        stream.sendall(b"0\r\n\r\n")
        while b'"done"' not in received:
            received += stream.recv(65536)


def test_a_reader_that_does_not_read_loses_its_share(budgeted: Served, caller: httpx.Client) -> None:
    caller.post("/collections", json={"name": "long"})
    for number in range(8):
        one = document(f"d{number}", text="x" * (3 * MIB))
        caller.put(documents_path("long"), json={"documents": [one]}).raise_for_status()
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", int(budgeted.url.rpartition(":")[2])))
        reader.sendall(b"GET /collections/long/documents HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        time.sleep(1)

        assert put(caller, body_of(LARGE)).is_success

        reader.settimeout(30)
        received = 0
        with suppress(ConnectionResetError):
            while block := reader.recv(65536):
                received += len(block)
    assert received < 24 * MIB
