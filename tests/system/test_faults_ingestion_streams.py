"""Ingestion streams that are interrupted: each acknowledged line is stored, and the client knows the last one."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal

import httpx
import pytest
from litestar.types import HTTPReceiveMessage, Message, Scope

from ragstore.api.decode_documents import DocumentsDecoder
from ragstore.app import create_store
from ragstore.operations.stream.session import MAX_BATCH_DOCUMENTS, DocumentStream, StreamConfig
from ragstore.settings import Settings
from tests.support.documents import NDJSON_HEADERS, document, documents, lines_of
from tests.support.ledger import TIMEOUT_SECONDS, all_documents, wait_until
from tests.support.problems import problem_of
from tests.support.servers import Served, free_port, running, start_chroma, start_service
from tests.support.streams import Duplex, duplex, response_lines, stream_path

BUDGET: Final = 2.0
MAX_LINE: Final = 50_000


@pytest.fixture(scope="module")
def limited(own_chroma: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with a small maximum of the body."""
    with running(start_limited(own_chroma, tmp_path_factory.mktemp("limited"), {})) as served:
        yield served


@pytest.fixture(scope="module")
def hasty(own_chroma: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The same service with a short time limit."""
    environ = {"RAGSTORE_REQUEST_TIMEOUT_SECONDS": str(BUDGET)}
    with running(start_limited(own_chroma, tmp_path_factory.mktemp("hasty"), environ)) as served:
        yield served


def start_limited(chroma: Served, folder: Path, environ: dict[str, str]) -> Served:
    """Start a service with a small maximum of the body."""
    return start_service(
        folder,
        {
            "RAGSTORE_CHROMA_URL": chroma.url,
            "RAGSTORE_CHROMA_DATABASE": "streams",
            "RAGSTORE_MAX_BODY_BYTES": str(MAX_LINE),
            **environ,
        },
    )


@pytest.fixture
def empty_collection(limited: Served, name: str) -> str:
    """A new collection of both services."""
    return create_collection(limited, name)


def create_collection(service: Served, name: str) -> str:
    """A new collection."""
    httpx.post(f"{service.url}/collections", json={"name": name}, timeout=30).raise_for_status()
    return name


def ids_in(service: Served, collection: str) -> list[str]:
    """The ids of the stored documents, in insertion order."""
    return [one["id"] for one in all_documents(service.url, collection)]


# -- limits -------------------------------------------------------------------------------------


def test_a_stream_may_exceed_the_maximum_body(limited: Served, empty_collection: str) -> None:
    lines = lines_of(*(document(f"doc-{number}", text="x" * (MAX_LINE - 200)) for number in range(5)))
    assert len(lines) > 4 * MAX_LINE

    response = httpx.post(
        limited.url + stream_path(empty_collection), content=lines, headers=NDJSON_HEADERS, timeout=60
    )

    assert response_lines(response)[-1]["count"] == 5


@pytest.mark.parametrize("complete", [True, False])
def test_a_line_that_is_too_large_is_413_even_before_its_end(
    limited: Served, empty_collection: str, complete: bool
) -> None:
    with duplex(limited.url, empty_collection) as sender:
        sender.send(lines_of(document("a", text="x" * MAX_LINE))[: None if complete else -1])
        response = sender.response
        problem = json.loads(response.read())
    assert response.status == 413
    assert problem["errors"] == [
        {"path": "$", "message": f"A line must not be larger than {MAX_LINE} bytes", "line": 1}
    ]
    assert ids_in(limited, empty_collection) == []


def test_a_stream_may_exceed_the_budget_of_a_request_as_long_as_lines_arrive(
    hasty: Served, empty_collection: str
) -> None:
    ends = time.monotonic() + 2.5 * BUDGET
    with duplex(hasty.url, empty_collection) as sender:
        for number in itertools.count(1):
            sender.send(lines_of(document(f"doc-{number}")))
            assert sender.read()["last_line"] == number
            if time.monotonic() > ends:
                break
        sender.end()
        assert sender.read()["status"] == "done"
    assert len(ids_in(hasty, empty_collection)) == number


def test_a_stream_that_stalls_fails_with_the_last_stored_line(hasty: Served, empty_collection: str) -> None:
    with duplex(hasty.url, empty_collection) as sender:
        sender.send(lines_of(document("a"), document("b")))
        sender.read()
        failed, *nothing = sender.rest()
    assert not nothing
    assert (failed["status"], failed["last_line"], failed["count"]) == ("failed", 2, 2)
    assert failed["problem"]["status"] == 408


def test_a_line_that_trickles_in_counts_as_a_stall(hasty: Served, empty_collection: str) -> None:
    with duplex(hasty.url, empty_collection) as sender:
        sender.connection.sock.settimeout(0.05)
        sender.send(b'{"text": "')
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            assert time.monotonic() < deadline
            try:
                sender.send(b"x")
                if sender.connection.sock.recv(1, socket.MSG_PEEK):
                    break
            except TimeoutError:
                continue
        assert sender.response.status == 408


def test_a_client_that_reads_at_the_end_gets_the_failure_in_the_middle(limited: Served, empty_collection: str) -> None:
    lines = [lines_of(document(f"doc-{number}", text="x" * 1000)) for number in range(3000)]
    lines[1500] = b"{broken}\n"

    response = httpx.post(
        limited.url + stream_path(empty_collection), content=iter(lines), headers=NDJSON_HEADERS, timeout=60
    )

    *stored, failed = response_lines(response)
    assert stored
    assert failed["problem"]["detail"] == "The line is not valid JSON: line 1501"
    assert ids_in(limited, empty_collection) == [f"doc-{number}" for number in range(failed["last_line"])]


# -- senders ------------------------------------------------------------------------------------


def test_an_incomplete_line_of_a_client_that_disconnects_is_not_stored(limited: Served, empty_collection: str) -> None:
    with duplex(limited.url, empty_collection) as sender:
        sender.send(lines_of(document("whole")))
        sender.read()
        sender.send(lines_of(document("half")).rstrip())  # without a line break it could still be a complete line
        sender.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # with a reset
    ended = ended_streams(limited, empty_collection)
    assert [(line["end"], line["last_line"], line["count"]) for line in ended] == [("disconnected", 1, 1)]
    assert ids_in(limited, empty_collection) == ["whole"]


def test_a_body_shorter_than_its_content_length_is_incomplete(limited: Served, empty_collection: str) -> None:
    host, _, port = limited.url.removeprefix("http://").partition(":")
    line = lines_of(document("half")).rstrip()
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_SECONDS) as connection:
        head = (
            f"POST {stream_path(empty_collection)} HTTP/1.1\r\nHost: {host}\r\n"
            f"Expect: 100-continue\r\nContent-Length: {len(line) + 1}\r\n\r\n"
        )
        connection.sendall(head.encode())
        # The service reads the body. The request of a caller that leaves before that is not begun.
        assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
        connection.sendall(line)
    assert [line["end"] for line in ended_streams(limited, empty_collection)] == ["disconnected"]
    assert ids_in(limited, empty_collection) == []


def ended_streams(service: Served, collection: str) -> list[dict[str, Any]]:
    """The log lines of streams to a collection, as soon as there are any."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        lines = [json.loads(line) for line in service.log.read_text().splitlines() if "stream ended" in line]
        if found := [line for line in lines if line["collection"] == collection]:
            return found
        assert time.monotonic() < deadline
        time.sleep(0.02)


async def test_reading_pauses_while_one_batch_is_written_and_one_waits(own_chroma: Served, name: str) -> None:
    """The test calls the application directly: data that the network buffers is visible on neither side."""
    store = create_store(Settings(chroma_url=own_chroma.url))
    await store.start()
    await store.create_collection(name, {}, "l2")
    sent_documents = 0
    stuck, released = asyncio.Event(), asyncio.Event()

    async def receive() -> HTTPReceiveMessage:
        nonlocal sent_documents
        sent_documents += 100
        lines = lines_of(*(document(f"doc-{sent_documents}-{number}") for number in range(100)))
        return {"type": "http.request", "body": lines, "more_body": sent_documents < 10 * MAX_BATCH_DOCUMENTS}

    async def send(message: Message) -> None:
        stuck.set()  # a client that does not read delays the acknowledgement, and thereby the batch
        await released.wait()

    scope: Scope = {"type": "http"}  # type: ignore[assignment]  # the stream does not read it
    stream = DocumentStream(
        store,
        name,
        "add",
        StreamConfig(MAX_BATCH_DOCUMENTS, 10**6, threading.Event()),
        DocumentsDecoder(MAX_BATCH_DOCUMENTS).decode_lines,
    )
    running = asyncio.create_task(stream(scope, receive, send))
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await stuck.wait()
        before = -1
        while before != sent_documents:
            before = sent_documents
            await asyncio.sleep(0.5)
        assert sent_documents <= 2 * MAX_BATCH_DOCUMENTS + 100
        released.set()
        await running
        assert await store.count(name) == sent_documents == 10 * MAX_BATCH_DOCUMENTS
    finally:
        running.cancel()
        await store.delete_collection(name)
        await store.close()


def test_memory_does_not_grow_with_the_length_of_a_stream(own_chroma: Served, name: str, tmp_path: Path) -> None:
    environ = {"RAGSTORE_CHROMA_URL": own_chroma.url, "RAGSTORE_CHROMA_DATABASE": "streams"}
    with running(start_service(tmp_path, environ)) as service:
        create_collection(service, name)
        spaces = b"," + b" " * 64_000

        def streamed(count: int) -> int:
            """Stream lines of 64 KB, mostly spaces between two fields; return the service's peak memory in bytes."""
            lines = (lines_of(document(f"{count}-{number}")).replace(b", ", spaces, 1) for number in range(count))
            response = httpx.post(service.url + stream_path(name), content=lines, headers=NDJSON_HEADERS, timeout=120)
            assert response_lines(response)[-1]["count"] == count
            status = Path(f"/proc/{service.process.pid}/status").read_text()
            return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024

        first = streamed(300)
        assert streamed(2000) - first < 2000 * len(spaces) / 4
        httpx.delete(f"{service.url}/collections/{name}", timeout=30)


# -- faults -------------------------------------------------------------------------------------


class Endless:
    """A client that sends numbered documents until the stream ends, while it reads the response.

    Args:
        sender: the stream.
    """

    def __init__(self, sender: Duplex) -> None:
        self.lines: list[dict[str, Any]] = []
        self._sender = sender
        self._over = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._send, self._read)]
        for thread in self._threads:
            thread.start()

    @property
    def acknowledged(self) -> int:
        """The last line that was acknowledged."""
        return max((line["last_line"] for line in self.lines), default=0)

    def join(self) -> None:
        """Wait for the end."""
        for thread in self._threads:
            thread.join(TIMEOUT_SECONDS)
            assert not thread.is_alive()

    def _send(self) -> None:
        with suppress(OSError):
            for number in itertools.count(1):
                if self._over.is_set():
                    return
                self._sender.send(lines_of(document(f"doc-{number}")))
                time.sleep(0.001)

    def _read(self) -> None:
        with suppress(OSError, ValueError):  # ValueError: the response was cut
            while not self.lines or self.lines[-1]["status"] == "stored":
                self.lines.append(self._sender.read())
        self._over.set()


