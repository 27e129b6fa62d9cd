"""Heads, chunk extensions and trailers have a maximum size, and grant neither memory nor a role."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import httpx
import pytest

from ragstore.kit.server.request_meter import MAX_HEAD_BYTES, MAX_HEADERS
from tests.support.keyed_services import KeyedService, keyed_service
from tests.support.ledger import TIMEOUT_SECONDS, document
from tests.support.raw_http import (
    Response,
    chunk,
    chunked,
    connect,
    exchange,
    get,
    padded,
    read_all,
    responses_in,
    send_without_end,
)
from tests.support.servers import Served, running, start_service

CLOSE: Final = "Connection: close"
JSON: Final = "Content-Type: application/json"
MAX_BODY: Final = 10_000_000
TOO_LARGE: Final = "must not exceed 64 KiB together"
MIB: Final = 1024 * 1024
WRITE: Final = "/collections/limits/documents"


@pytest.fixture(scope="module")
def limited_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with a collection."""
    environ = {"RAGSTORE_MAX_BODY_BYTES": str(MAX_BODY)}
    with running(start_service(tmp_path_factory.mktemp("limits"), environ)) as served:
        httpx.post(f"{served.url}/collections", json={"name": "limits"}).raise_for_status()
        yield served


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedService]:
    """A service with keys."""
    with keyed_service(tmp_path_factory.mktemp("guard"), {"boss": {"role": "admin"}}) as served:
        yield served


def body(name: str) -> bytes:
    """A body that adds a document."""
    return json.dumps({"documents": [document(name, 1)]}).encode()


def only(responses: list[Response]) -> Response:
    """The only response of a connection."""
    (response,) = responses
    return response


def stored(service: Served, name: str) -> bool:
    """Whether a document is there."""
    return httpx.get(f"{service.url}{WRITE}/{name}").is_success


# -- heads --------------------------------------------------------------------------------------


def test_a_head_at_the_limit_is_accepted(limited_service: Served) -> None:
    assert only(exchange(limited_service, padded(MAX_HEAD_BYTES, CLOSE))).status == 200


def test_a_head_one_byte_above_the_limit_is_400(limited_service: Served) -> None:
    response = only(exchange(limited_service, padded(MAX_HEAD_BYTES + 1)))

    assert response.status == 400
    assert TOO_LARGE in response.detail
    assert response.headers["connection"] == "close"
    assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health/live HTTP/1.1\r\nHost: a\r\nX-Large: " + b"x" * 70_000 + b"\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nHost: a\r\n" + b"X" * 70_000 + b": x\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nHost: a\r\nX-Blank:" + b" " * 70_000 + b"x\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nHost: a\r\n" + (b"X-Many: " + b"x" * 90 + b"\r\n") * 700 + b"\r\n",
        b"GET /health/live?" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\r\n" * 35_000 + b"GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
    ids=["value", "name", "blanks", "headers", "line", "empty lines"],
)
@pytest.mark.parametrize("piece", [1_000_000, 1_000])
def test_a_large_head_is_400_whatever_makes_it_large(limited_service: Served, head: bytes, piece: int) -> None:
    response = only(exchange(limited_service, *(head[start : start + piece] for start in range(0, len(head), piece))))

    assert response.status == 400


@pytest.mark.parametrize(("count", "status"), [(MAX_HEADERS, 200), (MAX_HEADERS + 1, 400)])
def test_the_number_of_headers_is_limited(limited_service: Served, count: int, status: int) -> None:
    small = [f"x{number}: y" for number in range(count - 2)]

    assert only(exchange(limited_service, get("/health/live", CLOSE, *small))).status == status


def test_each_of_several_pipelined_heads_has_the_limit_for_itself(limited_service: Served) -> None:
    last = padded(MAX_HEAD_BYTES, CLOSE)

    responses = exchange(limited_service, padded() * 5 + last)

    assert [response.status for response in responses] == [200] * 6


def test_a_large_head_behind_a_good_request_leaves_that_its_response(limited_service: Served) -> None:
    responses = exchange(limited_service, get() + padded(MAX_HEAD_BYTES + 1))

    assert responses[0].status == 200
    assert [response.status for response in responses[1:]] in ([], [400])


