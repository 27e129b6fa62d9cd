"""One stream of documents: its lines are received, batched, stored and acknowledged.

While one batch is being stored, the next one is received, but no further: the service stops reading, and the
connection's flow control stops the client. So a stream needs the same memory however long it is.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias
from uuid import uuid4

import msgspec
import structlog
from litestar.types import HTTPReceiveMessage, HTTPResponseBodyEvent, HTTPResponseStartEvent, Receive, Scope, Send

from ragstore.errors import BatchTooLarge
from ragstore.kit import context
from ragstore.kit.background import cancel_all
from ragstore.kit.byte_budget import FREE_BYTES, hold, shrink
from ragstore.kit.context import renew_deadline
from ragstore.kit.decoding import NDJSON
from ragstore.kit.errors import ServiceError, Stopping, Unauthorized
from ragstore.kit.problems import problem_of
from ragstore.model.documents import Batch, Write
from ragstore.model.received_documents import ReceivedDocuments
from ragstore.operations.check_documents import checked_batch
from ragstore.operations.repeated_ids import chunk_of, split_at_repeated_ids
from ragstore.operations.stream.events import StreamDone, StreamFailed, StreamStored
from ragstore.operations.stream.line_errors import with_line_numbers
from ragstore.operations.stream.ndjson import Line, LineSplitter
from ragstore.operations.write_documents import write_batch
from ragstore.store.protocol import Store

Mode: TypeAlias = Literal["add", "upsert"]
LineDecoder: TypeAlias = Callable[[Sequence[bytes], Callable[[int], str]], Awaitable[ReceivedDocuments]]

MAX_BATCH_DOCUMENTS: Final = 1000
"""Maximum number of documents in a batch. Larger batches take more memory and gain little, since Chroma's cost is then
per document."""

MAX_BATCH_BYTES: Final = 8 * 1024 * 1024
"""Maximum size of a batch's lines. A larger line is a batch of its own."""

MAX_BATCH_DELAY_SECONDS: Final = 0.25
"""How long an incomplete batch waits for more lines. Otherwise a slow client would cost one call to Chroma per line."""

STOP_CHECK_SECONDS: Final = 0.25
"""How often a stream that waits for lines checks whether the service is stopping."""

DRAIN_SECONDS: Final = 5.0
"""How long the rest of the body is received and dropped after a failure. Closing a connection with unread bytes resets
it, and the client might not receive the response."""