@contextmanager
def endless(service: Served, collection: str) -> Iterator[Endless]:
    """Start an endless stream and wait for two acknowledgements; the block must end it."""
    with duplex(service.url, collection, "upsert") as sender:
        streaming = Endless(sender)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while len(streaming.lines) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield streaming
        streaming.join()


def assert_stored(service: Served, collection: str, streaming: Endless) -> None:
    """Assert that each acknowledged line is stored, followed by at most one more batch, without a gap."""
    stored = ids_in(service, collection)
    assert stored == [f"doc-{number}" for number in range(1, len(stored) + 1)]
    assert streaming.acknowledged <= len(stored) <= streaming.acknowledged + MAX_BATCH_DOCUMENTS


@pytest.mark.parametrize("kind", ["embedded", "remote"])
def test_a_service_that_stops_finishes_its_batch_and_reports_the_last_line(
    tmp_path: Path, own_chroma: Served, name: str, kind: Literal["embedded", "remote"]
) -> None:
    environ = {} if kind == "embedded" else {"RAGSTORE_CHROMA_URL": own_chroma.url}
    service = start_service(tmp_path, {**environ, "RAGSTORE_SHUTDOWN_SECONDS": "10"})
    create_collection(service, name)
    with endless(service, name) as streaming:
        service.process.terminate()
        assert service.process.wait(30) == 0
    failed = streaming.lines[-1]
    assert (failed["status"], failed["problem"]["status"]) == ("failed", 503)
    with running(start_service(tmp_path, environ)) as again:
        assert ids_in(again, name) == [f"doc-{number}" for number in range(1, failed["last_line"] + 1)]


