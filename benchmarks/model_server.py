"""A model server that responds immediately, on raw asyncio: what is measured is the gateway in front of it.

    python -m benchmarks.model_server PORT

`stream: true` gets a stream of events, each with the time at which it was sent. In the model's name
`NAME-EVENTS-MILLISECONDS`, the last two parts are their number and the time between them.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from typing import Final, cast

import uvloop

_LENGTH: Final = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_MODEL: Final = re.compile(rb'"model": ?"([^"]*)"')
_PLAN: Final = re.compile(r".*-(\d+)-(\d+)")
_STREAM: Final = re.compile(rb'"stream": ?true')

COMPLETION: Final = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":'
    b'{"role":"assistant","content":"Tea is a drink [1]."},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":10,"completion_tokens":6,"total_tokens":16}}'
)
MODELS: Final = b'{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"bench"}]}'
STREAM_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def event(number: int) -> bytes:
    """An event of a stream, as a chunk of HTTP."""
    data = (
        b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,'
        b'"delta":{"content":" tea %d"},"finish_reason":null}],"sent_ns":%d}\n\n' % (number, time.monotonic_ns())
    )
    return b"%x\r\n%b\r\n" % (len(data), data)


def json_response(body: bytes) -> bytes:
    """A whole response."""
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


_COMPLETION_RESPONSE: Final = json_response(COMPLETION)
_MODELS_RESPONSE: Final = json_response(MODELS)
_LAST: Final = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


class ModelServer(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._input = b""
        self._transport: asyncio.WriteTransport
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A caller has connected."""
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        """Respond to each complete request."""
        self._input += data
        while (end := self._input.find(b"\r\n\r\n")) >= 0:
            head = self._input[:end]
            found = _LENGTH.search(head)
            total = end + 4 + (int(found[1]) if found else 0)
            if len(self._input) < total:
                return
            body, self._input = self._input[end + 4 : total], self._input[total:]
            self._respond(head, body)

    def _respond(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET"):
            self._transport.write(_MODELS_RESPONSE)
        elif _STREAM.search(body):
            model = _MODEL.search(body)
            plan = _PLAN.fullmatch(model[1].decode()) if model else None
            events, gap = (int(plan[1]), int(plan[2]) / 1000) if plan else (1, 0.0)
            task = asyncio.get_running_loop().create_task(self._stream(events, gap))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._transport.write(_COMPLETION_RESPONSE)

    async def _stream(self, events: int, gap: float) -> None:
        self._transport.write(STREAM_HEAD)
        for number in range(events):
            self._transport.write(event(number))
            await asyncio.sleep(gap)
        self._transport.write(_LAST)


async def serve(port: int) -> None:
    """Serve until the process is stopped."""
    server = await asyncio.get_running_loop().create_server(ModelServer, "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