DRAIN_SILENCE_SECONDS: Final = 0.25
"""Stop draining after this much silence."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """The configuration of all streams.

    Attributes:
        max_batch_documents: maximum number of documents in one write to Chroma.
        max_line_bytes: maximum size of a line.
        stopping: set when the service is stopping.
        is_authorized: whether the client may still write; a stream outlives the check of its key.
    """

    max_batch_documents: int
    max_line_bytes: int
    stopping: threading.Event
    is_authorized: Callable[[], bool] = lambda: True


@dataclass(frozen=True, slots=True)
class NumberedBatch:
    """A batch whose ids may repeat.

    Attributes:
        batch: the documents.
        line_numbers: the number of each document's line.
        size: size of the lines in bytes.
    """

    batch: Batch
    line_numbers: list[int]
    size: int


class DocumentStream:
    """One stream, as an ASGI application. It raises an error that occurs before the first acknowledgement.

    Args:
        collection: the name of a collection of the store.
        mode: `add` fails on existing ids, `upsert` replaces their documents.
        config: limits, and the event that ends all streams.
        decode: decodes lines. Its second argument generates the id of a document without one, from its
            index.
    """

    def __init__(self, store: Store, collection: str, mode: Mode, config: StreamConfig, decode: LineDecoder) -> None:
        self._store = store
        self._collection = collection
        self._mode = mode
        self._decode = decode
        self._max_batch_documents = min(MAX_BATCH_DOCUMENTS, config.max_batch_documents)
        self._stopping = config.stopping
        self._is_authorized = config.is_authorized
        self._lines = LineSplitter(config.max_line_bytes)
        self._id_prefix = f"{uuid4().hex}-"
        self._receiving: asyncio.Task[HTTPReceiveMessage] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._body_complete = False
        self._disconnected = False
        self._response_started = False
        self._gathered_bytes = 0
        self._last_line = 0
        self._count = 0
        self._batches = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Receive the stream, and acknowledge each batch.

        Raises:
            ServiceError: the first batch failed or never arrived.
        """
        self._receive = receive
        self._send = send
        try:
            failure = await self._ingest()
            if self._disconnected:
                self._log_end("disconnected", 0)
            elif failure is None:
                done = StreamDone("done", self._collection, self._last_line, self._count, self._batches)
                await self._send_line(done, more=False)
                self._log_end("done", 200)
            else:
                self._log_end("failed", failure.status)
                await self._send_failure(failure)
        finally:
            await cancel_all((self._receiving, self._writing))

    async def _ingest(self) -> ServiceError | None:
        """Store batch after batch.

        Returns:
            The error that ended the stream early. The batch that was in flight has completed and is acknowledged.
        """
        failure: ServiceError | None = None
        try:
            while (numbered := await self._next_batch()) is not None:
                await self._finish_write()
                self._check_permission()
                self._writing = asyncio.create_task(self._write(numbered))
        except ServiceError as error:
            failure = error
        try:
            await self._finish_write()
        except ServiceError as error:  # takes precedence: its lines are earlier
            failure = error
        return failure

    async def _next_batch(self) -> NumberedBatch | None:
        """The next batch, decoded; None at the end of the lines."""
        lines = await self._gather_lines()
        if not lines:
            return None
        numbers = [line.number for line in lines]
        contents = [line.content for line in lines]
        try:
            received = await self._decode(contents, lambda index: f"{self._id_prefix}{numbers[index]}")
            batch = await checked_batch(self._store, self._collection, received)
        except ServiceError as error:
            raise with_line_numbers(error, numbers) from None
        return NumberedBatch(batch, numbers, sum(map(len, contents)))

    async def _gather_lines(self) -> list[Line]:
        """The lines of the next batch: until it is full, or until its delay is over and no other batch is in flight."""
        loop = asyncio.get_running_loop()
        gathered: list[Line] = []
        size = 0
        due: float | None = None
        while True:
            while self._lines.ready and not self._disconnected:
                size += len(self._lines.ready[0].content)
                if gathered and (size > MAX_BATCH_BYTES or len(gathered) == self._max_batch_documents):
                    return gathered
                gathered.append(self._lines.take())
                self._gathered_bytes += len(gathered[-1].content)
            if self._disconnected:
                return []
            if self._body_complete:
                return gathered
            if gathered and due is None:
                due = loop.time() + MAX_BATCH_DELAY_SECONDS
            if due is not None and self._writing is None and loop.time() >= due:
                return gathered
            await self._wait_for_input(STOP_CHECK_SECONDS if due is None else due - loop.time())

    async def _wait_for_input(self, seconds: float) -> None:
        """Wait for a message, at most for some time, and at most until the batch in flight completes.

        Raises:
            Stopping: the service is stopping.
            ServiceError: the batch in flight failed, or no line arrived in time.
        """
        if self._receiving is None:
            self._receiving = asyncio.create_task(self._next_message())
        tasks = {task for task in (self._receiving, self._writing) if task is not None}
        seconds = min(seconds, STOP_CHECK_SECONDS) if seconds > 0 else STOP_CHECK_SECONDS
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if self._writing is not None and self._writing.done():
            await self._finish_write()
        self._check_permission()
        if self._receiving.done():
            message = self._receiving.result()
            self._receiving = None
            self._handle(message)
            await self._hold()

    async def _hold(self) -> None:
        """Report the bytes that the stream holds: lines that are incomplete, complete, or in a batch."""
        await hold(self._held_bytes())

    def _held_bytes(self) -> int:
        held = self._lines.held_bytes + self._gathered_bytes
        return held if held > FREE_BYTES else 0

    def _check_permission(self) -> None:
        """Check whether the stream may continue.

        Raises:
            Stopping: the service is stopping.
            Unauthorized: the client's key was removed, or has other rights.
        """
        if self._stopping.is_set():
            raise Stopping("The service is stopping")
        if not self._is_authorized():
            raise Unauthorized("The key is not valid any more")

    async def _next_message(self) -> HTTPReceiveMessage:
        return await self._receive()  # type: ignore[return-value]  # a request's messages are of HTTP

    def _handle(self, message: HTTPReceiveMessage) -> None:
        if message["type"] == "http.disconnect":
            self._disconnected = True
            return
        # An endless line, or bytes that trickle in, are not progress.
        if self._lines.feed(message.get("body", b"")):
            renew_deadline()
        if not message.get("more_body", False):
            self._lines.end()
            self._body_complete = True

    async def _finish_write(self) -> None:
        """Wait for the batch in flight, if there is one.

        Raises:
            ServiceError: it was not stored.
        """
        if self._writing is not None:
            try:
                await self._writing
            finally:
                self._writing = None

    async def _write(self, numbered: NumberedBatch) -> None:
        """Store and acknowledge a batch. A repeated id is written again by a later chunk, so its last line wins."""
        for first, chunk in split_at_repeated_ids(numbered.batch):
            await self._write_chunk(chunk, numbered.line_numbers[first : first + len(chunk)])
        self._gathered_bytes -= numbered.size
        shrink(self._held_bytes())

    async def _write_chunk(self, chunk: Batch, numbers: list[int]) -> None:
        """Store and acknowledge a chunk; in parts, if Chroma's rejection shows that its quota is lower than known."""
        renew_deadline()
        try:
            await write_batch(self._store, self._collection, Write(self._mode, chunk))
        except ServiceError as error:
            size = await self._store.max_batch_size() if isinstance(error, BatchTooLarge) else len(chunk)
            if size >= len(chunk):
                raise with_line_numbers(error, numbers) from None
            self._max_batch_documents = min(self._max_batch_documents, size)
            for start in range(0, len(chunk), size):
                end = min(start + size, len(chunk))
                await self._write_chunk(chunk_of(chunk, start, end), numbers[start:end])
            return
        self._last_line = numbers[-1]
        self._count += len(chunk)
        self._batches += 1
        generated = any(document_id.startswith(self._id_prefix) for document_id in chunk.ids)
        id_prefix = self._id_prefix if generated else msgspec.UNSET
        await self._send_line(StreamStored("stored", numbers[0], numbers[-1], len(chunk), id_prefix), more=True)
        renew_deadline()  # the client may have waited for the line before it sends more

    async def _send_line(self, line: StreamStored | StreamDone | StreamFailed, *, more: bool) -> None:
        """Send a line of the response. The first line starts the response."""
        renew_deadline()
        if not self._response_started:
            self._response_started = True
            start: HTTPResponseStartEvent = {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-type", NDJSON.encode())],
            }
            await self._send(start)
        await self._send(_body(msgspec.json.encode(line) + b"\n", more=more))

    async def _send_failure(self, failure: ServiceError) -> None:
        """Respond with the failure: with a problem document if nothing was stored, else as the last line."""
        if not self._response_started:
            raise failure
        counts = (self._collection, self._last_line, self._count, self._batches)
        await self._send_line(StreamFailed("failed", *counts, problem_of(failure)), more=True)
        await self._drain()
        await self._send(_body(b"", more=False))

    async def _drain(self) -> None:
        """Receive and drop the rest of the body."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DRAIN_SECONDS
        while not (self._body_complete or self._disconnected) and loop.time() < deadline:
            if self._receiving is None:
                self._receiving = asyncio.create_task(self._next_message())
            await asyncio.wait({self._receiving}, timeout=DRAIN_SILENCE_SECONDS)
            if not self._receiving.done() or self._receiving.exception() is not None:
                return
            message = self._receiving.result()
            self._receiving = None
            self._disconnected = message["type"] == "http.disconnect"
            self._body_complete = not message.get("more_body", False)

    def _log_end(self, end: str, status: int) -> None:
        """Log the end of the stream, and set the status of its audit entry."""
        _log.info(
            "stream ended",
            collection=self._collection,
            end=end,
            status=status,
            last_line=self._last_line,
            count=self._count,
            batches=self._batches,
        )
        if end == "failed":
            context.record_status(status)


def _body(content: bytes, *, more: bool) -> HTTPResponseBodyEvent:
    return {"type": "http.response.body", "body": content, "more_body": more}