@pytest.mark.parametrize("kind", ["embedded", "remote"])
def test_acknowledged_lines_survive_a_kill_of_the_service(
    tmp_path: Path, own_chroma: Served, name: str, kind: Literal["embedded", "remote"]
) -> None:
    environ = {} if kind == "embedded" else {"RAGSTORE_CHROMA_URL": own_chroma.url}
    service = start_service(tmp_path, environ)
    create_collection(service, name)
    with endless(service, name) as streaming:
        service.process.kill()
        service.process.wait(30)
    assert {line["status"] for line in streaming.lines} == {"stored"}
    with running(start_service(tmp_path, environ)) as again:
        assert_stored(again, name, streaming)


async def test_after_a_kill_of_chroma_the_client_resumes_after_the_last_stored_line(tmp_path: Path, name: str) -> None:
    port = free_port()
    chroma = start_chroma(tmp_path, port)
    with running(start_service(tmp_path, {"RAGSTORE_CHROMA_URL": chroma.url})) as service:
        create_collection(service, name)
        with endless(service, name) as streaming:
            chroma.process.kill()
            chroma.process.wait(30)
        failed = streaming.lines[-1]
        assert failed["status"] == "failed"
        assert failed["problem"]["status"] in (502, 503, 504)
        with running(await asyncio.to_thread(start_chroma, tmp_path, port)):
            await wait_until(lambda: httpx.get(f"{service.url}/collections/{name}").is_success)
            assert_stored(service, name, streaming)
            rest = lines_of(*(document(f"doc-{number}") for number in range(failed["last_line"] + 1, 3000)))
            async with httpx.AsyncClient(base_url=service.url, timeout=60) as http:
                response = await http.post(stream_path(name, "upsert"), content=rest, headers=NDJSON_HEADERS)
            assert response_lines(response)[-1]["status"] == "done"
            assert sorted(ids_in(service, name)) == sorted(f"doc-{number}" for number in range(1, 3000))


def test_a_stream_is_503_while_chroma_is_unavailable(tmp_path: Path) -> None:
    environ = {"RAGSTORE_CHROMA_URL": f"http://127.0.0.1:{free_port()}"}
    with running(start_service(tmp_path, environ, ready=False)) as service:
        response = httpx.post(
            service.url + stream_path("abc"), content=lines_of(*documents(2)), headers=NDJSON_HEADERS, timeout=30
        )
        problem_of(response, 503)
