"""A chat whose key is withdrawn ends, although its key was valid when it began."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.chat.test_faults import error_of
from tests.support.fake_upstream import Exchange, FakeUpstream, delta, hang
from tests.support.gateways import start_gateway, write_keys
from tests.support.process_fixtures import starts_process
from tests.support.raw_http import connect, read_all
from tests.support.servers import Served, free_port, running

pytestmark = pytest.mark.process

MAX_SECONDS = 2.0
"""The limit of the contract: for the end of a stream after its key was withdrawn."""

ROLES = {"kept": "admin", "withdrawn": "reader"}


@pytest.fixture(scope="module")
@starts_process
def served(upstream: FakeUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    """A gateway with keys, and their file."""
    folder = tmp_path_factory.mktemp("withdrawn")
    write_keys(folder / "keys", ROLES)
    environ = {
        "RAGSTORE_URL": f"http://127.0.0.1:{free_port()}",
        "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url,
        "RAGSTORE_GATEWAY_KEYS_FILE": str(folder / "keys"),
        "RAGSTORE_GATEWAY_RAG_ENABLED": "false",
    }
    with running(start_gateway(folder, environ, ready=False)) as gateway:
        yield gateway, folder / "keys"


@pytest.fixture
def keys(served: tuple[Served, Path]) -> Path:
    """The file of keys, in which both are valid when the test begins."""
    file = served[1]
    write_keys(file, ROLES)
    deadline = time.monotonic() + 20
    while httpx.get(served[0].url + "/v1/models", headers=bearer("withdrawn")).status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return file


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer rsk_{name}"}


def body(name: str, *, stream: bool = True) -> dict[str, Any]:
    return {"model": name, "stream": stream, "messages": [{"role": "user", "content": "Tea?"}]}


async def flood(exchange: Exchange) -> None:
    """Send events until the connection is closed."""
    await exchange.begin_stream()
    try:
        while True:
            await exchange.chunk(delta("tea " * 1000))
    except ConnectionError:
        exchange.request.closed.set()
        raise


async def trickle(exchange: Exchange) -> None:
    """Send one event, and wait until the connection is closed."""
    await exchange.begin_stream()
    await exchange.chunk(delta("Tea"))
    await exchange.until_closed()


@pytest.mark.parametrize("model", ["m", "rag/m"])
def test_a_stream_of_a_withdrawn_key_ends_with_an_error_event_and_its_upstream_request_is_cancelled(
    served: tuple[Served, Path], keys: Path, upstream: FakeUpstream, model: str
) -> None:
    upstream.on("m", trickle)
    url = served[0].url + "/v1/chat/completions"
    with (
        httpx.stream("POST", url, json=body(model), headers=bearer("kept"), timeout=30) as kept,
        httpx.stream("POST", url, json=body(model), headers=bearer("withdrawn"), timeout=30) as withdrawn,
    ):
        chunks = withdrawn.iter_text()
        text = next(chunks)
        own = upstream.chats()[-1]
        write_keys(keys, {"kept": "admin"})
        started = time.monotonic()
        text += "".join(chunks)
        seconds = time.monotonic() - started
        assert own.closed.wait(5)
        # The end of an iterator closes its response, so this one has a name.
        kept_chunks = kept.iter_text()
        assert next(kept_chunks) == text.partition("event: error")[0]
        assert not upstream.chats()[-2].closed.is_set()
    upstream.off("m")
    event = text.partition("event: error\ndata: ")[2]
    assert json.loads(event)["error"]["type"] == "authentication_error"
    assert "[DONE]" not in text
    assert seconds < MAX_SECONDS


def test_a_key_with_other_rights_ends_its_streams_too(
    served: tuple[Served, Path], keys: Path, upstream: FakeUpstream
) -> None:
    upstream.on("m", trickle)
    url = served[0].url + "/v1/chat/completions"
    with httpx.stream("POST", url, json=body("m"), headers=bearer("withdrawn"), timeout=30) as response:
        chunks = response.iter_text()
        text = next(chunks)
        write_keys(keys, {**ROLES, "withdrawn": "writer"})
        text += "".join(chunks)
    upstream.off("m")
    assert "authentication_error" in text


def test_a_request_that_waits_for_the_upstream_is_401(
    served: tuple[Served, Path], keys: Path, upstream: FakeUpstream
) -> None:
    upstream.on("m", hang)
    before = len(upstream.chats())
    responses: list[httpx.Response] = []
    url = served[0].url + "/v1/chat/completions"

    def call() -> None:
        responses.append(httpx.post(url, json=body("m", stream=False), headers=bearer("withdrawn"), timeout=30))

    thread = threading.Thread(target=call)
    thread.start()
    while len(upstream.chats()) == before:
        time.sleep(0.02)
    write_keys(keys, {"kept": "admin"})
    thread.join(30)
    assert upstream.chats()[-1].closed.wait(5)
    upstream.off("m")
    assert error_of(responses[0], 401)["code"] == "unauthorized"


def test_a_caller_that_does_not_read_is_disconnected(
    served: tuple[Served, Path], keys: Path, upstream: FakeUpstream
) -> None:
    upstream.on("m", flood)
    before = len(upstream.chats())
    content = json.dumps(body("m")).encode()
    lines = ["Host: x", "Authorization: Bearer rsk_withdrawn", f"Content-Length: {len(content)}", "", ""]
    head = "\r\n".join(["POST /v1/chat/completions HTTP/1.1", *lines])
    with connect(served[0]) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.sendall(head.encode() + content)
        while len(upstream.chats()) == before:
            time.sleep(0.02)
        write_keys(keys, {"kept": "admin"})
        assert upstream.chats()[-1].closed.wait(MAX_SECONDS + 3)
        deadline = time.monotonic() + 20
        while "streams_in_progress 0.0" not in httpx.get(served[0].url + "/metrics", headers=bearer("kept")).text:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        received = read_all(connection)
    assert received.startswith(b"HTTP/1.1 200")
    assert not received.endswith(b"0\r\n\r\n")
    upstream.off("m")
