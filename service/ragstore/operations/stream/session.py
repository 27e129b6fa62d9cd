"""Documents that come line by line: read, gathered into batches, stored, acknowledged.

While one batch is written the next one is read, and no more: then the sender waits, since nobody takes what it sends.
So a stream needs the same memory however long it is.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias
from uuid import uuid4

import msgspec
import structlog
from litestar.types import HTTPReceiveMessage, HTTPResponseBodyEvent, HTTPResponseStartEvent, Receive, Scope, Send

from ragstore.kit import context
from ragstore.kit.context import renew_deadline
from ragstore.kit.decoding import NDJSON
from ragstore.kit.errors import ServiceError, Stopping
from ragstore.kit.problems import problem_of
from ragstore.model.documents import Batch, Write
from ragstore.operations.stream.events import StreamDone, StreamFailed, StreamStored
from ragstore.operations.stream.line_errors import with_line_numbers
from ragstore.operations.stream.ndjson import Line, Lines
from ragstore.operations.write_documents import without_repeats
from ragstore.store.protocol import Store, write_batch

Mode: TypeAlias = Literal["add", "upsert"]
BatchDecoder: TypeAlias = Callable[[Sequence[bytes], Callable[[int], str]], Batch]

BATCH_DOCUMENTS: Final = 1000
"""Most documents in a batch. Larger ones gain little (Chroma's cost is then for each document) and take more memory."""

BATCH_BYTES: Final = 8 * 1024 * 1024
"""Most bytes of lines in a batch; a larger line is a batch of its own."""

GATHER_SECONDS: Final = 0.25
"""How long a batch that is not full waits for more lines, so that a slow sender does not cost Chroma a call a line."""

LOOK_SECONDS: Final = 0.25
"""How often a stream that waits for lines looks whether the service stops."""

DRAIN_SECONDS: Final = 5.0
"""How long after a failure what still comes is read and dropped: a connection that is closed over unread bytes is
reset, and the sender might not get to read why."""

DRAIN_SILENCE_SECONDS: Final = 0.25
"""After so long without bytes nothing is taken to come any more."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Streaming:
    """What bounds every stream.

    Attributes:
        batch_documents: most documents in one write of Chroma's.
        line_bytes: most bytes of a line.
        stopping: set when the service stops.
    """

    batch_documents: int
    line_bytes: int
    stopping: threading.Event


@dataclass(frozen=True, slots=True)
class NumberedBatch:
    """A batch whose ids may repeat, and the lines that it came in.

    Attributes:
        batch: the documents.
        numbers: the number of each document's line.
    """

    batch: Batch
    numbers: list[int]


class DocumentStream:
    """One stream, as an ASGI application. What fails before the first acknowledgement is raised.

    Args:
        store: where the collection is.
        collection: its name.
        mode: what to do with documents whose ids are taken.
        bounds: what bounds it.
        decode: makes a batch of lines; its second argument makes the id of a document without one, by its index.
    """

    def __init__(self, store: Store, collection: str, mode: Mode, bounds: Streaming, decode: BatchDecoder) -> None:
        self._store = store
        self._collection = collection
        self._mode = mode
        self._decode = decode
        self._batch_documents = min(BATCH_DOCUMENTS, bounds.batch_documents)
        self._stopping = bounds.stopping
        self._lines = Lines(bounds.line_bytes)
        self._id_prefix = f"{uuid4().hex}-"
        self._receiving: asyncio.Task[HTTPReceiveMessage] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._ended = False
        self._left = False
        self._started = False
        self._last_line = 0
        self._count = 0
        self._batches = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take the stream, and acknowledge each batch of it.

        Raises:
            ServiceError: the first batch failed, or never came.
        """
        self._receive = receive
        self._send = send
        try:
            failure = await self._ingest()
            if self._left:
                self._tell("left", 0)
            elif failure is None:
                await self._answer(
                    StreamDone("done", self._collection, self._last_line, self._count, self._batches), more=False
                )
                self._tell("done", 200)
            else:
                self._tell("failed", failure.status)
                await self._fail(failure)
        finally:
            await self._let_go()

    async def _ingest(self) -> ServiceError | None:
        """Store batch after batch.

        Returns:
            What ended it early; the batch that was under way then was finished and acknowledged.
        """
        failure: ServiceError | None = None
        try:
            while (numbered := await self._next()) is not None:
                await self._written()
                self._check_stopping()
                self._writing = asyncio.create_task(self._write(numbered))
        except ServiceError as error:
            failure = error
        try:
            await self._written()
        except ServiceError as error:  # of earlier lines, so it comes first
            failure = error
        return failure

    async def _next(self) -> NumberedBatch | None:
        """The next batch, decoded; None when there are no more lines."""
        lines = await self._gather()
        if not lines:
            return None
        numbers = [line.number for line in lines]
        try:
            batch = self._decode([line.content for line in lines], lambda place: f"{self._id_prefix}{numbers[place]}")
        except ServiceError as error:
            raise with_line_numbers(error, numbers) from None
        return NumberedBatch(batch, numbers)

    async def _gather(self) -> list[Line]:
        """Lines for the next batch: until it is full, or has waited long enough and none is being written."""
        loop = asyncio.get_running_loop()
        gathered: list[Line] = []
        size = 0
        due: float | None = None
        while True:
            while self._lines.ready and not self._left:
                size += len(self._lines.ready[0].content)
                if gathered and (size > BATCH_BYTES or len(gathered) == self._batch_documents):
                    return gathered
                gathered.append(self._lines.ready.popleft())
            if self._left:
                return []
            if self._ended:
                return gathered
            if gathered and due is None:
                due = loop.time() + GATHER_SECONDS
            if due is not None and self._writing is None and loop.time() >= due:
                return gathered
            await self._more(LOOK_SECONDS if due is None else due - loop.time())

    async def _more(self, seconds: float) -> None:
        """Wait for bytes, but not longer than some time, and not beyond the end of the batch under way.

        Raises:
            Stopping: the service stops.
            ServiceError: the batch under way failed, or no line came in time.
        """
        if self._receiving is None:
            self._receiving = asyncio.create_task(self._received())
        waited_for = {task for task in (self._receiving, self._writing) if task is not None}
        seconds = min(seconds, LOOK_SECONDS) if seconds > 0 else LOOK_SECONDS
        await asyncio.wait(waited_for, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if self._writing is not None and self._writing.done():
            await self._written()
        self._check_stopping()
        if self._receiving.done():
            message = self._receiving.result()
            self._receiving = None
            self._take(message)

    def _check_stopping(self) -> None:
        if self._stopping.is_set():
            raise Stopping("The service is stopping")

    async def _received(self) -> HTTPReceiveMessage:
        return await self._receive()  # type: ignore[return-value]  # a request's messages are of HTTP

    def _take(self, message: HTTPReceiveMessage) -> None:
        if message["type"] == "http.disconnect":
            self._left = True
            return
        # A line that does not end, or bytes that trickle in, are no progress.
        if self._lines.feed(message.get("body", b"")):
            renew_deadline()
        if not message.get("more_body", False):
            self._lines.end()
            self._ended = True

    async def _written(self) -> None:
        """Wait for the batch under way, if there is one.

        Raises:
            ServiceError: it was not stored.
        """
        if self._writing is not None:
            try:
                await self._writing
            finally:
                self._writing = None

    async def _write(self, numbered: NumberedBatch) -> None:
        """Store a batch, and acknowledge it. A line that names an id again comes in a further write, and so wins."""
        for first, part in without_repeats(numbered.batch):
            numbers = numbered.numbers[first : first + len(part)]
            renew_deadline()
            try:
                await write_batch(self._store, self._collection, Write(self._mode, part))
            except ServiceError as error:
                raise with_line_numbers(error, numbers) from None
            self._last_line = numbers[-1]
            self._count += len(part)
            self._batches += 1
            made = any(document_id.startswith(self._id_prefix) for document_id in part.ids)
            stored = StreamStored(
                "stored", numbers[0], numbers[-1], len(part), self._id_prefix if made else msgspec.UNSET
            )
            await self._answer(stored, more=True)
            renew_deadline()  # the sender may have waited for this before it goes on

    async def _answer(self, line: StreamStored | StreamDone | StreamFailed, *, more: bool) -> None:
        """Send a line of the answer. The answer begins with the first of them."""
        renew_deadline()
        if not self._started:
            self._started = True
            start: HTTPResponseStartEvent = {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-type", NDJSON.encode())],
            }
            await self._send(start)
        await self._send(_body(msgspec.json.encode(line) + b"\n", more=more))

    async def _fail(self, failure: ServiceError) -> None:
        """Answer that the stream has failed: as any request where nothing was stored, else as the last line."""
        if not self._started:
            raise failure
        counts = (self._collection, self._last_line, self._count, self._batches)
        await self._answer(StreamFailed("failed", *counts, problem_of(failure)), more=True)
        await self._drain()
        await self._send(_body(b"", more=False))

    async def _drain(self) -> None:
        """Read and drop what still comes."""
        loop = asyncio.get_running_loop()
        until = loop.time() + DRAIN_SECONDS
        while not (self._ended or self._left) and loop.time() < until:
            if self._receiving is None:
                self._receiving = asyncio.create_task(self._received())
            await asyncio.wait({self._receiving}, timeout=DRAIN_SILENCE_SECONDS)
            if not self._receiving.done() or self._receiving.exception() is not None:
                return
            message = self._receiving.result()
            self._receiving = None
            self._left = message["type"] == "http.disconnect"
            self._ended = not message.get("more_body", False)

    async def _let_go(self) -> None:
        """End what is still under way when the stream itself was ended."""
        tasks = [task for task in (self._receiving, self._writing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _tell(self, end: str, status: int) -> None:
        """Tell the log and the audit trail how it ended."""
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
            context.ended(status)


def _body(content: bytes, *, more: bool) -> HTTPResponseBodyEvent:
    return {"type": "http.response.body", "body": content, "more_body": more}
