"""Sends documents to a knowledge base, and waits until they are ingested."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import IO, Final

import click
import msgspec

from ragstore_gateway.commands.documents import Document
from ragstore_gateway.commands.gateway_client.client import BatchDocument, GatewayClient
from ragstore_gateway.commands.gateway_client.connection import BUSY_CODES, MAX_REPETITIONS, GatewayFailed
from ragstore_gateway.commands.gateway_client.responses import State
from ragstore_gateway.commands.progress import DocumentProgress

CONCURRENCY: Final = 4
"""Requests whose documents are in flight. The gateway has a queue of its own."""

MAX_DOCUMENTS: Final = 64
MAX_BYTES: Final = 2 * 1024 * 1024
"""Maximum number and size of the documents of one request."""

MAX_SMALL_BYTES: Final = 256 * 1024
"""Size of the largest document that is sent together with others."""

POLL_SECONDS: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0)
"""Waits between two requests for the states of ingestions. The last one repeats."""

BUSY_SECONDS: Final = 1.0
"""The wait before documents for which the gateway's queue had no room are sent again."""

MAX_FAILED_POLLS: Final = 60
"""Number of requests for states that may fail in a row: jobs survive a restart of the gateway."""

QUEUE: Final = "queue"
"""The reason of documents that have not begun. It is not shown."""


class Line(msgspec.Struct, omit_defaults=True):
    """The outcome of a document, as `--json` prints it.

    Attributes:
        name: its name in the knowledge base.
        ok: whether it was ingested.
        chunks: number of its chunks.
        unchanged: whether it was ingested before, so that nothing was embedded.
        error: why it was not ingested.
    """

    name: str
    ok: bool
    chunks: int = 0
    unchanged: bool = False
    error: str = ""


def reporter(*, as_json: bool) -> Callable[[Line], None]:
    """A function that prints the outcome of a document.

    Args:
        as_json: whether it prints JSON.
    """

    def report(line: Line) -> None:
        if as_json:
            click.echo(msgspec.json.encode(line).decode())
        elif not line.ok:
            click.echo(f"{line.name}: failed: {line.error}")
        else:
            click.echo(f"{line.name}: {'unchanged' if line.unchanged else f'{line.chunks} chunks'}")

    return report


async def ingest_all(
    gateway: GatewayClient,
    base_id: str,
    documents: Iterable[Document],
    progress: DocumentProgress,
    report: Callable[[Line], None],
) -> int:
    """Ingest documents. A document that fails does not end the others.

    Args:
        base_id: the knowledge base.
        progress: shows each step.
        report: is called with the outcome of each document, in the order of the documents.

    Returns:
        The number of documents that failed.
    """
    sending = _Sending(gateway, base_id, progress, _Lines(progress, report))
    requests = sending.requests(documents)
    # An asynchronous iterator has one caller at a time.
    taking = asyncio.Lock()

    async def work() -> None:
        while True:
            async with taking:
                request = await anext(requests, None)
            if request is None:
                return
            await sending.ingest(request)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONCURRENCY):
            tasks.create_task(work())
    return sending.lines.failed


class _Lines:
    """The outcomes of documents, in the order of the documents.

    A slow document delays the lines of later ones, but not their ingestion.

    Attributes:
        failed: number of documents that failed.
    """

    def __init__(self, progress: DocumentProgress, report: Callable[[Line], None]) -> None:
        self.failed = 0
        self._progress = progress
        self._report = report
        self._waiting: dict[int, Line] = {}
        self._reported = 0

    def add(self, number: int, line: Line) -> None:
        """Add the outcome of a document.

        Args:
            number: its place among all documents.
        """
        self._waiting[number] = line
        self._progress.done(line.name)
        self.failed += not line.ok
        while self._reported in self._waiting:
            self._report(self._waiting.pop(self._reported))
            self._reported += 1

    def fail(self, number: int, name: str, error: OSError | GatewayFailed) -> None:
        """Add the outcome of a document that could not be sent."""
        reason = (error.strerror or type(error).__name__) if isinstance(error, OSError) else str(error)
        self.add(number, Line(name, False, error=reason))


@dataclass(frozen=True, slots=True)
class _Ready:
    """A document to send.

    Attributes:
        number: its place among all documents.
        content: its content; None if the gateway reads it from the web.
        size: the size of its content in bytes.
    """

    number: int
    document: Document
    content: IO[bytes] | None = None
    size: int = 0


