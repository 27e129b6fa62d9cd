"""Streams that something ends, or tries to: every line that was acknowledged is there, and the caller knows which."""

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

from ragstore.api.decode_documents import decode_batch
from ragstore.app import create_store
from ragstore.kit.decoding import JSON
from ragstore.operations.stream.session import MAX_BATCH_DOCUMENTS, DocumentStream, StreamConfig
from ragstore.settings import Settings
from tests.support.documents import NDJSON_HEADERS, document, documents, lines_of
from tests.support.ledger import PATIENCE, everything_in, until
from tests.support.problems import problem_of
from tests.support.servers import Served, free_port, running, start_chroma, start_service
from tests.support.streams import Duplex, duplex, response_lines, stream_path

BUDGET: Final = 2.0
MAX_LINE: Final = 50_000


@pytest.fixture(scope="module")
def small(chroma: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with narrow limits."""
    environ = {
        "RAGSTORE_CHROMA_URL": chroma.url,
        "RAGSTORE_CHROMA_DATABASE": "streams",
        "RAGSTORE_REQUEST_TIMEOUT_SECONDS": str(BUDGET),
        "RAGSTORE_MAX_BODY_BYTES": str(MAX_LINE),
    }
    with running(start_service(tmp_path_factory.mktemp("small"), environ)) as served:
        yield served


@pytest.fixture
def taken(small: Served, name: str) -> str:
    """A new collection of the service with narrow limits."""
    return created(small, name)


def created(service: Served, name: str) -> str:
    """A new collection."""
    httpx.post(f"{service.url}/collections", json={"name": name}, timeout=30).raise_for_status()
    return name


def ids_in(service: Served, collection: str) -> list[str]:
    """What is there, in the order in which it was stored."""
    return [one["id"] for one in everything_in(service.url, collection)]


# -- limits -------------------------------------------------------------------------------------


def test_a_stream_may_be_larger_than_a_body_may_be(small: Served, taken: str) -> None:
    lines = lines_of(*(document(f"doc-{number}", text="x" * (MAX_LINE - 200)) for number in range(5)))
    assert len(lines) > 4 * MAX_LINE

    answer = httpx.post(small.url + stream_path(taken), content=lines, headers=NDJSON_HEADERS)

    assert response_lines(answer)[-1]["count"] == 5


@pytest.mark.parametrize("complete", [True, False])
def test_a_line_that_is_too_large_is_413_whether_it_ends_or_not(small: Served, taken: str, complete: bool) -> None:
    with duplex(small.url, taken) as sender:
        sender.send(lines_of(document("a", text="x" * MAX_LINE))[: None if complete else -1])
        response = sender.response
        problem = json.loads(response.read())
    assert response.status == 413
    assert problem["errors"] == [
        {"path": "$", "message": f"A line must not be larger than {MAX_LINE} bytes", "line": 1}
    ]
    assert ids_in(small, taken) == []


def test_a_stream_lasts_longer_than_a_request_may_as_long_as_lines_come(small: Served, taken: str) -> None:
    ends = time.monotonic() + 2.5 * BUDGET
    with duplex(small.url, taken) as sender:
        for number in itertools.count(1):
            sender.send(lines_of(document(f"doc-{number}")))
            assert sender.read()["last_line"] == number
            if time.monotonic() > ends:
                break
        sender.end()
        assert sender.read()["status"] == "done"
    assert len(ids_in(small, taken)) == number


def test_a_sender_that_falls_silent_is_told_the_last_line_stored(small: Served, taken: str) -> None:
    with duplex(small.url, taken) as sender:
        sender.send(lines_of(document("a"), document("b")))
        sender.read()
        failed, *nothing = sender.rest()
    assert not nothing
    assert (failed["status"], failed["last_line"], failed["count"]) == ("failed", 2, 2)
    assert failed["problem"]["status"] == 408


def test_a_line_that_trickles_in_counts_as_silence(small: Served, taken: str) -> None:
    with duplex(small.url, taken) as sender:
        sender.connection.sock.settimeout(0.05)
        sender.send(b'{"text": "')
        deadline = time.monotonic() + PATIENCE
        while True:
            assert time.monotonic() < deadline
            try:
                sender.send(b"x")
                if sender.connection.sock.recv(1, socket.MSG_PEEK):
                    break
            except TimeoutError:
                continue
        assert sender.response.status == 408


def test_a_caller_that_reads_only_at_the_end_learns_of_a_failure_in_the_middle(small: Served, taken: str) -> None:
    lines = [lines_of(document(f"doc-{number}", text="x" * 1000)) for number in range(3000)]
    lines[1500] = b"{broken}\n"

    answer = httpx.post(small.url + stream_path(taken), content=iter(lines), headers=NDJSON_HEADERS, timeout=60)

    *stored, failed = response_lines(answer)
    assert stored
    assert failed["problem"]["detail"] == "The line is not valid JSON: line 1501"
    assert ids_in(small, taken) == [f"doc-{number}" for number in range(failed["last_line"])]


# -- senders ------------------------------------------------------------------------------------


def test_a_line_whose_sender_vanishes_before_its_end_is_not_stored(small: Served, taken: str) -> None:
    with duplex(small.url, taken) as sender:
        sender.send(lines_of(document("whole")))
        sender.read()
        sender.send(lines_of(document("half")).rstrip())  # as it is, it might be a whole line
        sender.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # with a reset
    ended = ended_streams(small, taken)
    assert [(line["end"], line["last_line"], line["count"]) for line in ended] == [("disconnected", 1, 1)]
    assert ids_in(small, taken) == ["whole"]


def test_a_body_that_is_shorter_than_it_said_is_no_whole_stream(small: Served, taken: str) -> None:
    host, _, port = small.url.removeprefix("http://").partition(":")
    line = lines_of(document("half")).rstrip()
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        head = f"POST {stream_path(taken)} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(line) + 1}\r\n\r\n"
        connection.sendall(head.encode() + line)
    assert [told["end"] for told in ended_streams(small, taken)] == ["disconnected"]
    assert ids_in(small, taken) == []


def ended_streams(service: Served, collection: str) -> list[dict[str, Any]]:
    """What the log says of the streams to a collection, once it says something."""
    deadline = time.monotonic() + PATIENCE
    while True:
        lines = [json.loads(line) for line in service.log.read_text().splitlines() if "stream ended" in line]
        if found := [line for line in lines if line["collection"] == collection]:
            return found
        assert time.monotonic() < deadline
        time.sleep(0.02)


async def test_nothing_is_read_on_while_one_batch_is_written_and_one_waits(chroma: Served, name: str) -> None:
    """The application itself is asked here: what a network holds back can be seen on neither side of it."""
    store = create_store(Settings(chroma_url=chroma.url))
    await store.start()
    await store.create_collection(name, {}, "l2")
    given = 0
    stuck, go_on = asyncio.Event(), asyncio.Event()

    async def receive() -> HTTPReceiveMessage:
        nonlocal given
        given += 100
        lines = lines_of(*(document(f"doc-{given}-{number}") for number in range(100)))
        return {"type": "http.request", "body": lines, "more_body": given < 10 * MAX_BATCH_DOCUMENTS}

    async def send(message: Message) -> None:
        stuck.set()  # a caller that does not read holds the acknowledgement up, and with it the batch
        await go_on.wait()

    scope: Scope = {"type": "http"}  # type: ignore[assignment]  # it is not looked at
    stream = DocumentStream(
        store,
        name,
        "add",
        StreamConfig(MAX_BATCH_DOCUMENTS, 10**6, threading.Event()),
        lambda lines, made_id: decode_batch(lines, JSON, made_id),
    )
    running = asyncio.create_task(stream(scope, receive, send))
    try:
        async with asyncio.timeout(PATIENCE):
            await stuck.wait()
        before = -1
        while before != given:
            before = given
            await asyncio.sleep(0.5)
        assert given <= 2 * MAX_BATCH_DOCUMENTS + 100
        go_on.set()
        await running
        assert await store.count(name) == given == 10 * MAX_BATCH_DOCUMENTS
    finally:
        running.cancel()
        await store.delete_collection(name)
        await store.close()


def test_the_memory_of_a_stream_does_not_grow_with_it(chroma: Served, name: str, tmp_path: Path) -> None:
    environ = {"RAGSTORE_CHROMA_URL": chroma.url, "RAGSTORE_CHROMA_DATABASE": "streams"}
    with running(start_service(tmp_path, environ)) as service:
        created(service, name)
        room = b"," + b" " * 64_000

        def streamed(count: int) -> int:
            """Stream so many lines of 64 KB, which is room between two fields, and tell the service's peak in bytes."""
            lines = (lines_of(document(f"{count}-{number}")).replace(b", ", room, 1) for number in range(count))
            answer = httpx.post(service.url + stream_path(name), content=lines, headers=NDJSON_HEADERS, timeout=120)
            assert response_lines(answer)[-1]["count"] == count
            status = Path(f"/proc/{service.process.pid}/status").read_text()
            return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024

        first = streamed(300)
        assert streamed(2000) - first < 2000 * len(room) / 4
        httpx.delete(f"{service.url}/collections/{name}", timeout=30)


# -- faults -------------------------------------------------------------------------------------


class Endless:
    """A sender that sends numbered documents until the stream ends, while it reads the answer.

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
        """The last line of which it is known that it is stored."""
        return max((line["last_line"] for line in self.lines), default=0)

    def join(self) -> None:
        """Wait for the end."""
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def _send(self) -> None:
        with suppress(OSError):
            for number in itertools.count(1):
                if self._over.is_set():
                    return
                self._sender.send(lines_of(document(f"doc-{number}")))
                time.sleep(0.001)

    def _read(self) -> None:
        with suppress(OSError, ValueError):  # ValueError: the answer was cut
            while not self.lines or self.lines[-1]["status"] == "stored":
                self.lines.append(self._sender.read())
        self._over.set()


@contextmanager
def endless(service: Served, collection: str) -> Iterator[Endless]:
    """Stream without end, until there have been two acknowledgements; the block is to end it."""
    with duplex(service.url, collection, "upsert") as sender:
        streaming = Endless(sender)
        deadline = time.monotonic() + PATIENCE
        while len(streaming.lines) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield streaming
        streaming.join()


def check(service: Served, collection: str, streaming: Endless) -> None:
    """Every acknowledged line is there; of what follows there is at most one batch, and no gap."""
    there = ids_in(service, collection)
    assert there == [f"doc-{number}" for number in range(1, len(there) + 1)]
    assert streaming.acknowledged <= len(there) <= streaming.acknowledged + MAX_BATCH_DOCUMENTS


@pytest.mark.parametrize("kind", ["embedded", "remote"])
def test_a_service_that_is_asked_to_stop_finishes_its_batch_and_tells_the_last_line(
    tmp_path: Path, chroma: Served, name: str, kind: Literal["embedded", "remote"]
) -> None:
    environ = {} if kind == "embedded" else {"RAGSTORE_CHROMA_URL": chroma.url}
    service = start_service(tmp_path, {**environ, "RAGSTORE_SHUTDOWN_SECONDS": "10"})
    created(service, name)
    with endless(service, name) as streaming:
        service.process.terminate()
        assert service.process.wait(30) == 0
    failed = streaming.lines[-1]
    assert (failed["status"], failed["problem"]["status"]) == ("failed", 503)
    with running(start_service(tmp_path, environ)) as again:
        assert ids_in(again, name) == [f"doc-{number}" for number in range(1, failed["last_line"] + 1)]


@pytest.mark.parametrize("kind", ["embedded", "remote"])
def test_what_was_acknowledged_survives_the_service_being_killed(
    tmp_path: Path, chroma: Served, name: str, kind: Literal["embedded", "remote"]
) -> None:
    environ = {} if kind == "embedded" else {"RAGSTORE_CHROMA_URL": chroma.url}
    service = start_service(tmp_path, environ)
    created(service, name)
    with endless(service, name) as streaming:
        service.process.kill()
        service.process.wait(30)
    assert {line["status"] for line in streaming.lines} == {"stored"}
    with running(start_service(tmp_path, environ)) as again:
        check(again, name, streaming)


async def test_when_chroma_is_killed_the_sender_is_told_the_last_line_and_goes_on_there(
    tmp_path: Path, name: str
) -> None:
    port = free_port()
    chroma = start_chroma(tmp_path, port)
    with running(start_service(tmp_path, {"RAGSTORE_CHROMA_URL": chroma.url})) as service:
        created(service, name)
        with endless(service, name) as streaming:
            chroma.process.kill()
            chroma.process.wait(30)
        failed = streaming.lines[-1]
        assert failed["status"] == "failed"
        assert failed["problem"]["status"] in (502, 503, 504)
        with running(await asyncio.to_thread(start_chroma, tmp_path, port)):
            await until(lambda: httpx.get(f"{service.url}/collections/{name}").is_success)
            check(service, name, streaming)
            rest = lines_of(*(document(f"doc-{number}") for number in range(failed["last_line"] + 1, 3000)))
            async with httpx.AsyncClient(base_url=service.url, timeout=60) as http:
                answer = await http.post(stream_path(name, "upsert"), content=rest, headers=NDJSON_HEADERS)
            assert response_lines(answer)[-1]["status"] == "done"
            assert sorted(ids_in(service, name)) == sorted(f"doc-{number}" for number in range(1, 3000))


def test_a_stream_to_a_service_whose_chroma_is_away_is_503(tmp_path: Path) -> None:
    environ = {"RAGSTORE_CHROMA_URL": f"http://127.0.0.1:{free_port()}"}
    with running(start_service(tmp_path, environ, ready=False)) as service:
        answer = httpx.post(
            service.url + stream_path("abc"), content=lines_of(*documents(2)), headers=NDJSON_HEADERS, timeout=30
        )
        problem_of(answer, 503)