def test_bytes_of_bodies_are_not_counted(limited_service: Served) -> None:
    large = body("sized").replace(b"{", b"{" + b" " * 200_000, 1)
    head = f"PUT {WRITE} HTTP/1.1\r\nHost: 127.0.0.1\r\n{JSON}\r\nContent-Length: {len(large)}\r\n\r\n".encode()

    responses = exchange(limited_service, (head + large) * 3 + padded(MAX_HEAD_BYTES, CLOSE))

    assert [response.status for response in responses] == [200] * 4


def test_a_request_in_single_bytes_is_parsed_as_a_whole_one(limited_service: Served) -> None:
    content = chunk(body("bytes")[:20]) + chunk(body("bytes")[20:]) + b"0\r\n\r\n"
    sent = chunked(WRITE, JSON, method="PUT") + content + get("/health/live", CLOSE)

    responses = exchange(limited_service, *(sent[index : index + 1] for index in range(len(sent))))

    assert [response.status for response in responses] == [200, 200]


# -- chunked bodies -----------------------------------------------------------------------------


def test_many_small_chunks_are_no_overhead_that_counts(limited_service: Served) -> None:
    content = body("small-chunks") + b" " * 50_000
    chunks = b"".join(chunk(content[index : index + 1]) for index in range(len(content)))

    responses = exchange(limited_service, chunked(WRITE, JSON, CLOSE, method="PUT") + chunks + b"0\r\n\r\n")

    assert only(responses).status == 200


def test_empty_lines_in_a_chunked_body_are_data(limited_service: Served) -> None:
    content = b"\r\n\r\n" * 200_000 + body("lines")
    sent = chunked(WRITE, JSON, method="PUT") + chunk(content) + b"0\r\n\r\n" + padded(MAX_HEAD_BYTES, CLOSE)

    assert [response.status for response in exchange(limited_service, sent)] == [200, 200]


@pytest.mark.parametrize(
    "overhead",
    [
        b"1;" + b"x" * 140_000 + b"\r\n \r\n0\r\n\r\n",
        b"1;x=" + b"y" * 140_000,
        b"0" * 140_000 + b"1\r\n \r\n0\r\n\r\n",
        chunk(b" ", b";" + b"x" * 100) * 1_400 + b"0\r\n\r\n",
        b"0\r\nX-Large: " + b"x" * 140_000 + b"\r\n\r\n",
        b"0\r\n" + b"X: y\r\n" * 25_000 + b"\r\n",
        b"0\r\n" + b"X: y\r\n" * 25_000,
        b"0;" + b"x" * 140_000 + b"\r\n\r\n",
    ],
    ids=["extension", "endless extension", "zeros", "extensions", "trailer", "trailers", "endless trailers", "last"],
)
def test_large_overhead_of_a_chunked_body_is_400_and_nothing_is_stored(
    limited_service: Served, overhead: bytes
) -> None:
    sent = chunked(WRITE, JSON, method="PUT") + chunk(body("overhead")) + overhead

    response = only(exchange(limited_service, sent))

    assert response.status == 400
    assert TOO_LARGE in response.detail
    assert not stored(limited_service, "overhead")


