"""However the network cuts what a caller sends, the same requests are parsed.

The protocol runs in the test's own process, so that the test can wait until each piece has been read.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from litestar.types import HTTPScope, Receive, Send
from uvicorn import Config
from uvicorn.server import ServerState

from ragstore.kit.metrics import request_metrics
from ragstore.kit.server.http_protocol import protocol
from ragstore.kit.server.request_meter import MAX_HEAD_BYTES
from tests.support.ledger import TIMEOUT_SECONDS
from tests.support.raw_http import chunk, chunked, get, padded, responses_in

SIZED: Final = b"PUT /sized HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n\r\n\r\nGET / HT"
CHUNKED: Final = (
    chunked("/chunked") + chunk(b"\r\n\r\n0\r\n\r\n", b";a=b") + chunk(b"x") + b"000\r\nHost: b\r\nX-T: y\r\n\r\n"
)
BARE: Final = chunked("/bare") + b"0\r\n\r\n"
LAST: Final = get("/last", "Connection: close")
SENT: Final = b"\r\n" + get("/first") + SIZED + CHUNKED + get("/middle") + BARE + SIZED + CHUNKED + LAST
PATHS: Final = ["/first", "/sized", "/chunked", "/middle", "/bare", "/sized", "/chunked", "/last"]


async def echo(scope: HTTPScope, receive: Receive, send: Send) -> None:
    """Respond with the request as the application sees it."""
    body, more = b"", True
    while more:
        message = await receive()
        assert message["type"] == "http.request"
        body += message["body"]
        more = message["more_body"]
    seen = [
        scope["method"],
        scope["path"],
        [(name.decode(), len(value)) for name, value in scope["headers"]],
        repr(body),
    ]
    content = json.dumps(seen).encode()
    headers = [(b"content-length", b"%d" % len(content))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content, "more_body": False})


async def responses_to(pieces: Sequence[bytes]) -> list[bytes]:
    """Send pieces over a socket, each after the previous one was read, and return the bodies of the responses."""
    config = Config(echo, http=protocol(TIMEOUT_SECONDS, request_metrics("slices")), log_config=None, lifespan="off")
    config.load()
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    state = ServerState()
    await loop.connect_accepted_socket(
        lambda: protocol(TIMEOUT_SECONDS, request_metrics("slices"))(
            config=config, server_state=state, app_state={}, _loop=loop
        ),
        theirs,
    )
    reader, writer = await asyncio.open_connection(sock=ours)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        for _ in range(2):  # one turn of the event loop sees that there is input, and the next one reads it
            await asyncio.sleep(0)
    received = await asyncio.wait_for(reader.read(), TIMEOUT_SECONDS)
    writer.close()
    await writer.wait_closed()
    found = responses_in(received)
    assert [response.status for response in found] == [200] * len(found)
    return [response.body for response in found]


@pytest.fixture(scope="module")
async def whole() -> list[bytes]:
    """The responses when everything is sent in one piece."""
    return await responses_to([SENT])


async def test_what_is_sent_in_one_piece_is_parsed_as_several_requests(whole: list[bytes]) -> None:
    seen = [json.loads(body) for body in whole]

    assert [path for _, path, _, _ in seen] == PATHS
    assert seen[1][3] == repr(b"\r\n\r\nGET / HT")
    assert seen[2][2] == [["host", 9], ["transfer-encoding", 7]]
    assert seen[2][3] == repr(b"\r\n\r\n0\r\n\r\nx")


async def test_a_cut_anywhere_changes_nothing(whole: list[bytes]) -> None:
    for index in range(1, len(SENT)):
        assert await responses_to([SENT[:index], SENT[index:]]) == whole, index


async def test_single_bytes_change_nothing(whole: list[bytes]) -> None:
    assert await responses_to([SENT[index : index + 1] for index in range(len(SENT))]) == whole


@settings(deadline=None)
@given(st.lists(st.integers(1, len(SENT) - 1), max_size=12, unique=True).map(sorted))
def test_several_cuts_change_nothing(indexes: list[int]) -> None:
    ends = [*indexes, len(SENT)]
    pieces = [SENT[start:end] for start, end in zip([0, *indexes], ends, strict=True)]

    async def parsed() -> tuple[list[bytes], list[bytes]]:
        return await responses_to(pieces), await responses_to([SENT])

    cut, uncut = asyncio.run(parsed())
    assert cut == uncut


@pytest.mark.parametrize(
    "before", [b"", get(), SIZED, CHUNKED, BARE], ids=["nothing", "get", "sized", "chunked", "bare"]
)
@pytest.mark.parametrize("cut", [0, 1, 2, 3, 4, 5, 100, MAX_HEAD_BYTES - 2])
async def test_a_head_at_the_limit_is_accepted_after_anything_and_however_it_is_cut(before: bytes, cut: int) -> None:
    sent = before + padded(MAX_HEAD_BYTES, "Connection: close")
    index = len(before) + cut

    assert len(await responses_to([sent[:index], sent[index:]])) == (2 if before else 1)


@pytest.mark.parametrize("count", [3_000])
async def test_thousands_of_pipelined_requests_are_all_processed(count: int) -> None:
    assert len(await responses_to([get() * count + LAST])) == count + 1