class _Sending:
    """Sends documents, small ones together, and waits until they are ingested."""

    def __init__(self, gateway: GatewayClient, base_id: str, progress: DocumentProgress, lines: _Lines) -> None:
        self.lines = lines
        self._gateway = gateway
        self._base_id = base_id
        self._progress = progress

    async def requests(self, documents: Iterable[Document]) -> AsyncIterator[Sequence[_Ready]]:
        """Open documents, and divide them into requests. A page of the web is alone, and a large document, too."""
        together: list[_Ready] = []
        size = 0
        for number, document in enumerate(documents):
            if document.is_remote:
                yield [_Ready(number, document)]
                continue
            try:
                content = await document.open(self._gateway)
                ready = _Ready(number, document, content, await asyncio.to_thread(content.seek, 0, os.SEEK_END))
            except OSError as error:
                self.lines.fail(number, document.name, error)
                continue
            if ready.size > MAX_SMALL_BYTES:
                yield [ready]
                continue
            if len(together) == MAX_DOCUMENTS or size + ready.size > MAX_BYTES:
                yield together
                together, size = [], 0
            together.append(ready)
            size += ready.size
        if together:
            yield together

    async def ingest(self, request: Sequence[_Ready]) -> None:
        """Ingest the documents of a request, and report the outcome of each."""
        left = {each.number: each for each in request}
        try:
            await (self._send(request[0], left) if len(request) == 1 else self._send_together(left))
        except (OSError, GatewayFailed) as error:
            for number, each in left.items():
                self.lines.fail(number, each.document.name, error)
        finally:
            for each in request:
                if each.content is not None:
                    each.content.close()

    async def _send(self, ready: _Ready, left: dict[int, _Ready]) -> None:
        document = ready.document
        content = await document.open(self._gateway) if ready.content is None else ready.content
        with content:
            id = await self._gateway.ingest(
                self._base_id, document.name, content, document.media_type, document.metadata
            )
        await self._until_ended({id: ready}, left)

    async def _send_together(self, left: dict[int, _Ready]) -> None:
        """Send documents with one request, and again where the queue had no room."""
        accepted: dict[str, _Ready] = {}
        waiting = list(left.values())
        repetitions = 0
        while waiting:
            lines = [await asyncio.to_thread(_line, each) for each in waiting]
            outcomes = await self._gateway.ingest_batch(self._base_id, lines)
            again: list[_Ready] = []
            for each, outcome in zip(waiting, outcomes, strict=True):
                if outcome.ingestion_id:
                    accepted[outcome.ingestion_id] = each
                elif outcome.code in BUSY_CODES and repetitions < MAX_REPETITIONS:
                    again.append(each)
                else:
                    del left[each.number]
                    self.lines.add(each.number, Line(each.document.name, False, error=outcome.detail))
            waiting = again
            repetitions += 1
            if waiting:
                await asyncio.sleep(BUSY_SECONDS)
        await self._until_ended(accepted, left)

    async def _until_ended(self, accepted: dict[str, _Ready], left: dict[int, _Ready]) -> None:
        """Wait until ingestions have ended.

        Args:
            accepted: the documents by their ingestions.
            left: the documents without an outcome.

        Raises:
            GatewayFailed: their states cannot be read.
        """
        polls = failed = 0
        while accepted:
            await asyncio.sleep(POLL_SECONDS[min(polls, len(POLL_SECONDS) - 1)])
            polls += 1
            try:
                progress = await self._gateway.progress(self._base_id, list(accepted))
            except GatewayFailed as error:
                failed += 1
                is_temporary = error.status == 0 or error.status >= 500 or error.status == 429
                if not is_temporary or failed == MAX_FAILED_POLLS:
                    raise
                continue
            failed = 0
            self._progress.waits(", ".join(sorted(set(progress.waiting_for) - {QUEUE})))
            for state in progress.ingestions:
                document = accepted[state.ingestion_id].document
                if state.has_ended:
                    number = accepted.pop(state.ingestion_id).number
                    del left[number]
                    self.lines.add(number, _ended(document.name, state))
                else:
                    self._progress.part(document.name, state.progress)


def _line(ready: _Ready) -> BatchDocument:
    assert ready.content is not None  # noqa: S101  # only opened documents are sent together
    ready.content.seek(0)
    document = ready.document
    return BatchDocument(document.name, document.media_type, ready.content.read(), document.metadata)


def _ended(name: str, state: State) -> Line:
    if state.status == "completed":
        return Line(name, True, state.chunks, unchanged=state.unchanged)
    return Line(name, False, error=state.status.removeprefix("failed: "))