def test_a_head_and_trailers_share_the_limit(limited_service: Served) -> None:
    half = MAX_HEAD_BYTES // 2 + 200
    head = chunked(WRITE, JSON, CLOSE, f"X-Half: {'x' * half}", method="PUT")
    content = chunk(body("shared")) + b"0\r\n"

    refused = only(exchange(limited_service, head + content + b"X-Half: " + b"x" * half + b"\r\n\r\n"))

    assert refused.status == 400
    assert TOO_LARGE in refused.detail
    assert only(exchange(limited_service, head + content + b"X: " + b"x" * (half // 2) + b"\r\n\r\n")).status == 200


def test_large_overhead_after_an_early_response_closes_the_connection(limited_service: Served) -> None:
    with connect(limited_service) as connection:
        connection.sendall(chunked("/nowhere"))
        received = connection.recv(65536)
        with suppress(ConnectionError):
            for _ in range(200):
                connection.sendall(b"x" * 10_000 if _ else b"1;" + b"x" * 10_000)
        received += read_all(connection)

    assert only(responses_in(received)).status == 404


@pytest.mark.parametrize(
    "size", [b"no chunk", b"-5", b"-ff", b"+5", b"0x5", b"1_0", b" 5", b"5 ", b"", b";x", b"f" * 17]
)
def test_a_bad_chunk_while_the_application_runs_is_400(limited_service: Served, size: bytes) -> None:
    with connect(limited_service) as connection:
        connection.sendall(chunked(WRITE, JSON, method="PUT") + chunk(body("bad-chunk")))
        httpx.get(f"{limited_service.url}/health/live").raise_for_status()
        connection.sendall(size + b"\r\nhello\r\n0\r\n\r\n")
        response = only(responses_in(read_all(connection)))

    assert response.status == 400
    assert response.detail == "This is not a valid HTTP request"
    assert not stored(limited_service, "bad-chunk")


def test_a_bad_chunk_in_a_stream_whose_response_has_started_closes_the_connection(limited_service: Served) -> None:
    with connect(limited_service) as connection:
        line = json.dumps(document("streamed", 1)).encode() + b"\n"
        connection.sendall(chunked(f"{WRITE}/stream?batch=1", "Content-Type: application/x-ndjson") + chunk(line))
        received = b""
        while b'"stored"' not in received and b"\n" not in received.partition(b"\r\n\r\n")[2]:
            received += connection.recv(65536)
        connection.sendall(b"no chunk\r\n")
        received += read_all(connection)

    assert received.startswith(b"HTTP/1.1 200")
    assert received.count(b"HTTP/1.1") == 1
    assert not received.endswith(b"\r\n0\r\n\r\n"), "the caller could not tell that the stream was cut"


@pytest.mark.parametrize("name", ["Authorization", "X-API-Key"])
def test_a_key_in_a_trailer_is_no_key(guard: KeyedService, name: str) -> None:
    value = guard.keys["boss"] if name == "X-API-Key" else f"Bearer {guard.keys['boss']}"
    content = chunk(b'{"name": "by-trailer"}') + f"0\r\n{name}: {value}\r\n\r\n".encode()
    as_header = (
        chunked("/collections", JSON, CLOSE, f"{name}: {value}")
        + chunk(b'{"name": "by-%b"}' % name.lower().encode())
        + b"0\r\n\r\n"
    )

    assert only(exchange(guard.served, chunked("/collections", JSON, CLOSE) + content)).status == 401
    assert only(exchange(guard.served, as_header)).status == 201


@pytest.mark.parametrize(
    "trailer",
    ["Host: evil.example", "Content-Type: application/msgpack", "Content-Type: text/plain", "Origin: http://a"],
)
def test_a_trailer_is_no_header(limited_service: Served, trailer: str) -> None:
    content = chunk(body("trailers")) + f"0\r\n{trailer}\r\n\r\n".encode()

    responses = exchange(limited_service, chunked(WRITE, JSON, method="PUT") + content + get("/health/live", CLOSE))

    assert [response.status for response in responses] == [200, 200]


# -- Host and Transfer-Encoding -----------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        get(host=None),
        get("/health/live", "Host: 127.0.0.1"),
        get("/health/live", "host: localhost"),
        get("/health/live", "Host: 127.0.0.1", version="1.0"),
        get(host="127.0.0.1, localhost"),
        get(host="a b"),
        get(host="user@127.0.0.1"),
        get(host="127.0.0.1/path"),
        get(host="127.0.0.1:80:80"),
        get(host="127.0.0.1:port"),
        get(host="[::1"),
    ],
    ids=["none", "two", "two alike", "two in 1.0", "list", "blank", "user", "path", "ports", "port", "bracket"],
)
def test_a_request_without_exactly_one_valid_host_is_400(limited_service: Served, head: bytes) -> None:
    response = only(exchange(limited_service, head))

    assert response.status == 400
    assert "Host header" in response.detail


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8080", "[::1]:8080", "[fe80::1%25eth0]", "LOCALHOST", "::"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_hosts_of_probes_are_valid(guard: KeyedService, host: str, version: str) -> None:
    # A service with keys responds to any name; without keys it responds to names of this machine only.
    status = 400 if host == "::" else 200

    assert only(exchange(guard.served, get("/health/live", CLOSE, host=host, version=version))).status == status


def test_a_request_of_http_1_0_needs_no_host(guard: KeyedService) -> None:
    assert only(exchange(guard.served, get(host=None, version="1.0"))).status == 200


@pytest.mark.parametrize("coding", ["gzip, chunked", "xchunked", "identity", "gzip", "chunked, gzip"])
def test_a_request_with_another_transfer_coding_does_nothing(limited_service: Served, coding: str) -> None:
    name = "coded-" + coding.replace(", ", "-")
    httpx.post(f"{limited_service.url}/collections", json={"name": name}).raise_for_status()
    head = f"DELETE /collections/{name} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: {coding}\r\n\r\n".encode()

    assert only(exchange(limited_service, head)).status == 400
    assert httpx.get(f"{limited_service.url}/collections/{name}").status_code == 200


UPGRADE: Final = ("Connection: Upgrade", "Upgrade: h2c")


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_a_request_for_an_upgrade_is_processed_without(limited_service: Served, protocol: str) -> None:
    first = get("/health/live", "Connection: Upgrade", f"Upgrade: {protocol}")

    responses = exchange(limited_service, first + get("/health/live", CLOSE))

    assert [response.status for response in responses] == [200, 200]


def test_the_body_of_a_request_for_an_upgrade_is_no_request(limited_service: Served) -> None:
    hidden = f"DELETE {WRITE}/all HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    head = get("/health/live", *UPGRADE, f"Content-Length: {len(hidden)}")

    assert only(exchange(limited_service, head, hidden)).status == 400


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_caller_that_closes_reads_the_early_response_to_a_large_body(limited_service: Served, version: str) -> None:
    size = 3 * MAX_BODY
    head = f"PUT {WRITE} HTTP/{version}\r\nHost: 127.0.0.1\r\n{CLOSE}\r\n{JSON}\r\nContent-Length: {size}\r\n\r\n"
    with connect(limited_service) as connection:
        connection.sendall(head.encode())
        for _ in range(size // 10_000):
            connection.sendall(b" " * 10_000)
        assert only(responses_in(read_all(connection))).status == 413


# -- memory and others --------------------------------------------------------------------------


def resident_bytes(service: Served) -> int:
    """Memory of a service without its children."""
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


@pytest.mark.parametrize(
    ("start", "block"),
    [
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"X-A: b\r\n" * 8_192),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ", b"b" * 65_536),
        (b"GET /", b"b" * 65_536),
        (chunked("/collections", JSON) + b"1;", b"b" * 65_536),
        (chunked("/collections", JSON) + b"0\r\n", b"X-A: b\r\n" * 8_192),
    ],
    ids=["headers", "header", "line", "extension", "trailers"],
)
def test_endless_heads_take_no_memory_and_others_get_their_responses(
    limited_service: Served, start: bytes, block: bytes
) -> None:
    connections, size = 50, 64 * MIB
    send_without_end(limited_service, start, block, MIB)
    before = resident_bytes(limited_service)
    largest = before
    responses: list[bytes] = []

    def send(count: int) -> None:
        for _ in range(count):
            responses.append(send_without_end(limited_service, start, block, size // connections))

    send_without_end(limited_service, start, block, size)
    senders = [threading.Thread(target=send, args=(connections // 5,)) for _ in range(5)]
    for sender in senders:
        sender.start()
    with httpx.Client(base_url=limited_service.url, timeout=TIMEOUT_SECONDS) as other:
        while any(sender.is_alive() for sender in senders):
            assert other.get("/health/live").status_code == 200
            largest = max(largest, resident_bytes(limited_service))
    for sender in senders:
        sender.join()

    assert len(responses) == connections
    assert all(not received or received.startswith(b"HTTP/1.1 400 ") for received in responses)
    assert max(largest, resident_bytes(limited_service)) - before < 16 * MIB
