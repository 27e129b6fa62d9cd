"""A model server whose behaviour a test determines, in a thread of the test process. It records requests."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

TIMEOUT_SECONDS = 20.0


@dataclass
class UpstreamRequest:
    """A request that the upstream received.

    Attributes:
        target: its path and query, as sent.
        headers: its headers, names in lower case.
        closed: set when the connection was closed from the other side.
    """

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    closed: threading.Event = field(default_factory=threading.Event)

    @property
    def json(self) -> Any:
        """Its body, decoded."""
        return json.loads(self.body)

    def header(self, name: str) -> list[str]:
        """All values of a header."""
        return [value for own, value in self.headers if own == name]

    @property
    def model(self) -> str:
        """The model that it names."""
        with suppress(ValueError, AttributeError):
            return str(json.loads(self.body).get("model", ""))
        return ""


@dataclass
class Exchange:
    """A request in progress, and the means to respond.

    Attributes:
        reader: reads from the gateway.
        writer: writes to the gateway.
    """

    request: UpstreamRequest
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def raw(self, data: bytes) -> None:
        """Send bytes."""
        self.writer.write(data)
        await self.writer.drain()

    async def respond(self, body: bytes, *, status: str = "200 OK", headers: Sequence[str] = ()) -> None:
        """Send a whole response."""
        own = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
        if not any(header.lower().startswith("content-type:") for header in headers):
            own.append("Content-Type: application/json")
        await self.raw("\r\n".join([*own, "", ""]).encode("latin-1") + body)

    async def begin_stream(self, *headers: str) -> None:
        """Send the head of a stream of events."""
        lines = ["HTTP/1.1 200 OK", "Content-Type: text/event-stream; charset=utf-8", "Transfer-Encoding: chunked"]
        await self.raw("\r\n".join([*lines, *headers, "", ""]).encode())

    async def chunk(self, data: bytes) -> None:
        """Send a chunk."""
        await self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    async def end_stream(self) -> None:
        """End the chunks."""
        await self.raw(b"0\r\n\r\n")

    def drop(self) -> None:
        """Reset the connection."""
        self.writer.transport.abort()

    async def until_closed(self) -> None:
        """Wait until the gateway closes the connection."""
        with suppress(ConnectionError):
            await asyncio.wait_for(self.reader.read(1), TIMEOUT_SECONDS)
        self.request.closed.set()

    async def until(self, event: threading.Event) -> None:
        """Wait for an event of the test."""
        await asyncio.to_thread(event.wait, TIMEOUT_SECONDS)


Behaviour: TypeAlias = Callable[[Exchange], Awaitable[None]]


def completion(content: str = "Tea is a drink.", model: str = "m", **more: Any) -> dict[str, Any]:
    """A chat completion."""
    message = {"role": "assistant", "content": content}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 6, "total_tokens": 16},
        **more,
    }


def delta(content: str | None, model: str = "m", finish: str | None = None, *, role: str = "", **more: Any) -> bytes:
    """An event of a stream."""
    own = {**({"role": role} if role else {}), **({} if content is None else {"content": content})}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "delta": own, "finish_reason": finish}],
        **more,
    }
    return b"data: " + json.dumps(body).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


async def answer(exchange: Exchange) -> None:
    """The default: a completion, or a stream of one."""
    request = exchange.request
    if request.method == "GET" and request.target.startswith("/v1/models"):
        data = [{"id": name, "object": "model", "created": 1, "owned_by": "fake"} for name in MODELS]
        await exchange.respond(json.dumps({"object": "list", "data": data, "unknown": 1.50}).encode())
    elif request.model and json.loads(request.body).get("stream"):
        await stream_of("Tea", " is", " a drink", " [1]", ".")(exchange)
    else:
        await exchange.respond(json.dumps(completion(model=request.model or "m")).encode())


def stream_of(*texts: str) -> Behaviour:
    """A stream of texts."""

    async def behave(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(delta("", exchange.request.model, role="assistant"))
        for text in texts:
            await exchange.chunk(delta(text, exchange.request.model))
        await exchange.chunk(delta(None, exchange.request.model, "stop"))
        await exchange.chunk(DONE)
        await exchange.end_stream()

    return behave


def replying(content: str, **more: Any) -> Behaviour:
    """A completion with a text."""

    async def behave(exchange: Exchange) -> None:
        await exchange.respond(json.dumps(completion(content, exchange.request.model, **more)).encode())

    return behave


def responding(body: bytes, status: str = "200 OK", *headers: str) -> Behaviour:
    """One response to every request."""

    async def behave(exchange: Exchange) -> None:
        await exchange.respond(body, status=status, headers=headers)

    return behave


async def hang(exchange: Exchange) -> None:
    """Never respond."""
    await exchange.until_closed()


MODELS = ("m", "local/phi3-en", "openai/gpt-x", "fallback", "cited", "tools", "limited", "broken", "deep/a/b")


class FakeUpstream:
    """The server.

    Args:
        address: the address that it listens on.

    Attributes:
        requests: all requests, in order.
    """

    default: Behaviour = staticmethod(answer)
    """The behaviour for requests without one of their own."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.address = address
        self.port = 0
        self.requests: list[UpstreamRequest] = []
        self._behaviours: dict[str, Behaviour] = {}
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    def on(self, name: str, behaviour: Behaviour) -> str:
        """Set the behaviour for requests that name a model, or whose path ends with a name.

        Returns:
            The name.
        """
        self._behaviours[name] = behaviour
        return name

    def off(self, name: str) -> None:
        """Restore the default behaviour."""
        self._behaviours.pop(name, None)

    def chats(self) -> list[UpstreamRequest]:
        """The requests for completions."""
        return [request for request in self.requests if request.target.startswith("/v1/chat/completions")]

    @property
    def last(self) -> UpstreamRequest:
        """The last request that is not for the list of models."""
        return [request for request in self.requests if not request.target.endswith("/models")][-1]

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while True:
                request = await _read(reader)
                self.requests.append(request)
                name = request.model or request.target.rpartition("/")[2]
                known = self._behaviours
                behaviour = known.get(name) or known.get(name.partition("?")[0], self.default)
                await behaviour(Exchange(request, reader, writer))
                if writer.transport.is_closing():
                    return
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, ready: threading.Event, stop: asyncio.Event, port: int) -> None:
        server = await asyncio.start_server(self._talk, self.address, port, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> UpstreamRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    length = next((int(value) for name, value in headers if name == "content-length"), 0)
    return UpstreamRequest(method, target, headers, await reader.readexactly(length))


@contextmanager
def fake_upstream(port: int = 0) -> Iterator[FakeUpstream]:
    """Run a server while the block runs.

    Args:
        port: its port; a free one when 0.
    """
    upstream = FakeUpstream()
    with serving(upstream, port):
        yield upstream


@contextmanager
def serving(upstream: FakeUpstream, port: int = 0) -> Iterator[None]:
    """Run a given server while the block runs.

    Args:
        upstream: the server.
        port: its port; a free one when 0.
    """
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(upstream._serve(ready, stop, port))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(TIMEOUT_SECONDS)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(TIMEOUT_SECONDS)
